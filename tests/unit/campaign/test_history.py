"""Numbers of a report: rows over time lose none, a spread's shares are those of its chunks."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from dpone_dagster.campaign.history import ChunkGroup, SliceRows, Slices, Spread, rows_over_time
from dpone_dagster.campaign.ledger import ChunkState

START = datetime(2026, 1, 1, tzinfo=UTC)
parts = st.lists(
    st.builds(
        SliceRows,
        place=st.integers(0, 239),
        chunks=st.integers(1, 1_000),
        rows=st.integers(0, 10**12),
        seconds=st.floats(0, 10**6),
    ),
    max_size=20,
)


@given(parts, st.integers(1, 80))
def test_rows_over_time_are_all_rows(found: list[SliceRows], count: int) -> None:
    spread = rows_over_time(found, Slices(START, 100, 240), count)
    assert len(spread) == count
    assert min(spread) >= 0
    assert math.isclose(sum(spread), sum(part.rows for part in found), rel_tol=1e-6, abs_tol=1e-6)


def test_a_chunk_that_took_the_whole_time_is_even() -> None:
    (first, *rest) = rows_over_time([SliceRows(9, 1, 950, 0.95)], Slices(START, 100, 10), 5)
    assert math.isclose(first, 200)
    assert [round(value) for value in rest] == [200, 200, 200, 150]  # it ended in the middle of its slice


def test_a_share_of_few_chunks_is_one_of_them() -> None:
    spread = Spread(4, 100.0, ((1, 10.0), (2, 20.0), (3, 30.0), (4, 40.0)))
    assert [spread.at(share) for share in (0, 0.25, 0.5, 0.75, 0.95, 1)] == [10, 10, 20, 30, 40, 40]
    assert (spread.mean, spread.skew, Spread().skew, Spread().at(0.5)) == (25, 1.6, 1, 0)


def test_trouble_is_seen_before_work_and_work_before_what_is_left() -> None:
    group = ChunkGroup(0, 9, pending=1, running=1, committed=6, failed=1, lease_expired=1)
    assert group.state is ChunkState.FAILED
    assert ChunkGroup(0, 9, pending=1, running=1, committed=7, lease_expired=1).state is ChunkState.LEASE_EXPIRED
    assert ChunkGroup(0, 9, pending=1, running=1, committed=8).state is ChunkState.RUNNING
    assert ChunkGroup(0, 9, pending=1, committed=9).state is ChunkState.PENDING
    assert ChunkGroup(0, 9, committed=10).state is ChunkState.COMMITTED
