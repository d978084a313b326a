"""What every adapter says of all that is watched, in one statement."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from dpone_dagster.campaign.errors import KeyInvalid
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.vitals import Refusal, Vitals, Watched
from dpone_dagster.mssql import session
from tests.contract.conftest import Adapter, Parts
from tests.contract.samples import RUN_KEY, TARGET, campaign, checkpoint, claim, plan, publication, receipt, start

ORDERS = Watched(TARGET, RUN_KEY)


def look(target: Parts, watched: Watched = ORDERS) -> Vitals:
    (seen,) = target.ledger.vitals([watched])
    return seen


def move(target: Parts, *phases: Phase, **changes: object) -> None:
    for old, new in zip((Phase.PREPARED, *phases), phases, strict=False):
        assert target.ledger.move(RUN_KEY, frozenset({old}), new, **(changes if new is phases[-1] else {}))


def counting(patch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that either driver sends from now on."""
    sent: list[str] = []
    real, real_mssql = psycopg.Cursor.execute, session._execute

    def execute(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(str(query))
        return real(self, query, *arguments, **options)

    def execute_mssql(cursor: Any, statement: str, values: Any) -> None:
        sent.append(statement)
        real_mssql(cursor, statement, values)

    patch.setattr(psycopg.Cursor, "execute", execute)
    patch.setattr(session, "_execute", execute_mssql)
    return sent


def test_of_what_was_never_prepared_there_is_nothing_but_the_time(target: Parts) -> None:
    target.ledger.provision()
    seen = look(target)
    assert seen == Vitals(now=seen.now)
    assert seen.now.tzinfo is not None
    assert abs(seen.now - datetime.now(UTC)) < timedelta(minutes=5)
    assert target.ledger.vitals([]) == []


def test_a_loading_campaign_has_its_counters_and_the_time_of_its_last_move(target: Parts, adapter: Adapter) -> None:
    start(target, 5)
    before = look(target)
    assert before.phase is Phase.PREPARED
    assert before.loading is not None
    assert before.loading.progress == Progress(5, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
    assert (before.loading.started_at, before.loading.moved_at, before.loading.lapsed_at) == (None, None, None)

    done = claim(target, 0)
    claimed = look(target)
    assert claimed.phase is Phase.LOADING
    assert claimed.loading is not None
    assert claimed.loading.started_at == claimed.loading.moved_at is not None
    target.ledger.complete(done, receipt(0, rows=7), 0.5)
    bad = claim(target, 1)
    target.ledger.fail(bad, KeyInvalid("x"), stop=False)
    claim(target, 2)
    adapter.expire_leases()
    claim(target, 3)
    seen = look(target)
    assert seen.loading is not None
    progress = target.ledger.progress(RUN_KEY)
    assert (progress.committed, progress.failed, progress.lease_expired, progress.running) == (1, 1, 1, 1)
    shown = seen.loading.progress
    assert shown.as_dict() | {"eta_seconds": 0, "rows_per_second": 0} == progress.as_dict() | {
        "eta_seconds": 0,
        "rows_per_second": 0,
    }
    assert abs(shown.wall_seconds - progress.wall_seconds) < 60
    assert seen.loading.started_at == claimed.loading.started_at
    assert seen.loading.moved_at is not None
    assert claimed.loading.moved_at < seen.loading.moved_at <= seen.now
    assert seen.loading.lapsed_at is not None
    assert seen.loading.lapsed_at < seen.now


def test_a_renewed_lease_is_no_move(target: Parts) -> None:
    start(target)
    mine = claim(target, 0)
    before = look(target)
    assert target.ledger.renew(mine)
    after = look(target)
    assert before.loading is not None
    assert after.loading is not None
    assert after.loading.moved_at == before.loading.moved_at


def test_chunks_are_left_alone_where_none_may_be_claimed(target: Parts) -> None:
    start(target)
    claim(target, 0)
    assert target.ledger.cancel(RUN_KEY, "enough", "ada")
    seen = look(target)
    assert (seen.phase, seen.loading) == (Phase.CANCELLED, None)


def test_a_blocked_campaign_has_its_evidence(target: Parts) -> None:
    start(target)
    evidence = {"passed": False, "checks": [{"name": "unique_key", "passed": False}]}
    move(target, Phase.SEALED, Phase.BLOCKED, validation=evidence)
    seen = look(target)
    assert (seen.phase, seen.validation) == (Phase.BLOCKED, evidence)
    record = target.ledger.campaign(RUN_KEY)
    assert record is not None
    assert seen.phase_at == record.updated_at
    assert target.ledger.move(RUN_KEY, frozenset({Phase.BLOCKED}), Phase.SEALED, validation=None)
    assert look(target).validation is None


def test_a_publication_that_was_refused_is_told_since_its_first_try(target: Parts) -> None:
    start(target)
    ledger = target.ledger
    ledger.start_load("run-1", "orders", "campaign", "run-1")
    ledger.start_load("run-2", "customers", "campaign", "run-2")
    ledger.record_step("run-1", "publish", "failed", 1.0, {"code": "PUBLICATION_BLOCKED"})  # before it was validated
    move(target, Phase.SEALED, Phase.VALIDATED)
    assert look(target).refused is None
    for load, step, status, code in (
        ("run-2", "publish", "failed", "CATALOG_DRIFT"),
        ("run-1", "validate", "failed", "CATALOG_DRIFT"),
        ("run-1", "publish", "failed", "INTERRUPTED"),
        ("run-1", "publish", "succeeded", ""),
    ):
        ledger.record_step(load, step, status, 1.0, {"code": code})
        assert look(target).refused is None, (load, step, status, code)
    ledger.record_step("run-1", "publish", "failed", 1.0, {"code": "PUBLICATION_BLOCKED"})
    first = look(target).refused
    assert first is not None
    assert first.code == "PUBLICATION_BLOCKED"
    ledger.record_step("run-1", "publish", "failed", 1.0, {"code": "CATALOG_DRIFT"})
    assert look(target).refused == Refusal(first.since, "CATALOG_DRIFT")
    assert ledger.move(RUN_KEY, frozenset({Phase.VALIDATED}), Phase.PUBLISHED)
    assert look(target).refused is None


def test_handoff_and_last_increment_are_those_of_the_live_generation(target: Parts) -> None:
    target.ledger.provision()
    alone = Watched(TARGET)
    assert look(target, alone).owed is None
    made = publication()
    with target.transaction():
        target.publications.record(made)
    seen = look(target, alone)
    assert seen.owed is not None
    assert (seen.owed.receipt_id, seen.owed.handoff_id) == (made.receipt_id, "orders_v1")
    assert seen.owed.published_at <= seen.now
    assert seen.loaded_at is None

    with target.transaction():
        assert target.publications.seed_checkpoint(checkpoint(), "source")
        assert target.publications.close_head(made.receipt_id)
    seen = look(target, alone)
    assert seen.owed is None
    assert seen.loaded_at is not None
    assert seen.loaded_at <= seen.now

    second = publication(2, handoff_id="orders_v2")
    with target.transaction():
        target.publications.record(second)
    seen = look(target, alone)
    assert seen.owed is not None
    assert seen.owed.handoff_id == "orders_v2"
    assert seen.loaded_at is None, "the generation before is not live any more"
    assert look(target, Watched(TableRef("landing", "others"))).owed is None


def test_a_hundred_are_one_statement_and_each_has_its_own_in_the_order_given(
    target: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.ledger.provision()
    count = 100
    keys = [f"{number:064d}" for number in range(count)]
    with target.transaction():
        for number, key in enumerate(keys):
            target.ledger.create(campaign(1 + number % 3, run_key=key), plan(1 + number % 3))
    asked = [Watched(TARGET, key) for key in reversed(keys)]
    asked.insert(count // 2, Watched(TARGET, "f" * 64))
    with monkeypatch.context() as patch:
        sent = counting(patch)
        seen = target.ledger.vitals(asked)
    assert len(sent) == 1, sent
    assert len(seen) == count + 1
    assert seen.pop(count // 2).phase is None
    chunks = [each.loading.progress.total if each.loading else None for each in seen]
    assert chunks == [1 + number % 3 for number in reversed(range(count))]
    assert len({each.now for each in seen}) == 1
