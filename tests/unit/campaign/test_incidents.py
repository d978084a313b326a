"""Which condition holds, from when, and what is said of it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dpone_dagster.campaign.incidents import PUBLICATION_PATIENCE, RUNBOOK, Condition, Incident, Look, incidents_of
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.campaign.vitals import Owed, Refusal
from tests.unit.campaign.looks import NOW, ago, loading, look, spec

SECOND = timedelta(seconds=1)
DOCS = Path(__file__).parents[3] / "docs"


def only(seen: Look, *held: Condition) -> Incident | None:
    found = incidents_of(seen, held)
    assert len(found) <= 1
    return found[0] if found else None


def test_nothing_is_wrong_with_a_campaign_that_loads_or_is_not_there() -> None:
    assert incidents_of(look()) == []
    assert incidents_of(look(**loading(running=2, pending=6, moved=ago(minutes=9)))) == []
    assert incidents_of(look(phase=Phase.HANDOFF_COMMITTED, loaded_at=ago(days=9))) == []


def test_chunks_that_run_and_do_not_move_for_ten_minutes() -> None:
    moved = ago(minutes=10)
    found = only(look(**loading(running=2, pending=6, moved=moved)))
    assert found is not None
    assert (found.condition, found.since, found.dataset) == (Condition.STALLED, moved, "orders")
    assert "2 chunks are running" in found.problem
    assert "10 min" in found.problem
    assert found.incident_id == "orders/stalled/20260301T115000.000000Z"
    assert only(look(**loading(running=2, moved=moved + SECOND))) is None
    assert only(look(**loading(running=0, pending=8, moved=ago(days=3)))) is None, "nobody works on it"
    assert only(look(spec(stalled_after_minutes=11), **loading(running=2, moved=moved))) is None
    assert only(look(spec(stalled_after_minutes=None), **loading(running=2, moved=ago(days=3)))) is None


def test_a_lease_that_ran_out_is_told_at_once() -> None:
    found = only(look(**loading(lease_expired=1, committed=3, lapsed=ago(seconds=1))))
    assert found is not None
    assert (found.condition, found.since) == (Condition.LEASE_EXPIRED, ago(seconds=1))
    assert "1 chunk is held by a worker that is not heard of; the first lease ran out 1 s ago" in found.problem


def test_a_blocked_validation_names_each_red_check_and_the_first_ones_next_step() -> None:
    checks = [
        {"name": "row_count", "passed": True, "problem": "", "next_step": ""},
        {"name": "unique_key", "passed": False, "problem": "3 duplicates", "next_step": "mend the keys"},
        {"name": "not_empty", "passed": False, "problem": "no row", "next_step": "look at the source"},
    ]
    found = only(look(phase=Phase.BLOCKED, phase_at=ago(minutes=1), validation={"passed": False, "checks": checks}))
    assert found is not None
    assert (found.condition, found.since) == (Condition.VALIDATION_BLOCKED, ago(minutes=1))
    assert found.problem.endswith("unique_key: 3 duplicates; not_empty: no row")
    assert found.next_step == "mend the keys"
    without = only(look(phase=Phase.BLOCKED, phase_at=NOW))
    assert without is not None
    assert "status" in without.next_step


def test_a_publication_is_blocked_once_it_has_given_up() -> None:
    since = NOW - PUBLICATION_PATIENCE
    found = only(look(phase=Phase.VALIDATED, refused=Refusal(since, "PUBLICATION_BLOCKED")))
    assert found is not None
    assert (found.condition, found.since) == (Condition.PUBLICATION_BLOCKED, since)
    assert "PUBLICATION_BLOCKED" in found.problem
    assert only(look(phase=Phase.VALIDATED, refused=Refusal(since + SECOND, "PUBLICATION_BLOCKED"))) is None


@pytest.mark.parametrize(
    ("chunks", "hours", "late"),
    [
        ({"committed": 4, "pending": 4, "wall_seconds": 3600.0}, 1.9, True),  # one hour gone, one to go
        ({"committed": 4, "pending": 4, "wall_seconds": 3600.0}, 2.1, False),
        ({"pending": 8}, 0.9, True),  # nothing to forecast by, and the time is over
        ({"pending": 8}, 1.1, False),
        ({"committed": 8, "wall_seconds": 3600.0}, 0.5, False),  # all there
        ({"committed": 1, "pending": 10**9, "wall_seconds": 1e7}, 1e5, True),  # longer than any length of time
        ({"committed": 4, "pending": 4, "wall_seconds": 3600.0}, None, False),
    ],
)
def test_a_load_is_late_when_the_forecast_is(chunks: dict[str, Any], hours: float | None, late: bool) -> None:
    found = only(look(spec(load_within_hours=hours), **loading(**chunks)))
    assert (found is not None) is late
    if found:
        assert (found.condition, found.since) == (Condition.LOAD_LATE, ago(hours=1))


def test_a_forecast_that_sways_around_the_objective_stays_late() -> None:
    seen = look(spec(load_within_hours=2.1), **loading(committed=4, pending=4, wall_seconds=3600.0))
    assert only(seen) is None
    assert only(seen, Condition.LOAD_LATE) is not None
    better = look(spec(load_within_hours=2.3), **loading(committed=4, pending=4, wall_seconds=3600.0))
    assert only(better, Condition.LOAD_LATE) is None


def test_a_handoff_is_owed_by_the_campaigns_manifest_only() -> None:
    owed = Owed("r1", "orders_v1", ago(minutes=10))
    found = only(look(phase=Phase.PUBLISHED, owed=owed))
    assert found is not None
    assert (found.condition, found.since) == (Condition.HANDOFF_PENDING, owed.published_at)
    assert "orders_v1" in found.problem
    assert only(look(spec(handoff_within_minutes=11), owed=owed)) is None
    assert only(look(spec(handoff_within_minutes=None), owed=owed)) is None
    campaign = spec()
    names = ("dataset", "source_ref", "source", "sink_type", "sink_ref", "target", "unique_key", "state", "handoff_id")
    increments = RouteSpec(**{name: getattr(campaign, name) for name in names})
    assert only(look(increments, owed=owed)) is None


def test_an_increment_is_late_an_hour_after_it_was_due() -> None:
    due, loaded = ago(hours=1), ago(hours=25)
    found = only(look(due_at=due, loaded_at=loaded))
    assert found is not None
    assert (found.condition, found.since) == (Condition.INCREMENT_LATE, loaded)
    assert "due 60 min ago" in found.problem
    assert "25 h ago" in found.problem
    assert only(look(due_at=due + SECOND, loaded_at=loaded)) is None, "it may still be at work"
    assert only(look(due_at=NOW + SECOND, loaded_at=ago(hours=1))) is None, "the next one is not due yet"
    assert only(look(due_at=None, loaded_at=ago(days=99))) is None, "none is scheduled"
    assert only(look(due_at=due, loaded_at=None)) is None, "there is no handoff yet"
    owed = look(due_at=due, loaded_at=loaded, owed=Owed("r", "h", NOW))
    assert only(owed) is None, "the handoff is what is missing"
    assert only(look(spec(increment_within_minutes=None), due_at=due, loaded_at=loaded)) is None


def test_several_conditions_are_told_each_by_itself() -> None:
    vitals = loading(running=1, lease_expired=1, pending=6, moved=ago(minutes=20), lapsed=ago(minutes=5))
    seen = look(spec(load_within_hours=0.5), **vitals)
    assert [found.condition for found in incidents_of(seen)] == [
        Condition.STALLED,
        Condition.LEASE_EXPIRED,
        Condition.LOAD_LATE,
    ]


def test_the_runbook_goes_on_with_every_condition() -> None:
    assert set(RUNBOOK) == set(Condition)
    for place in RUNBOOK.values():
        page, anchor = place.removeprefix("docs/").split("#")
        headings = re.findall(r"^## (.+)$", (DOCS / page).read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{page} has no section for {anchor}"


def test_the_page_on_alerts_has_every_condition() -> None:
    page = (DOCS / "alerts.md").read_text()
    for condition, place in RUNBOOK.items():
        assert re.search(rf"^\| `{condition}` \|.*{re.escape(place.removeprefix('docs/'))}", page, re.MULTILINE)
