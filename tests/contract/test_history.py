"""What every adapter tells of a campaign's course: whatever the number of chunks, a bounded answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dpone_dagster.campaign.errors import CatalogDrift, CountMismatch, DponeError
from dpone_dagster.campaign.history import Slices, Spread
from dpone_dagster.campaign.ledger import ChunkState
from dpone_dagster.ports.history import SPREAD_SAMPLES
from tests.contract.conftest import Adapter, Parts
from tests.contract.samples import CONTRACT, RUN_KEY, campaign, claim, plan, receipt, start

pytestmark = pytest.mark.in_files

LATER = 3_600


def commit(
    target: Parts, index: int, rows: int = 10, seconds: float = 1.0, *, lane: int = 0, run: str = "run-1"
) -> None:
    assert target.ledger.complete(claim(target, index, lane, run), receipt(index, rows), seconds)


def fail(target: Parts, index: int, error: DponeError, *, lane: int = 0) -> None:
    assert target.ledger.fail(claim(target, index, lane), error, stop=False)


def some_work(target: Parts) -> None:
    """Of ten chunks: 0 to 3 committed by two lanes, 4 and 9 failed, 5 running, 6 to 8 pending."""
    start(target, chunks=10)
    commit(target, 0, rows=5_000_000_000, seconds=4.0, lane=0)
    commit(target, 1, rows=20, seconds=1.0, lane=1)
    commit(target, 2, rows=30, seconds=2.5, lane=1)
    commit(target, 3, rows=40, seconds=0.5, lane=1)
    fail(target, 4, CatalogDrift("<b>gone</b>"))
    fail(target, 9, CatalogDrift("later"))
    claim(target, 5, lane=2)


def slices(target: Parts) -> Slices:
    course = target.history.course(RUN_KEY)
    assert course.started_at is not None
    assert course.ended_at is not None
    return Slices.of(course.started_at, course.ended_at, at_most=60)


def test_a_campaign_that_nobody_worked_on_has_no_course(target: Parts) -> None:
    start(target)
    course = target.history.course(RUN_KEY)
    assert (course.started_at, course.ended_at) == (None, None)
    assert abs(course.now - datetime.now(UTC)) < timedelta(hours=1)
    assert target.history.slowest(RUN_KEY, 5) == []
    assert target.history.lanes(RUN_KEY, 5) == (0, [])
    assert target.history.rows_spread(RUN_KEY) == target.history.seconds_spread(RUN_KEY) == Spread()
    assert target.history.failures(RUN_KEY, 5) == []
    assert target.history.receipt_sums(RUN_KEY).receipts == 0
    (group,) = target.history.groups(RUN_KEY, 4)
    assert (group.first, group.last, group.pending, group.state) == (0, 3, 4, ChunkState.PENDING)


def test_a_course_goes_on_while_a_chunk_runs(target: Parts) -> None:
    start(target)
    commit(target, 0)
    halted = target.history.course(RUN_KEY)
    assert target.history.course(RUN_KEY).ended_at == halted.ended_at
    claim(target, 1)
    going_on = target.history.course(RUN_KEY)
    assert halted.ended_at is not None
    assert going_on.ended_at is not None
    assert going_on.started_at == halted.started_at
    assert going_on.ended_at > halted.ended_at
    assert target.ledger.give_back(claim_of(target, 1))
    assert target.history.course(RUN_KEY).ended_at == halted.ended_at


def claim_of(target: Parts, index: int):  # type: ignore[no-untyped-def]
    from dpone_dagster.campaign.ledger import Claim
    from dpone_dagster.campaign.selection import ChunkSelection

    (seen,) = target.ledger.chunks(RUN_KEY, ChunkSelection(((index, index + 1),)))
    assert seen.worker is not None
    return Claim(RUN_KEY, index, seen.epoch, seen.worker)


def test_groups_count_their_chunks_by_state(target: Parts, adapter: Adapter) -> None:
    some_work(target)
    first, second, third = target.history.groups(RUN_KEY, 4)
    assert (first.first, first.last, first.committed, first.rows) == (0, 3, 4, 5_000_000_090)
    assert (first.seconds, first.longest_seconds, first.state) == (8.0, 4.0, ChunkState.COMMITTED)
    assert (second.first, second.last, second.failed, second.running, second.pending) == (4, 7, 1, 1, 2)
    assert second.state is ChunkState.FAILED
    assert (third.first, third.last, third.total, third.failed) == (8, 9, 2, 1)
    adapter.expire_leases()
    second = target.history.groups(RUN_KEY, 4)[1]
    assert (second.running, second.lease_expired) == (0, 1)
    assert [group.first for group in target.history.groups(RUN_KEY, 1)] == list(range(10))


def test_the_slowest_come_first_and_a_running_one_counts_its_time_so_far(target: Parts) -> None:
    some_work(target)
    assert [c.index for c in target.history.slowest(RUN_KEY, 10)][:4] == [0, 2, 1, 3]
    running = target.history.slowest(RUN_KEY, 10)[-1]
    assert (running.index, running.state) == (5, ChunkState.RUNNING)
    assert running.seconds is not None
    assert 0 <= running.seconds < LATER
    assert [c.index for c in target.history.slowest(RUN_KEY, 2)] == [0, 2]


def test_lanes_are_told_by_what_they_loaded(target: Parts) -> None:
    some_work(target)
    total, lanes = target.history.lanes(RUN_KEY, 10)
    assert total == 3
    assert [(lane.lane, lane.chunks, lane.rows, lane.busy_seconds) for lane in lanes] == [
        (0, 1, 5_000_000_000, 4.0),
        (1, 3, 90, 4.0),
        (2, 0, 0, 0.0),
    ]
    assert all(lane.started_at <= lane.ended_at and lane.host == "host-1" for lane in lanes)
    total, lanes = target.history.lanes(RUN_KEY, 2)
    assert (total, [lane.lane for lane in lanes]) == (3, [0, 1])


def test_spans_cover_every_chunk_of_the_lanes_asked_for(target: Parts) -> None:
    some_work(target)
    whole = replace(slices(target), milliseconds=LATER * 1_000, count=1)
    spans = {(span.lane, span.state): span for span in target.history.spans(RUN_KEY, whole, 10)}
    assert spans.keys() == {(0, "committed"), (0, "failed"), (1, "committed"), (2, "running")}
    of_one = spans[1, "committed"]
    assert (of_one.first, of_one.last, of_one.chunks, of_one.rows) == (1, 3, 3, 90)
    assert (spans[0, "failed"].first, spans[0, "failed"].last, spans[0, "failed"].chunks) == (4, 9, 2)
    assert all(span.started_at <= span.ended_at for span in spans.values())
    assert {span.lane for span in target.history.spans(RUN_KEY, whole, 2)} == {0, 1}
    assert sum(span.chunks for span in target.history.spans(RUN_KEY, slices(target), 10)) == 7


def test_committed_rows_of_all_slices_are_those_of_the_campaign(target: Parts) -> None:
    some_work(target)
    found = target.history.committed_rows(RUN_KEY, slices(target))
    assert sum(part.rows for part in found) == 5_000_000_090
    assert sum(part.chunks for part in found) == 4
    assert [part.place for part in found] == sorted({part.place for part in found})
    assert 0 <= found[0].place <= found[-1].place < slices(target).count


def test_a_spread_has_its_ends_and_few_samples(target: Parts) -> None:
    some_work(target)
    rows = target.history.rows_spread(RUN_KEY)
    assert rows.samples == ((1, 20.0), (2, 30.0), (3, 40.0), (4, 5_000_000_000.0))
    assert (rows.count, rows.total, rows.at(0), rows.at(0.5), rows.at(1)) == (4, 5_000_000_090, 20, 30, 5_000_000_000)
    assert target.history.seconds_spread(RUN_KEY).samples == ((1, 0.5), (2, 1.0), (3, 2.5), (4, 4.0))


def test_a_spread_of_many_chunks_is_sampled_at_equal_steps(target: Parts) -> None:
    start(target, chunks=173)
    for index in range(173):
        commit(target, index, rows=index)
    rows = target.history.rows_spread(RUN_KEY)
    assert len(rows.samples) <= SPREAD_SAMPLES + 1
    assert (rows.at(0), rows.at(1)) == (0, 172)
    assert abs(rows.at(0.5) - 86) <= 4
    assert rows.skew == 2.0


def test_failures_are_grouped_by_code(target: Parts) -> None:
    some_work(target)
    fail(target, 7, CountMismatch("one row less"))
    found = target.history.failures(RUN_KEY, 5)
    assert [(f.code, f.chunks, f.first, f.error) for f in found] == [
        ("CATALOG_DRIFT", 2, 4, "<b>gone</b>"),
        (CountMismatch.code, 1, 7, "one row less"),
    ]
    assert [f.code for f in target.history.failures(RUN_KEY, 1)] == ["CATALOG_DRIFT"]


def test_receipts_are_summed_with_bytes_and_nulled_values(target: Parts, adapter: Adapter) -> None:
    start(target)
    adapter.store_receipt(replace(receipt(0, rows=5_000_000_000), bytes=7, nulled={"größe": 2, "a.b": 1}))
    adapter.store_receipt(replace(receipt(1, rows=5), bytes=8, nulled={"größe": 3}))
    adapter.store_receipt(receipt(2, rows=1))
    sums = target.history.receipt_sums(RUN_KEY)
    assert (sums.receipts, sums.rows, sums.bytes) == (3, 5_000_000_006, 15)
    assert sums.nulled == {"größe": 5, "a.b": 1}
    assert sums.first_at is not None
    assert sums.last_at is not None
    assert sums.first_at <= sums.last_at


def step(target: Parts, run_id: str, kind: str, name: str, **facts: object) -> None:
    target.ledger.start_load(run_id, "orders", kind, run_id)
    target.ledger.record_step(run_id, name, "succeeded", 0.5, facts)


@pytest.mark.servers_only
def test_steps_are_those_between_this_campaign_and_the_next(target: Parts) -> None:
    start(target)
    record = target.ledger.campaign(RUN_KEY)
    assert record is not None
    assert record.created_at is not None
    step(target, "run-1", "campaign", "validate", passed=True)
    step(target, "run-1", "campaign", "publish", rows=5)
    step(target, "inc-1", "increment", "increment")
    steps = target.history.campaign_steps("orders", record.created_at, 1)
    assert steps.total == 2
    (latest,) = steps.latest
    assert (latest.run_id, latest.step, latest.status, latest.seconds) == ("run-1", "publish", "succeeded", 0.5)
    assert latest.facts == {"rows": 5}
    assert target.history.campaign_steps("others", record.created_at, 5).total == 0
    later = campaign(1, run_key="b" * 64, target=record.target.sibling("other"), contract=CONTRACT.as_dict())
    with target.transaction():
        target.ledger.create(later, plan(1))
    step(target, "run-2", "campaign", "validate", passed=True)
    assert target.history.campaign_steps("orders", record.created_at, 5).total == 2


@pytest.mark.servers_only
def test_increments_are_those_of_a_generation(target: Parts) -> None:
    target.ledger.provision()
    step(target, "run-1", "campaign", "handoff", generation="g-1")
    step(target, "inc-1", "increment", "increment", generation="g-1", inserted=3)
    step(target, "inc-2", "increment", "increment", generation="g-2", inserted=4)
    step(target, "inc-3", "increment", "increment", generation="g-1", inserted=5)
    found = target.history.increments("g-1", 10)
    assert found.total == 2
    assert [(s.run_id, s.facts["inserted"]) for s in found.latest] == [("inc-3", 5), ("inc-1", 3)]


def test_slices_end_after_the_last_moment() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for seconds in (0, 0.05, 1, 59.999, 86_400 * 40):
        made = Slices.of(begin, begin + timedelta(seconds=seconds), at_most=60)
        assert 1 <= made.count <= 60
        assert made.start == begin
        assert made.end > begin + timedelta(seconds=seconds)
