"""A whole campaign through the use cases, and what must not happen on the way."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpone_dagster.campaign.errors import (
    CampaignActive,
    ChunkFailed,
    GenerationStale,
    HandoffMissing,
    IncrementRefused,
    PlanDrift,
    PublicationBlocked,
    StateVersionNewer,
    ValidationBlocked,
)
from dpone_dagster.campaign.ledger import Phase, Worker
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.handoff import commit_handoff
from dpone_dagster.engine.increment import increment_gate, run_increment
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.load import LaneResult, load_lane
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.validate import validate
from dpone_dagster.postgres.ledger import PostgresLedger
from tests.engine.campaign import Seen, finish, lane, load
from tests.orders import Orders

INDEX_NAMES = "SELECT indexname FROM pg_indexes WHERE schemaname = 'landing' AND tablename = 'orders' ORDER BY 1"


def test_a_campaign_replaces_the_live_table_and_keeps_the_old_one(orders: Orders) -> None:
    old = orders.target_rows()
    names = orders.on_target(INDEX_NAMES)
    seen = load(orders)
    assert sorted(seen.done) == list(range(8))
    assert orders.target_rows() == old
    receipt = finish(orders)
    assert orders.target_rows() == orders.source_rows()
    assert orders.on_target(INDEX_NAMES) == names
    assert orders.on_target(f'SELECT * FROM landing."{orders.spec.backup.name}" ORDER BY id') == old
    assert (receipt.expected_rows, receipt.actual_rows, receipt.sequence) == (2_000, 2_000, 1)
    assert orders.digests()[0] == orders.digests()[1]


def test_running_it_again_changes_nothing_and_returns_the_same_receipt(orders: Orders) -> None:
    load(orders)
    receipt = finish(orders)
    again = load(orders, run_id="run-2")
    assert (again.done, again.replayed) == ([], [])
    assert finish(orders, run_id="run-2").receipt_id == receipt.receipt_id


def test_three_publications_in_a_row_keep_every_name(orders: Orders) -> None:
    names = orders.on_target(INDEX_NAMES)
    for number in range(1, 4):
        orders.backfill["backfill_id"] = f"orders_{number}"
        orders.on_source("UPDATE public.orders SET note = %s", f"generation {number}")
        load(orders)
        assert finish(orders).sequence == number
        assert orders.target_rows() == orders.source_rows()
        assert orders.on_target(INDEX_NAMES) == names


def test_a_receipt_without_its_ledger_row_is_replayed_without_reading_the_source(orders: Orders) -> None:
    load(orders)
    # As after a death between COMMIT and the ledger's move.
    orders.on_target(
        "UPDATE system.__dpone__backfill_chunks SET state = 'running', receipt_id = NULL, rows = NULL, seconds = NULL, "
        "finished_at = NULL, lease_expires_at = now(), session_id = 0 WHERE chunk_index = 3"
    )
    orders.on_source("ALTER TABLE public.orders RENAME TO elsewhere")
    seen = Seen()
    lane(orders, seen, run_id="run-2")
    assert (seen.done, seen.replayed) == ([], [3])


def test_a_receipt_of_another_plan_is_no_replay_and_stops_the_campaign(orders: Orders) -> None:
    load(orders)
    orders.on_target("UPDATE system.__dpone__backfill_chunks SET state = 'pending' WHERE chunk_index = 3")
    orders.on_target("UPDATE system.__dpone__chunk_receipts SET binding = 'other' WHERE chunk_index = 3")
    orders.backfill["on_chunk_failure"] = "continue"
    seen = Seen()
    assert lane(orders, seen, run_id="run-2").failed == 1
    assert seen.errors[3].code == "RECEIPT_MISMATCH"
    shown = status(orders.spec, orders.connector)
    assert [(c.index, c.state, c.error_code) for c in shown.failed] == [(3, "failed", "RECEIPT_MISMATCH")]
    assert "RECEIPT_MISMATCH" in str(shown.as_dict()["stop_reason"])


def test_a_receipt_that_a_probe_did_not_see_is_probed_again(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    load(orders)
    orders.on_target("UPDATE system.__dpone__backfill_chunks SET state = 'pending' WHERE chunk_index = 3")
    probe, blind = PostgresLedger.receipt, [True]

    def receipt(self: PostgresLedger, run_key: str, chunk_index: int) -> ChunkReceipt | None:
        return None if blind and blind.pop() else probe(self, run_key, chunk_index)

    monkeypatch.setattr(PostgresLedger, "receipt", receipt)
    result = lane(orders, Seen(), run_id="run-2")
    assert (result.committed, result.failed) == (1, 0)


def test_a_bad_chunk_fails_alone_and_resume_finishes(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders ALTER amount TYPE numeric")
    (bad,) = orders.on_source(
        "UPDATE public.orders SET amount = 1.2367 "
        "WHERE id = (SELECT id FROM public.orders ORDER BY id LIMIT 1) RETURNING id"
    )
    orders.backfill["on_chunk_failure"] = "continue"
    orders.manifest["sink"]["columns"] = {"amount": {"on_bad_value": "fail"}}
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    seen = Seen()
    result = lane(orders, seen)
    assert (result.committed, result.failed, list(seen.errors)) == (7, 1, [0])
    assert "VALUE_NOT_REPRESENTABLE" in str(seen.errors[0])
    assert "1.2367" not in str(seen.errors[0])
    with pytest.raises(ChunkFailed, match="1 of 8 chunks"):
        load(orders, intent="run", run_id="run-1")
    orders.on_source("UPDATE public.orders SET amount = 1 WHERE id = %s", bad[0])
    assert load(orders, intent="resume", run_id="run-2").done == [0]
    finish(orders)
    assert orders.target_rows() == orders.source_rows()


def test_a_known_failure_stops_the_campaign_by_default(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders ALTER amount TYPE numeric")
    orders.on_source("UPDATE public.orders SET amount = 1.2367")
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    result = lane(orders, Seen())
    assert (result.committed, result.failed) == (0, 1)
    assert result.stopped is not None
    assert status(orders.spec, orders.connector).progress.pending == 7


def test_a_failed_chunk_of_a_mapped_run_stops_that_run_and_none_of_the_others(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders ALTER amount TYPE numeric")
    orders.on_source("UPDATE public.orders SET amount = 1.2367 WHERE id < '20000000-0000-0000-0000-000000000000'")
    prepare(orders.spec, orders.connector, intent="join", run_id="run-1")
    mapped = orders.spec.beside_others()

    def load_chunks(start: int, stop: int, run_id: str) -> LaneResult:
        worker = Worker(run_id, 0, "testhost", os.getpid())
        return load_lane(mapped, orders.connector, worker, ChunkSelection(((start, stop),)), Seen())

    first = load_chunks(0, 4, "run-1")
    assert (first.committed, first.failed) == (0, 1)
    assert first.stopped == "chunk 0 failed: VALUE_NOT_REPRESENTABLE"
    second = load_chunks(4, 8, "run-2")
    assert (second.committed, second.failed, second.stopped) == (4, 0, None)
    assert status(orders.spec, orders.connector).progress.pending == 3


def test_a_lane_of_an_older_release_claims_no_more_once_the_state_is_upgraded(orders: Orders) -> None:
    class Upgraded(Seen):
        def committed(self, chunk: Chunk, receipt: ChunkReceipt, seconds: float, *, replayed: bool) -> None:
            super().committed(chunk, receipt, seconds, replayed=replayed)
            orders.on_target("UPDATE system.__dpone__schema_version SET version = 99")

    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    seen = Upgraded()
    with pytest.raises(StateVersionNewer, match="99"):
        lane(orders, seen)
    assert len(seen.done) == 1
    assert orders.on_target("SELECT count(*) FROM system.__dpone__chunk_receipts") == [(1,)]


def test_publishing_an_unvalidated_shadow_is_refused(orders: Orders) -> None:
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    with pytest.raises(ValidationBlocked, match="not validated"):
        publish(orders.spec, orders.connector, "run-1")


def test_an_incomplete_campaign_is_not_sealed(orders: Orders) -> None:
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    evidence = validate(orders.spec, orders.connector, "run-1")
    assert [c.name for c in evidence.checks if not c.passed] == ["receipts_complete"]
    assert status(orders.spec, orders.connector).phase is Phase.PREPARED


def test_rows_smuggled_into_the_shadow_block_the_publication(orders: Orders) -> None:
    load(orders)
    orders.on_target(f'DELETE FROM landing."{orders.spec.shadow.name}" WHERE paid')
    evidence = validate(orders.spec, orders.connector, "run-1")
    assert not evidence.passed
    assert status(orders.spec, orders.connector).phase is Phase.BLOCKED
    with pytest.raises(ValidationBlocked):
        publish(orders.spec, orders.connector, "run-1")


def test_an_empty_source_does_not_empty_the_target(orders: Orders) -> None:
    orders.on_source("DELETE FROM public.orders")
    load(orders)
    evidence = validate(orders.spec, orders.connector, "run-1")
    assert [c.name for c in evidence.checks if not c.passed] == ["not_empty"]


def test_a_live_table_replaced_by_another_campaign_makes_this_one_stale(orders: Orders) -> None:
    load(orders)
    validate(orders.spec, orders.connector, "run-1")
    orders.on_target("CREATE TABLE landing.twin (LIKE landing.orders INCLUDING ALL)")
    orders.on_target("DROP TABLE landing.orders")
    orders.on_target("ALTER TABLE landing.twin RENAME TO orders")
    with pytest.raises(GenerationStale):
        publish(orders.spec, orders.connector, "run-1")


def test_a_second_coordinator_is_told_who_holds_the_campaign(orders: Orders) -> None:
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    holder = orders.connector.target("lane 0 run-1")
    assert holder.fence.lock_campaign(orders.spec.run_key, "shared", 1)
    with pytest.raises(CampaignActive, match="lane 0 run-1"):
        prepare(orders.spec, orders.connector, intent="run", run_id="run-2")
    prepare(orders.spec, orders.connector, intent="join", run_id="run-3")
    holder.close()


def test_an_old_reader_blocks_the_swap_and_is_named(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setattr("dpone_dagster.engine.publish.TRIES", 1)
    with psycopg.connect(orders.target_url, application_name="old reader") as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")
        load(orders)
        assert validate(orders.spec, orders.connector, "run-1").passed
        with pytest.raises(PublicationBlocked, match="old reader"):
            publish(orders.spec, orders.connector, "run-1")
    finish(orders)
    assert orders.target_rows() == orders.source_rows()


def test_a_changed_manifest_under_the_same_id_is_refused(orders: Orders) -> None:
    load(orders)
    orders.backfill["chunk"]["buckets"] = 4
    with pytest.raises(PlanDrift):
        prepare(orders.spec, orders.connector, intent="run", run_id="run-2")


def test_increments_follow_the_handoff_and_settle_deletes(orders: Orders) -> None:
    assert "no campaign" in str(increment_gate(orders.spec, orders.connector))
    load(orders)
    with pytest.raises(HandoffMissing):
        run_increment(orders.spec, orders.connector, "inc-0")
    # Between the first chunk's read and the handoff: the initial load cannot know.
    orders.on_source("DELETE FROM public.orders WHERE id IN (SELECT id FROM public.orders ORDER BY id LIMIT 10)")
    orders.on_source(
        "UPDATE public.orders SET note = 'changed' WHERE id IN (SELECT id FROM public.orders ORDER BY id DESC LIMIT 20)"
    )
    finish(orders)
    assert increment_gate(orders.spec, orders.connector) is None
    orders.on_source(
        "INSERT INTO public.orders SELECT gen_random_uuid(), 1, now(), 'new 😀', true, NULL FROM generate_series(1, 30)"
    )
    result = run_increment(orders.spec, orders.connector, "inc-1")
    assert (result.inserted, result.deleted, result.reconciled) == (30, 10, True)
    assert orders.target_rows() == orders.source_rows()
    quiet = run_increment(orders.spec, orders.connector, "inc-2")
    assert (quiet.inserted, quiet.updated, quiet.deleted, quiet.reconciled) == (0, 0, 0, False)
    orders.on_source("DELETE FROM public.orders WHERE note = 'changed'")
    asked = run_increment(orders.spec, orders.connector, "inc-3", compare="keys")
    assert (asked.deleted, asked.reconciled) == (20, True)
    assert orders.target_rows() == orders.source_rows()


def test_a_vanished_source_does_not_empty_the_target_by_increment(orders: Orders) -> None:
    load(orders)
    finish(orders)
    orders.on_source("DELETE FROM public.orders")
    with pytest.raises(IncrementRefused, match="the source is empty"):
        run_increment(orders.spec, orders.connector, "inc-1")
    assert len(orders.target_rows()) == 2_000


def test_the_handoff_is_the_same_when_done_twice(orders: Orders) -> None:
    load(orders)
    finish(orders)
    assert commit_handoff(orders.spec, orders.connector, "run-2") == commit_handoff(
        orders.spec, orders.connector, "run-3"
    )


def test_looking_creates_nothing(orders: Orders) -> None:
    schemas = "SELECT nspname FROM pg_namespace ORDER BY 1"
    before = orders.on_target(schemas)
    seen = status(orders.spec, orders.connector)
    diagnosis = doctor(orders.spec, orders.connector)
    assert (seen.phase, diagnosis.findings) == (Phase.PLANNED, ())
    assert orders.on_target(schemas) == before


def test_runs_of_one_backfill_that_start_at_once_make_one_campaign(orders: Orders) -> None:
    def join(number: int) -> str:
        return prepare(orders.spec, orders.connector, intent="join", run_id=f"run-{number}").run_key

    with ThreadPoolExecutor(6) as pool:
        keys = list(pool.map(join, range(6)))
    assert set(keys) == {orders.spec.run_key}
    assert orders.on_target("SELECT count(*) FROM system.__dpone__backfill_campaigns") == [(1,)]


def test_a_live_column_altered_since_stops_the_increment_instead_of_rounding(orders: Orders) -> None:
    load(orders)
    finish(orders)
    orders.on_target("ALTER TABLE landing.orders ALTER amount TYPE numeric(18,1)")
    orders.on_source("UPDATE public.orders SET amount = 1.27")
    assert "altered" in str(increment_gate(orders.spec, orders.connector))
    with pytest.raises(HandoffMissing, match="altered"):
        run_increment(orders.spec, orders.connector, "inc-1")


def test_an_edited_manifest_is_not_published_by_its_later_steps(orders: Orders) -> None:
    load(orders)
    orders.backfill["allow_empty"] = True
    for step in (validate, publish, commit_handoff):
        with pytest.raises(PlanDrift):
            step(orders.spec, orders.connector, "run-2")
