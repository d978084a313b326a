"""What is tried again by itself: a chunk at most three times, as one; a publication ten times.

What Dagster tries again: tests/dagster/test_definitions.py. What is connected again: test_connecting.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dpone_dagster.campaign.errors import CountMismatch, DponeError, PublicationBlocked, TransientFailure
from dpone_dagster.campaign.ledger import ChunkState
from dpone_dagster.campaign.selection import EVERY_CHUNK
from dpone_dagster.engine import publish as publishing
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.engine.validate import validate
from dpone_dagster.postgres.source import PostgresSource
from tests.engine.campaign import Seen, lane, load
from tests.orders import Orders

CHUNK = 2


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[DponeError], int], list[int]]:
    """Let the reads of one chunk fail so many times; returns what is read."""
    original = PostgresSource.read_chunk

    def arm(error: type[DponeError], times: int) -> list[int]:
        reads: list[int] = []

        @contextlib.contextmanager
        def read_chunk(self: PostgresSource, read: Any) -> Iterator[Any]:
            reads.append(read.chunk.index)
            if read.chunk.index == CHUNK and reads.count(CHUNK) <= times:
                raise error("as the server says")
            with original(self, read) as stream:
                yield stream

        monkeypatch.setattr(PostgresSource, "read_chunk", read_chunk)
        return reads

    return arm


def chunk(orders: Orders) -> tuple[ChunkState, int, str | None]:
    with target_session(orders.connector, "test") as target:
        row = target.ledger.chunks(orders.spec.run_key, EVERY_CHUNK)[CHUNK]
    return row.state, row.tries, row.error_code


def test_what_passes_is_tried_three_times_as_one(
    orders: Orders, failing: Callable[[type[DponeError], int], list[int]]
) -> None:
    reads = failing(TransientFailure, 2)
    load(orders)
    assert reads.count(CHUNK) == 3
    assert chunk(orders) == (ChunkState.COMMITTED, 1, None)


def test_after_three_tries_the_chunk_failed_and_this_run_leaves_it(
    orders: Orders, failing: Callable[[type[DponeError], int], list[int]]
) -> None:
    orders.backfill["on_chunk_failure"] = "continue"
    reads = failing(TransientFailure, 3)
    with pytest.raises(DponeError, match="1 of 8 chunks"):
        load(orders)
    lane(orders, Seen(), number=1)  # of the same run
    assert reads.count(CHUNK) == 3
    assert chunk(orders) == (ChunkState.FAILED, 1, "TRANSIENT_FAILURE")
    load(orders, intent="resume", run_id="run-2")
    assert reads.count(CHUNK) == 4
    assert chunk(orders) == (ChunkState.COMMITTED, 2, None)


def test_what_cannot_pass_is_tried_once(orders: Orders, failing: Callable[[type[DponeError], int], list[int]]) -> None:
    reads = failing(CountMismatch, 1)
    with pytest.raises(DponeError):
        load(orders)
    assert reads.count(CHUNK) == 1
    assert chunk(orders) == (ChunkState.FAILED, 1, "COUNT_MISMATCH")


@pytest.mark.parametrize(("blocked", "published"), [(9, True), (10, False)])
def test_a_publication_is_tried_ten_times(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, blocked: int, published: bool
) -> None:
    swap, swaps = publishing._swap, []

    def in_the_way(*values: Any) -> Any:
        swaps.append(1)
        if len(swaps) <= blocked:
            raise PublicationBlocked("somebody reads landing.orders")
        return swap(*values)

    load(orders)
    assert validate(orders.spec, orders.connector, "run-1").passed
    before = orders.target_rows()
    monkeypatch.setattr(publishing, "_BACKOFF_SECONDS", (0.0,))
    monkeypatch.setattr(publishing, "_swap", in_the_way)
    if published:
        publishing.publish(orders.spec, orders.connector, "run-1")
    else:
        with pytest.raises(PublicationBlocked, match="somebody reads"):
            publishing.publish(orders.spec, orders.connector, "run-1")
    assert len(swaps) == 10
    assert orders.target_rows() == (orders.source_rows() if published else before)
