"""What every adapter's ledger guarantees."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from dpone_dagster.campaign import stateversion
from dpone_dagster.campaign.errors import CatalogDrift, DponeError, Finding, StateVersionNewer, StateVersionOlder
from dpone_dagster.campaign.history import Slices
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkRecord, ChunkState, Claim, Phase
from dpone_dagster.campaign.receipts import ReceiptTotals
from dpone_dagster.campaign.selection import ChunkSelection
from tests.contract.conftest import Adapter, Parts
from tests.contract.samples import RUN_KEY, TARGET, campaign, claim, plan, receipt, start, worker

pytestmark = pytest.mark.in_files


def chunk(target: Parts, index: int) -> ChunkRecord:
    (seen,) = target.ledger.chunks(RUN_KEY, ChunkSelection(((index, index + 1),)))
    return seen


def phase(target: Parts) -> Phase:
    record = target.ledger.campaign(RUN_KEY)
    assert record is not None
    return record.phase


def candidates(target: Parts, *, chunks: int = 4, lane: int = 0, run_id: str = "run-2", limit: int = 16) -> list[int]:
    found = target.ledger.candidates(
        RUN_KEY, worker(lane, run_id), ChunkSelection.all(chunks), failed_only=False, limit=limit
    )
    return [seen.index for seen in found]


# ---------------------------------------------------------------- provisioning


@pytest.mark.servers_only
def test_state_is_made_once_and_stays(target: Parts, adapter: Adapter) -> None:
    assert not target.ledger.provisioned()
    target.ledger.provision()
    assert target.ledger.provisioned()
    before = adapter.state()
    target.ledger.provision()
    assert adapter.state() == before


def test_two_programs_may_provision_at_once(adapter: Adapter) -> None:
    targets = [adapter.target() for _ in range(4)]
    errors: list[BaseException] = []

    def provision(target: Parts) -> None:
        try:
            target.ledger.provision()
        except DponeError as error:
            errors.append(error)

    threads = [threading.Thread(target=provision, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert all(target.ledger.provisioned() for target in targets)


@pytest.mark.servers_only
def test_state_of_a_newer_program_is_refused(target: Parts, adapter: Adapter) -> None:
    target.ledger.provision()
    adapter.set_state_version(99)
    with pytest.raises(StateVersionNewer, match="99"):
        target.ledger.provisioned()
    with pytest.raises(StateVersionNewer):
        target.ledger.provision()


@pytest.mark.servers_only
def test_no_chunk_is_claimed_once_a_newer_program_has_upgraded_the_state(target: Parts, adapter: Adapter) -> None:
    start(target)
    assert claim(target, 0).epoch == 1
    adapter.set_state_version(99)
    assert target.fence.try_lock_chunk(RUN_KEY, 1)
    assert target.ledger.claim(RUN_KEY, chunk(target, 1), worker()) is None
    assert chunk(target, 1).state is ChunkState.PENDING


@pytest.mark.servers_only
def test_state_of_an_older_program_is_upgraded_and_keeps_its_rows(
    target: Parts, adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stateversion, "STATE_VERSION", 1)
    monkeypatch.setattr(type(target.ledger), "_create_tallies", lambda *_: None)
    record = start(target)
    monkeypatch.undo()
    adapter.commit_chunks(3)
    with pytest.raises(StateVersionOlder, match="version 1"):
        target.ledger.provisioned()
    target.ledger.provision()
    assert target.ledger.provisioned()
    upgraded = adapter.target().ledger.campaign(RUN_KEY)
    assert upgraded is not None
    assert replace(upgraded, created_at=None, updated_at=None) == record
    counted = target.ledger.progress(RUN_KEY)
    assert (counted.committed, counted.pending, counted.rows_loaded) == (3, 1, 30)
    for old, new in ((Phase.SEALED, Phase.VALIDATED), (Phase.VALIDATED, Phase.PUBLISHED)):
        target.ledger.move(RUN_KEY, frozenset({Phase.PREPARED}), Phase.SEALED)
        assert target.ledger.move(RUN_KEY, frozenset({old}), new)
    assert target.ledger.move(RUN_KEY, frozenset({Phase.PUBLISHED}), Phase.ROLLED_BACK, stop_reason="rolled back")


# ---------------------------------------------------------------- campaign


def test_a_campaign_comes_back_as_it_was_stored(target: Parts) -> None:
    record = start(target)
    stored = target.ledger.campaign(RUN_KEY)
    assert stored is not None
    assert stored.created_at is not None
    assert replace(stored, created_at=None, updated_at=None) == record
    assert target.ledger.campaign("b" * 64) is None


def test_a_campaign_without_an_anchor_has_none(target: Parts) -> None:
    target.ledger.provision()
    with target.transaction():
        target.ledger.create(campaign(4, anchor=None), plan(4))
    stored = target.ledger.campaign(RUN_KEY)
    assert stored is not None
    assert stored.anchor is None


@pytest.mark.servers_only
def test_campaign_and_chunks_are_made_together_or_not_at_all(target: Parts) -> None:
    target.ledger.provision()
    with pytest.raises(DponeError, match="one transaction"):
        target.ledger.create(campaign(4), plan(4))
    with pytest.raises(DponeError, match="not 5"), target.transaction():
        target.ledger.create(campaign(5), plan(4))
    assert target.ledger.campaign(RUN_KEY) is None
    assert target.ledger.progress(RUN_KEY).total == 0


@pytest.mark.servers_only
def test_a_hundred_thousand_chunks_are_streamed(target: Parts) -> None:
    target.ledger.provision()
    tracemalloc.start()
    with target.transaction():
        target.ledger.create(campaign(100_000), plan(100_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000  # all lines together are 10 MB and more
    assert target.ledger.progress(RUN_KEY).pending == 100_000
    assert chunk(target, 99_999).state is ChunkState.PENDING


def test_a_target_knows_its_campaigns_that_are_not_finished(target: Parts) -> None:
    assert target.ledger.neighbours(TARGET) == []  # before there is any state
    start(target)
    other = campaign(1, run_key="b" * 64, target=TARGET.sibling("other"))
    with target.transaction():
        target.ledger.create(other, plan(1))
    assert [(each.run_key, each.phase) for each in target.ledger.neighbours(TARGET)] == [(RUN_KEY, "prepared")]
    assert [each.run_key for each in target.ledger.neighbours(other.target)] == [other.run_key]
    assert target.ledger.neighbours(TARGET.sibling("ORDERS")) == []
    assert target.ledger.cancel(RUN_KEY, "no time", "ada")
    (left,) = target.ledger.neighbours(TARGET)  # its lanes may be draining
    assert (left.phase, left.direct, left.slices, left.elsewhere) == ("cancelled", False, None, None)
    again: dict[str, object] = {"cancel_reason": None, "cancel_requested_by": None}
    assert target.ledger.move(RUN_KEY, frozenset({Phase.CANCELLED}), Phase.SEALED, **again)
    assert target.ledger.move(RUN_KEY, frozenset({Phase.SEALED}), Phase.VALIDATED)
    assert target.ledger.move(RUN_KEY, frozenset({Phase.VALIDATED}), Phase.PUBLISHED)
    assert target.ledger.neighbours(TARGET) == []


@pytest.mark.servers_only
def test_a_target_knows_its_campaigns_in_other_state_schemas(adapter: Adapter) -> None:
    start(adapter.target())
    ledger: Any = adapter.target().ledger
    own, ledger._schema = ledger._schema, "another schema"
    try:
        assert [(each.run_key, each.elsewhere) for each in ledger.neighbours(TARGET)] == [(RUN_KEY, own)]
    finally:
        ledger._schema = own


def test_a_move_happens_from_the_expected_phase_only(target: Parts) -> None:
    start(target)
    assert not target.ledger.move(RUN_KEY, frozenset({Phase.SEALED}), Phase.VALIDATED)
    assert target.ledger.move(RUN_KEY, frozenset({Phase.PREPARED, Phase.LOADING}), Phase.SEALED, validation=None)
    assert target.ledger.move(
        RUN_KEY, frozenset({Phase.SEALED}), Phase.VALIDATED, validation={"passed": True}, seal_horizon=2**40
    )
    record = target.ledger.campaign(RUN_KEY)
    assert record is not None
    assert (record.phase, record.validation, record.seal_horizon) == (Phase.VALIDATED, {"passed": True}, 2**40)
    assert record.diagnostics == {"unknown": {"kept": [1, "two"]}}


def test_a_move_that_no_campaign_may_make_is_an_error(target: Parts) -> None:
    start(target)
    with pytest.raises(DponeError, match="no move"):
        target.ledger.move(RUN_KEY, frozenset({Phase.PREPARED}), Phase.PUBLISHED)
    with pytest.raises(DponeError, match="plan_hash"):
        target.ledger.move(RUN_KEY, frozenset({Phase.PREPARED}), Phase.SEALED, plan_hash="another")
    assert phase(target) is Phase.PREPARED


def test_a_cancel_comes_before_a_publication_or_not_at_all(target: Parts) -> None:
    start(target)
    validate(target)
    assert target.ledger.cancel(RUN_KEY, "wrong table", "ada")
    assert target.ledger.cancel(RUN_KEY, "again", "bob")
    record = target.ledger.campaign(RUN_KEY)
    assert record is not None
    assert (record.phase, record.cancel_reason, record.cancel_requested_by) == (Phase.CANCELLED, "wrong table", "ada")
    assert not target.ledger.move(RUN_KEY, frozenset({Phase.VALIDATED}), Phase.PUBLISHED)

    # A cancel that is still recorded blocks, whatever became of the phase.
    assert target.ledger.move(RUN_KEY, frozenset({Phase.CANCELLED}), Phase.SEALED)
    assert target.ledger.move(RUN_KEY, frozenset({Phase.SEALED}), Phase.VALIDATED)
    assert not target.ledger.move(RUN_KEY, frozenset({Phase.VALIDATED}), Phase.PUBLISHED)
    assert target.ledger.move(RUN_KEY, frozenset({Phase.VALIDATED}), Phase.CANCELLED)

    changes: dict[str, object] = {"cancel_reason": None, "cancel_requested_by": None, "diagnostics": {"by": "run-2"}}
    assert target.ledger.move(RUN_KEY, frozenset({Phase.CANCELLED}), Phase.SEALED, **changes)
    assert target.ledger.move(RUN_KEY, frozenset({Phase.SEALED}), Phase.VALIDATED)
    assert target.ledger.move(RUN_KEY, frozenset({Phase.VALIDATED}), Phase.PUBLISHED, receipt_id="receipt")
    assert not target.ledger.cancel(RUN_KEY, "too late", "ada")
    assert phase(target) is Phase.PUBLISHED


def test_a_cancel_in_flight_blocks_the_publication_that_waits_for_it(adapter: Adapter) -> None:
    canceller, publisher = adapter.target(), adapter.target()
    start(canceller)
    validate(canceller)
    moved: list[bool] = []

    def publish() -> None:
        moved.append(publisher.ledger.move(RUN_KEY, frozenset({Phase.VALIDATED}), Phase.PUBLISHED))

    thread = threading.Thread(target=publish)
    with canceller.transaction():
        assert canceller.ledger.cancel(RUN_KEY, "stop", "ada")
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join()
    assert moved == [False]


def test_a_locked_campaign_waits_for_nobody_who_only_looks(adapter: Adapter) -> None:
    one, two = adapter.target(), adapter.target()
    start(one)
    with one.transaction():
        assert one.ledger.campaign(RUN_KEY, lock=True) is not None
        assert two.ledger.campaign(RUN_KEY) is not None
        thread = threading.Thread(target=two.ledger.set_stop, args=(RUN_KEY, "stop"))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join()


def validate(target: Parts) -> None:
    assert target.ledger.move(RUN_KEY, frozenset({Phase.PREPARED}), Phase.SEALED)
    assert target.ledger.move(RUN_KEY, frozenset({Phase.SEALED}), Phase.VALIDATED)


# ---------------------------------------------------------------- claims


def test_a_claim_names_its_worker_and_starts_the_campaign(target: Parts) -> None:
    start(target)
    claimed = claim(target, 2, lane=3)
    assert claimed == Claim(RUN_KEY, 2, 1, worker(3))
    assert phase(target) is Phase.LOADING
    seen = chunk(target, 2)
    assert (seen.state, seen.epoch, seen.tries, seen.worker) == (ChunkState.RUNNING, 1, 1, worker(3))
    assert seen.lease_expires_at is not None
    assert seen.started_at is not None
    assert 85 < (seen.lease_expires_at - seen.started_at).total_seconds() <= 90.5


def test_one_of_many_sessions_gets_the_claim(adapter: Adapter) -> None:
    targets = [adapter.target() for _ in range(8)]
    start(targets[0])
    seen = chunk(targets[0], 0)
    barrier = threading.Barrier(len(targets))
    claims: list[Claim | None] = []

    def race(lane: int) -> None:
        barrier.wait()
        claims.append(targets[lane].ledger.claim(RUN_KEY, seen, worker(lane)))

    threads = [threading.Thread(target=race, args=(lane,)) for lane in range(len(targets))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claims) == 8
    assert sum(claimed is not None for claimed in claims) == 1
    assert chunk(targets[0], 0).epoch == 1


@pytest.mark.parametrize(
    "make_unloadable",
    [
        lambda target: target.ledger.set_stop(RUN_KEY, "chunk 1 failed"),
        lambda target: target.ledger.cancel(RUN_KEY, "no", "ada"),
        lambda target: target.ledger.move(RUN_KEY, frozenset({Phase.PREPARED}), Phase.SEALED),
    ],
    ids=["stopped", "cancelled", "sealed"],
)
def test_no_claim_where_the_campaign_takes_none(target: Parts, make_unloadable) -> None:  # type: ignore[no-untyped-def]
    start(target)
    before = chunk(target, 0)
    make_unloadable(target)
    assert target.ledger.claim(RUN_KEY, before, worker()) is None
    assert chunk(target, 0) == before


def test_clearing_the_stop_token_lets_claims_through(target: Parts) -> None:
    start(target)
    target.ledger.set_stop(RUN_KEY, "chunk 1 failed")
    target.ledger.set_stop(RUN_KEY, None)
    claim(target, 0)


def test_a_takeover_leaves_the_stalled_worker_with_nothing(adapter: Adapter) -> None:
    stalled, heir = adapter.target(), adapter.target()
    start(stalled)
    old = claim(stalled, 0, lane=0)
    adapter.end_session(stalled)
    new = claim(heir, 0, lane=1)
    assert new.epoch == old.epoch + 1
    before = chunk(heir, 0)
    assert not heir.ledger.renew(old)
    assert not heir.ledger.complete(old, receipt(0), 1.0)
    assert not heir.ledger.fail(old, DponeError("late"), stop=True)
    assert not heir.ledger.give_back(old)
    assert chunk(heir, 0) == before
    record = heir.ledger.campaign(RUN_KEY)
    assert record is not None
    assert record.stop_reason is None
    assert heir.ledger.complete(new, receipt(0), 1.0)


def test_a_committed_chunk_is_never_claimed_again(target: Parts) -> None:
    start(target)
    claimed = claim(target, 0)
    assert target.ledger.complete(claimed, receipt(0, rows=12), 1.5)
    done = chunk(target, 0)
    assert (done.state, done.rows, done.seconds, done.receipt_id) == (ChunkState.COMMITTED, 12, 1.5, "receipt-0")
    assert target.ledger.claim(RUN_KEY, done, worker()) is None
    assert not target.ledger.complete(claimed, receipt(0), 1.0)


def test_a_failure_is_kept_and_stops_the_campaign_if_it_shall(target: Parts) -> None:
    start(target)
    error = CatalogDrift("the source\x00changed", findings=[Finding("orders.amount", "is gone")])
    assert target.ledger.fail(claim(target, 0), error, stop=False)
    failed = chunk(target, 0)
    assert (failed.state, failed.error_code, failed.failed_run_id) == (ChunkState.FAILED, "CATALOG_DRIFT", "run-1")
    assert "orders.amount: is gone" in str(failed.error)
    claim(target, 1)
    assert target.ledger.fail(claim(target, 2), error, stop=True)
    record = target.ledger.campaign(RUN_KEY)
    assert record is not None
    assert record.stop_reason == "chunk 2 failed: CATALOG_DRIFT"


def test_a_chunk_that_was_given_back_is_pending(target: Parts) -> None:
    start(target)
    assert target.ledger.give_back(claim(target, 0))
    seen = chunk(target, 0)
    assert (seen.state, seen.epoch, seen.tries) == (ChunkState.PENDING, 1, 1)


def test_expiry_is_derived_and_a_renewal_ends_it(target: Parts, adapter: Adapter) -> None:
    start(target)
    claimed = claim(target, 0)
    adapter.expire_leases()
    seen = chunk(target, 0)
    assert (seen.state, seen.effective_state) == (ChunkState.RUNNING, ChunkState.LEASE_EXPIRED)
    assert [c.index for c in target.ledger.chunks(RUN_KEY, ChunkSelection.all(4), only=["lease_expired"])] == [0]
    assert target.ledger.chunks(RUN_KEY, ChunkSelection.all(4), only=["running"]) == []
    progress = target.ledger.progress(RUN_KEY)
    assert (progress.running, progress.lease_expired) == (0, 1)
    assert target.ledger.renew(claimed)
    assert chunk(target, 0).effective_state is ChunkState.RUNNING


# ---------------------------------------------------------------- candidates


def test_lanes_start_far_from_each_other_and_see_every_chunk(target: Parts) -> None:
    start(target, chunks=100)
    seen = [candidates(target, chunks=100, lane=lane, limit=200) for lane in range(8)]
    assert all(sorted(indexes) == list(range(100)) for indexes in seen)
    starts = sorted(indexes[0] for indexes in seen)
    assert min(right - left for left, right in itertools.pairwise(starts)) >= 5
    assert [len(candidates(target, chunks=100, lane=lane)) for lane in range(3)] == [16, 16, 16]


def test_candidates_stay_within_the_selection(target: Parts) -> None:
    start(target, chunks=100)
    selection = ChunkSelection(((10, 12), (50, 53), (99, 100)))
    for lane in range(9):
        found = target.ledger.candidates(RUN_KEY, worker(lane), selection, failed_only=False, limit=16)
        assert sorted(seen.index for seen in found) == [10, 11, 50, 51, 52, 99]
        two = target.ledger.candidates(RUN_KEY, worker(lane), selection, failed_only=False, limit=2)
        assert [seen.index for seen in two] == [seen.index for seen in found][:2]
    nothing = target.ledger.candidates(RUN_KEY, worker(), ChunkSelection(()), failed_only=False, limit=16)
    assert nothing == []


def test_running_chunks_of_others_come_last_and_ones_own_never(adapter: Adapter) -> None:
    one, two = adapter.target(), adapter.target()
    start(one)
    claim(one, 0)
    assert candidates(two) == [1, 2, 3, 0]
    assert candidates(one) == [1, 2, 3]
    one.ledger.complete(claim(one, 1), receipt(1), 1.0)
    assert candidates(two) == [2, 3, 0]


def test_a_chunk_fails_once_a_run(target: Parts) -> None:
    start(target)
    target.ledger.fail(claim(target, 0, run_id="run-1"), DponeError("no"), stop=False)
    assert candidates(target, run_id="run-1") == [1, 2, 3]
    assert candidates(target, run_id="run-2") == [0, 1, 2, 3]


def test_failed_only_leaves_the_rest_alone(adapter: Adapter) -> None:
    one, two = adapter.target(), adapter.target()
    start(one)
    claim(one, 1)
    one.ledger.fail(claim(one, 0), DponeError("no"), stop=False)
    found = two.ledger.candidates(RUN_KEY, worker(0, "run-2"), ChunkSelection.all(4), failed_only=True, limit=16)
    assert [seen.index for seen in found] == [0]


# ---------------------------------------------------------------- looking


def test_progress_counts_what_the_chunks_are(target: Parts) -> None:
    start(target, chunks=6)
    empty = target.ledger.progress(RUN_KEY)
    assert (empty.total, empty.pending, empty.wall_seconds) == (6, 6, 0.0)
    target.ledger.complete(claim(target, 0), receipt(0, rows=10), 1.5)
    target.ledger.complete(claim(target, 1), receipt(1, rows=20), 2.5)
    target.ledger.fail(claim(target, 2), DponeError("no"), stop=False)
    halted = target.ledger.progress(RUN_KEY)
    assert (halted.pending, halted.committed, halted.failed, halted.running) == (3, 2, 1, 0)
    assert (halted.rows_loaded, halted.rows_extracted, halted.busy_seconds) == (30, 30, 4.0)
    assert halted.wall_seconds > 0
    assert target.ledger.progress(RUN_KEY).wall_seconds == halted.wall_seconds  # nobody works, so no time passes
    claim(target, 3)
    assert target.ledger.progress(RUN_KEY).wall_seconds > halted.wall_seconds
    assert target.ledger.progress(RUN_KEY, ChunkSelection(((0, 1), (3, 5)))).as_dict() | {
        "rows_per_second": 0,
        "eta_seconds": 0,
    } == {
        "pending": 1,
        "running": 1,
        "committed": 1,
        "failed": 0,
        "lease_expired": 0,
        "rows_extracted": 10,
        "rows_loaded": 10,
        "rows_per_second": 0,
        "eta_seconds": 0,
    }


def test_chunks_come_by_index_state_and_limit(target: Parts) -> None:
    start(target, chunks=10)
    for index in (7, 1, 4):
        target.ledger.fail(claim(target, index), DponeError("no"), stop=False)
    everything = ChunkSelection.all(10)
    assert [c.index for c in target.ledger.chunks(RUN_KEY, everything)] == list(range(10))
    assert [c.index for c in target.ledger.chunks(RUN_KEY, everything, only=["failed"])] == [1, 4, 7]
    assert [c.index for c in target.ledger.chunks(RUN_KEY, everything, only=["failed"], limit=2)] == [1, 4]
    assert [c.index for c in target.ledger.chunks(RUN_KEY, ChunkSelection(((0, 2), (9, 10))))] == [0, 1, 9]


def test_receipts_are_read_and_summed(target: Parts, adapter: Adapter) -> None:
    record = start(target)
    assert target.ledger.receipt(RUN_KEY, 0) is None
    assert target.ledger.receipt_totals(record) == ReceiptTotals(0, 0, 0)
    adapter.store_receipt(receipt(0, rows=5_000_000_000))
    adapter.store_receipt(receipt(1, rows=7))
    stored = target.ledger.receipt(RUN_KEY, 0)
    assert stored is not None
    assert stored.committed_at is not None
    assert replace(stored, committed_at=None) == receipt(0, rows=5_000_000_000)
    assert target.ledger.receipt_totals(record) == ReceiptTotals(2, 5_000_000_007, 0)
    adapter.store_receipt(replace(receipt(2), contract_hash="another"))
    adapter.store_receipt(replace(receipt(3), plan_hash="another"))
    assert target.ledger.receipt_totals(record).foreign == 2


@pytest.mark.servers_only
def test_looking_changes_nothing(adapter: Adapter) -> None:
    lane, looker = adapter.target(), adapter.target()
    record = start(lane)
    claim(lane, 0)
    lane.ledger.fail(claim(lane, 1), DponeError("no"), stop=True)
    adapter.expire_leases()
    before = adapter.state()
    assert len(before) >= 8
    look(looker, record)
    assert adapter.state() == before


def look(target: Parts, record: CampaignRecord) -> None:
    target.ledger.provisioned()
    target.ledger.campaign(RUN_KEY)
    target.ledger.progress(RUN_KEY)
    target.ledger.chunks(RUN_KEY, ChunkSelection.all(4), only=["lease_expired", "failed"])
    target.ledger.candidates(RUN_KEY, worker(), ChunkSelection.all(4), failed_only=False, limit=4)
    target.ledger.receipt(RUN_KEY, 0)
    target.ledger.receipt_totals(record)
    target.fence.holders(RUN_KEY)
    target.publications.of_campaign(RUN_KEY)
    target.publications.head(record.target)
    look_back(target)


def look_back(target: Parts) -> None:
    history = target.history
    course = history.course(RUN_KEY)
    slices = Slices.of(course.now, course.now, at_most=1)
    history.groups(RUN_KEY, 2)
    history.slowest(RUN_KEY, 2)
    history.lanes(RUN_KEY, 2)
    history.spans(RUN_KEY, slices, 2)
    history.committed_rows(RUN_KEY, slices)
    history.rows_spread(RUN_KEY)
    history.seconds_spread(RUN_KEY)
    history.failures(RUN_KEY, 2)
    history.receipt_sums(RUN_KEY)
    history.campaign_steps("orders", course.now, 2)
    history.increments("generation", 2)


@pytest.mark.servers_only
def test_loads_and_their_steps_are_recorded(target: Parts, adapter: Adapter) -> None:
    target.ledger.provision()
    target.ledger.start_load("run-1", "orders", "campaign", "run-1")
    target.ledger.record_step("run-1", "prepare", "succeeded", 0.5, {"chunks": 4})
    target.ledger.finish_load("run-1", "succeeded", {"step": "prepare"})
    target.ledger.start_load("run-1", "orders", "campaign", "run-1")
    target.ledger.record_step("run-1", "publish", "failed", 0.1, {"code": "CATALOG_DRIFT"})
    target.ledger.finish_load("run-1", "failed", {"step": "publish", "code": "CATALOG_DRIFT"})
    state = adapter.state()
    (load,) = state["__dpone__loads"]
    assert "failed" in load
    assert {"step": "publish", "code": "CATALOG_DRIFT"} in load
    assert len(state["__dpone__load_steps"]) == 2
