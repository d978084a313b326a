"""A lane's own retries: at most three tries a chunk that count as one. (A run's: tests/dagster/test_definitions.py.)"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dpone_dagster.campaign.errors import CountMismatch, DponeError, TransientFailure
from dpone_dagster.campaign.ledger import ChunkState
from dpone_dagster.campaign.selection import EVERY_CHUNK
from dpone_dagster.engine.sessions import target_session
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
