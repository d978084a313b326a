"""What counters read does not grow with the chunks, and they are exact all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from dpone_dagster.campaign.errors import CatalogDrift, DponeError
from dpone_dagster.campaign.ledger import ChunkRecord, ChunkState
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.vitals import Watched
from dpone_dagster.postgres.target import PostgresTarget
from tests.contract.conftest import Adapter, Parts, PostgresAdapter
from tests.contract.samples import RUN_KEY, TARGET, claim, receipt, start, worker

CHUNKS = 2_500
MANY = 100_000
# The chunks of the five blocks with the longest ones, all tallies, and what is in hand.
MOST_ROWS = 6_000


def spread_work(target: Parts) -> None:
    """Of 2,500 chunks: nine committed at the edges of blocks, one each failed, running, expired and given back."""
    start(target, chunks=CHUNKS)
    for index in (0, 1, 998, 999, 1_000, 1_999, 2_000, 2_498, 2_499):
        assert target.ledger.complete(claim(target, index), receipt(index, rows=10 + index), 1.0 + index % 7)
    assert target.ledger.fail(claim(target, 1_001), CatalogDrift("gone"), stop=False)
    assert target.ledger.give_back(claim(target, 5))


def counted(chunks: list[ChunkRecord]) -> tuple[int, ...]:
    """Counters over chunk rows, one by one."""
    order = (ChunkState.PENDING, ChunkState.RUNNING, ChunkState.COMMITTED, ChunkState.FAILED, ChunkState.LEASE_EXPIRED)
    committed = [chunk for chunk in chunks if chunk.state is ChunkState.COMMITTED]
    states = [sum(chunk.effective_state is state for chunk in chunks) for state in order]
    return (*states, sum(chunk.rows or 0 for chunk in committed), round(sum(chunk.seconds or 0 for chunk in committed)))


def shown(seen: Progress) -> tuple[int, ...]:
    states = (seen.pending, seen.running, seen.committed, seen.failed, seen.lease_expired)
    return (*states, seen.rows_loaded, round(seen.busy_seconds))


@pytest.mark.parametrize(
    "ranges",
    [
        ((0, CHUNKS),),
        ((0, 1_000),),
        ((999, 1_001),),
        ((1, 2_000),),
        ((500, 1_500), (1_999, 2_500)),
        ((5, 6), (998, 2_499)),
        ((2_400, 9_999),),
    ],
)
def test_counters_of_any_selection_are_those_of_its_chunks(
    target: Parts, adapter: Adapter, ranges: tuple[tuple[int, int], ...]
) -> None:
    spread_work(target)
    claim(target, 2_001)
    adapter.expire_leases()
    claim(target, 1_500)
    selection = ChunkSelection(ranges)
    assert shown(target.ledger.progress(RUN_KEY, selection)) == counted(target.ledger.chunks(RUN_KEY, selection))
    whole = target.ledger.progress(RUN_KEY)
    assert shown(whole) == counted(target.ledger.chunks(RUN_KEY, ChunkSelection.all(CHUNKS)))
    assert target.ledger.count_chunks(RUN_KEY) == (CHUNKS, 9)
    (watched,) = target.ledger.vitals([Watched(TARGET, RUN_KEY)])
    assert watched.loading is not None
    assert shown(watched.loading.progress) == shown(whole)
    assert watched.loading.started_at is not None
    assert 0 < whole.wall_seconds < 600


def test_the_slowest_are_found_in_whatever_block_they_are(target: Parts) -> None:
    spread_work(target)
    chunks = target.ledger.chunks(RUN_KEY, ChunkSelection.all(CHUNKS), only=["committed"])
    slowest = sorted(chunks, key=lambda chunk: (-(chunk.seconds or 0), chunk.index))
    for limit in (1, 2, 4, 9):
        found = target.history.slowest(RUN_KEY, limit)
        assert [(c.index, c.seconds) for c in found] == [(c.index, c.seconds) for c in slowest[:limit]]


def test_lanes_of_one_block_lose_no_count(adapter: Adapter) -> None:
    targets = [adapter.target() for _ in range(4)]
    start(targets[0], chunks=40)
    errors: list[BaseException] = []

    def load(place: int) -> None:
        try:
            for index in range(place, 40, 4):
                mine = claim(targets[place], index, lane=place)
                assert targets[place].ledger.complete(mine, receipt(index), 1.0)
                assert not targets[place].ledger.complete(mine, receipt(index), 1.0), "counted once"
        except (AssertionError, DponeError) as error:
            errors.append(error)

    threads = [threading.Thread(target=load, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert shown(targets[0].ledger.progress(RUN_KEY)) == (0, 0, 40, 0, 0, 400, 40)


def test_tallies_that_an_older_program_left_behind_are_made_good(target: Parts, adapter: Adapter) -> None:
    start(target, chunks=CHUNKS)
    adapter.commit_chunks(1_700)
    assert target.ledger.progress(RUN_KEY).committed == 0
    target.ledger.recount(RUN_KEY)
    assert shown(target.ledger.progress(RUN_KEY)) == (800, 0, 1_700, 0, 0, 17_000, 1_700)
    before = adapter.state()
    target.ledger.recount(RUN_KEY)
    assert adapter.state() == before


def rows_read(target: PostgresTarget) -> int:
    """Rows that the open transaction of this session has taken from the state tables, by the server's own count."""
    found = target.session.connection.execute(
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables "
        "WHERE relname LIKE '__dpone%'"
    ).fetchone()
    assert found is not None
    return int(found[0])


def reads(target: PostgresTarget, look: Callable[[], object]) -> int:
    with target.transaction():
        before = rows_read(target)
        look()
        return rows_read(target) - before


@pytest.mark.parametrize("committed", [0, 50_000, MANY - 10])
def test_no_statement_of_a_lane_or_a_watcher_reads_all_chunks(
    new_database: Callable[[str], str], committed: int
) -> None:
    adapter = PostgresAdapter(new_database("contract"))
    target = adapter.target()
    assert isinstance(target, PostgresTarget)
    record = start(target, chunks=MANY)
    adapter.commit_chunks(committed)
    target.ledger.recount(RUN_KEY)
    target.session.connection.execute("VACUUM ANALYZE")
    target.session.connection.execute("SET max_parallel_workers_per_gather = 0")  # what helpers read, they count
    everything = ChunkSelection.all(MANY)
    mine = claim(target, MANY - 1)
    looks: dict[str, Callable[[], object]] = {
        "candidates": lambda: target.ledger.candidates(RUN_KEY, worker(1), everything, failed_only=False, limit=16),
        "renew": lambda: target.ledger.renew(mine),
        "progress": lambda: target.ledger.progress(RUN_KEY),
        "progress of a selection": lambda: target.ledger.progress(RUN_KEY, everything),
        "vitals": lambda: target.ledger.vitals([Watched(TARGET, RUN_KEY)]),
        "wrong chunks": lambda: target.ledger.chunks(RUN_KEY, everything, only=("failed", "lease_expired"), limit=20),
        "slowest": lambda: target.history.slowest(RUN_KEY, 5),
        "receipt": lambda: target.ledger.receipt(RUN_KEY, 7),
        "complete": lambda: target.ledger.complete(mine, replace(receipt(MANY - 1), run_key=record.run_key), 1.0),
        "claim": lambda: claim(target, MANY - 2),
    }
    assert reads(target, lambda: target.ledger.count_chunks(RUN_KEY)) >= MANY
    measured = {name: reads(target, look) for name, look in looks.items()}
    assert max(measured.values()) < MOST_ROWS, measured
    adapter.close()
