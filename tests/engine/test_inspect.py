"""What status and doctor say, and that the next action is never one that would be refused."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_dagster.campaign.errors import KeyInvalid, PlanDrift
from dpone_dagster.campaign.ledger import Worker
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.increment import run_increment
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.report.verdict import verdict_of
from tests.engine.campaign import finish, load
from tests.orders import Orders

WORKER = Worker("run-1", 0, "host", 7)


def test_an_edited_manifest_is_named_by_status_and_doctor(orders: Orders) -> None:
    load(orders)
    assert status(orders.spec, orders.connector).as_dict()["findings"] == []
    assert doctor(orders.spec, orders.connector).findings == ()
    orders.backfill["chunk"]["buckets"] = 4
    with pytest.raises(PlanDrift) as refused:
        prepare(orders.spec, orders.connector, intent="resume", run_id="run-2")
    seen, diagnosis = status(orders.spec, orders.connector), doctor(orders.spec, orders.connector)
    (finding,) = diagnosis.findings
    assert "PLAN_DRIFT" in finding.problem
    assert seen.as_dict()["findings"] == [finding.as_dict()]
    assert seen.recommended_action == diagnosis.next_action == refused.value.advice


def test_an_edit_after_the_end_is_named_too(orders: Orders) -> None:
    load(orders)
    finish(orders)
    orders.backfill["allow_empty"] = True
    assert "PLAN_DRIFT" in str(status(orders.spec, orders.connector).drift)


def test_a_run_is_no_next_action_while_something_is_in_its_way(orders: Orders) -> None:
    assert doctor(orders.spec, orders.connector).next_action == "dpone backfill run MANIFEST --execute"
    orders.on_target("CREATE VIEW landing.paid AS SELECT * FROM landing.orders WHERE paid")
    diagnosis = doctor(orders.spec, orders.connector)
    assert diagnosis.findings
    assert "run doctor again" in diagnosis.next_action
    assert "backfill run" not in diagnosis.next_action


def half_an_hour() -> dict[str, Any]:
    """Chunks over 1,800 of the 2,000 orders."""
    window = {"from": "2024-01-01T00:00:00+00:00", "to": "2024-01-01T00:30:01+00:00", "step": "1h"}
    return {"column": "placed_at", "immutable": True, **window}


def test_rows_outside_the_window_come_with_the_first_increment(orders: Orders) -> None:
    orders.backfill["chunk"] = half_an_hour()
    load(orders)
    finish(orders)
    assert len(orders.target_rows()) == 1_800
    run_increment(orders.spec, orders.connector, "inc-1")
    assert orders.target_rows() == orders.source_rows()


def test_what_is_nobodys_fault_is_a_note(orders: Orders) -> None:
    orders.backfill["chunk"] = half_an_hour()
    before = doctor(orders.spec, orders.connector)
    assert before.findings == ()
    assert "200 rows of public.orders have no placed_at within the window" in before.notes[0]
    assert before.next_action == "dpone backfill run MANIFEST --execute"
    assert orders.spec.window is not None
    assert "from 2024-01-01T00:00:00" in orders.spec.window
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    lane = orders.connector.target("lane 0 of run-1")
    try:
        assert lane.fence.lock_campaign(orders.spec.run_key, "shared", 0)
        during = doctor(orders.spec, orders.connector)
        assert during.findings == ()
        assert any("lane 0 of run-1" in note for note in during.notes)
        assert "being worked on" in during.next_action
    finally:
        lane.close()


def test_doctor_names_a_chunk_column_that_is_not_there_as_a_run_does(orders: Orders) -> None:
    orders.manifest["source"].pop("options")
    orders.backfill.pop("publication")
    orders.backfill.update(inner_mode="replace", chunk={**orders.chunks, "column": "nope"})
    with pytest.raises(KeyInvalid) as refused:
        prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    assert [finding.path for finding in refused.value.findings] == ["public.orders.nope", "landing.orders.nope"]
    assert refused.value.findings[0].problem == "the chunk column does not exist"
    assert "unique key" not in refused.value.advice
    seen = doctor(orders.spec, orders.connector)
    assert seen.findings == refused.value.findings


def test_nobody_works_on_a_campaign_whose_lanes_are_dead(either: Orders) -> None:
    prepare(either.spec, either.connector, intent="run", run_id="run-1")
    key = either.spec.run_key
    with target_session(either.connector, "lane 0 run-1") as lane:
        assert lane.fence.lock_campaign(key, "shared", 0)
        (chunk, *_) = lane.ledger.candidates(key, WORKER, ChunkSelection.all(4), failed_only=False, limit=1)
        assert lane.ledger.claim(key, chunk, WORKER)
        seen = status(either.spec, either.connector)
        assert (seen.unattended, seen.progress.running) == (False, 1)
        assert verdict_of(seen).word == "Loading"
        lane.fence.unlock_campaign(key, "shared")
    seen = status(either.spec, either.connector)
    assert (seen.unattended, seen.progress.running) == (True, 1)
    assert seen.recommended_action == "dpone backfill resume MANIFEST"
    assert verdict_of(seen).word == "Interrupted"
    assert seen.backfill_dict()["progress"]["eta_seconds"] is None  # type: ignore[index]
