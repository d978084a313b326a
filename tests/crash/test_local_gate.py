"""The local gate: ten chunks on four lanes through the real product, crashed at the two places that matter most.

With a SQL Server target: Verified on Babelfish 4.3. UNVERIFIED on SQL Server: how soon it frees the locks and the
transaction of a client that was killed.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from demo.embedded import Embedded
from dpone_dagster.campaign.errors import TransientFailure
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkRecord, ChunkState, Phase
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.ports.target import Target
from tests.commands import Read, Run, log_statements, reads
from tests.crash.conftest import MakeOrders
from tests.engine.campaign import Seen, lane
from tests.orders import Orders

pytestmark = pytest.mark.slow
CHUNKS, LANES, ROWS = 10, 4, 2_000
FIRST = 0  # where lane 0 begins, so always one of the first four to be claimed
ALL = ChunkSelection.all(CHUNKS)


@dataclass(frozen=True)
class Generation:
    """Everything there is of one campaign."""

    record: CampaignRecord
    chunks: list[ChunkRecord]
    receipts: dict[int, int]  # chunk → epoch
    shadow: tuple[int, str | None, list[tuple[Any, ...]]] | None  # object id, owner, rows


@dataclass
class Gate:
    """A campaign under test, its source server's log, and the faults of its runs."""

    orders: Orders
    folder: Path
    source_log: Path

    def __post_init__(self) -> None:
        self.begin()
        self._runs: list[Run] = []
        self.marks = self.folder / "marks"
        self.marks.mkdir()
        self.hold = self.folder / "hold"
        self.hold.touch()

    def begin(self) -> None:
        """What the source has logged so far is not this campaign's."""
        self._logged = len(reads(self.source_log))

    def start(self, *command: str, fault: str) -> Run:
        faults = {"DPONE_ALLOW_FAULTS": "1", "DPONE_FAULT": fault, "DPONE_FAULT_MARKS": str(self.marks)}
        self._runs.append(Run(self.orders, self.folder, *command, faults=faults))
        return self._runs[-1]

    def close(self) -> None:
        """End what a failed test has left running."""
        for run in self._runs:
            run.end()
        self.target.close()

    def fired(self, point: str) -> set[int]:
        """Chunks at which a fault of this point has fired."""
        return {int(mark.name.partition(":")[2]) for mark in self.marks.glob(f"{point}:*")}

    def copies(self) -> list[Read]:
        """Every COPY of a chunk that the source server was asked for since `begin`."""
        return reads(self.source_log)[self._logged :]

    @cached_property
    def target(self) -> Target:
        """One session for all that the test asks: on the stand-in a new one costs seconds."""
        return self.orders.connector.target("test")

    def rows(self, table: TableRef) -> list[tuple[Any, ...]]:
        return self.orders.target_rows(f'"{table.schema}"."{table.name}"')

    def generation(self, run_key: str) -> Generation:
        ledger, tables = self.target.ledger, self.target.tables
        record = ledger.campaign(run_key)
        assert record is not None
        receipts = {index: ledger.receipt(run_key, index) for index in range(CHUNKS)}
        epochs = {index: receipt.epoch for index, receipt in receipts.items() if receipt is not None}
        chunks = ledger.chunks(run_key, ALL)
        described, owner = tables.describe(record.shadow), tables.shadow_owner(record.shadow)
        shadow = described and (described.object_id, owner, self.rows(record.shadow))
        return Generation(record, chunks, epochs, shadow)

    def campaign(self) -> Generation:
        return self.generation(self.orders.spec.run_key)

    def committed(self) -> int:
        with suppress(TransientFailure):  # a busy server takes longer than a control statement may; asked again
            return self.target.ledger.progress(self.orders.spec.run_key).committed
        return 0


@pytest.fixture
def gate(make_any_orders: MakeOrders, postgres: Embedded, tmp_path: Path) -> Iterator[Gate]:
    orders = make_any_orders(rows=ROWS, chunks=CHUNKS, lanes=LANES)
    log_statements(orders)
    with closing(Gate(orders, tmp_path, postgres.log)) as made:
        yield made


def unfinished_campaign(gate: Gate, backfill_id: str) -> Generation:
    """An older generation: one of its chunks is loaded, and then nobody went on with it."""
    older = replace(gate.orders, manifest=copy.deepcopy(gate.orders.manifest))
    older.backfill["backfill_id"] = backfill_id
    prepare(older.spec, older.connector, intent="run", run_id="older")
    lane(older, Seen(), run_id="older", selection=ChunkSelection(((0, 1),)))
    return gate.generation(older.spec.run_key)


def held_at_commit(gate: Gate, but: int) -> str:
    return ";".join(f"before_chunk_commit:{index}=hold:{gate.hold}" for index in range(CHUNKS) if index != but)


def four_lanes_at_work(gate: Gate) -> bool:
    """One has committed the receipt of the first chunk, the others have theirs in an open transaction."""
    return gate.fired("after_chunk_commit") == {FIRST} and len(gate.fired("before_chunk_commit")) == LANES - 1


def assert_published(gate: Gate, old: list[tuple[Any, ...]]) -> Generation:
    """Exact rows, each once; old rows in the backup; no shadow left; publication and handoff on record."""
    orders, done = gate.orders, gate.campaign()
    assert Counter(chunk.state for chunk in done.chunks) == {ChunkState.COMMITTED: CHUNKS}
    assert len(done.receipts) == CHUNKS
    live = orders.target_rows()
    assert live == orders.source_rows()
    assert len({row[0] for row in live}) == len(live) == ROWS
    assert gate.rows(done.record.backup) == old
    assert done.shadow is None
    assert done.record.phase is Phase.HANDOFF_COMMITTED
    publications = gate.target.publications
    receipt = publications.of_campaign(orders.spec.run_key)
    assert receipt is not None
    assert receipt == publications.head(orders.spec.target)
    assert publications.checkpoint(orders.spec.target, receipt.generation) is not None
    now = gate.target.tables.describe(orders.spec.target)
    assert (receipt.kind, receipt.sequence, receipt.head) == ("publish", 1, "closed")
    assert receipt.expected_rows == receipt.actual_rows == ROWS
    assert now is not None
    assert now.object_id == receipt.live_object_id == done.record.shadow_object_id
    return done


def assert_one_replay(gate: Gate, done: Generation) -> None:
    """The first chunk, and no other, was taken up by its receipt: its epoch rose, and it was not read again."""
    replayed = {chunk.index for chunk in done.chunks if chunk.epoch != done.receipts[chunk.index]}
    assert replayed == {FIRST}
    assert [read.epoch for read in gate.copies() if read.chunk == FIRST] == [done.receipts[FIRST]] == [1]


def test_a_crash_after_the_first_receipt_and_a_slow_chunk(gate: Gate) -> None:
    older = unfinished_campaign(gate, "orders_0")
    assert older.shadow is not None
    assert older.shadow[2]
    gate.begin()
    old = gate.orders.target_rows()

    crashed = gate.start("run", "--execute", fault=f"after_chunk_commit:{FIRST}=stop;{held_at_commit(gate, FIRST)}")
    crashed.wait_for(lambda: four_lanes_at_work(gate))
    assert crashed.kill()
    crash = gate.campaign()
    assert crash.receipts == {FIRST: 1}
    assert crash.chunks[FIRST].state is ChunkState.RUNNING
    assert gate.orders.target_rows() == old

    resumed = gate.start("resume", fault=f"mid_extract=hold:{gate.hold}")  # the first chunk that is read
    resumed.wait_for((gate.marks / "mid_extract").exists)
    resumed.wait_for(lambda: gate.committed() == CHUNKS - 1)
    by_lane = loaded_by_session(gate.campaign())
    (slow,) = (chunk for chunk in gate.campaign().chunks if chunk.state is ChunkState.RUNNING)
    fastest = max((session for session in by_lane if session != slow.session_id), key=lambda s: len(by_lane[s]))
    assert len(by_lane[fastest]) >= 2
    gate.hold.unlink()
    assert resumed.wait() == 0, resumed.printed()

    done = assert_published(gate, old)
    assert_one_replay(gate, done)
    assert_one_connection_set_a_lane(gate, done)
    assert gate.generation(older.record.run_key) == older


def loaded_by_session(generation: Generation) -> dict[int, list[int]]:
    """Chunks that each target session has written, by the ledger."""
    loaded: dict[int, list[int]] = defaultdict(list)
    for chunk in generation.chunks:
        if chunk.state is ChunkState.COMMITTED and chunk.epoch == generation.receipts[chunk.index]:
            assert chunk.session_id is not None
            loaded[chunk.session_id].append(chunk.index)
    return loaded


def assert_one_connection_set_a_lane(gate: Gate, done: Generation) -> None:
    """What a lane wrote over one session of the target, it read over one session of the source."""
    source_session = {read.chunk: read.pid for read in gate.copies() if read.epoch == done.receipts[read.chunk]}
    by_lane = loaded_by_session(done)
    assert len(by_lane) <= LANES
    pairs = {(session, source_session[index]) for session, chunks in by_lane.items() for index in chunks}
    assert len(pairs) == len(by_lane)


def test_a_lane_that_dies_between_receipt_and_ledger(gate: Gate) -> None:
    old = gate.orders.target_rows()
    run = gate.start("run", "--execute", fault=f"after_chunk_commit:{FIRST}=kill;{held_at_commit(gate, FIRST)}")
    run.wait_for(lambda: four_lanes_at_work(gate))
    at_death = gate.campaign().chunks
    peers = {chunk.session_id for chunk in at_death if chunk.state is ChunkState.RUNNING and chunk.index != FIRST}
    untouched = {chunk.index for chunk in at_death if chunk.state is ChunkState.PENDING}
    assert (len(peers), len(untouched)) == (LANES - 1, CHUNKS - LANES)
    gate.hold.unlink()
    assert run.wait() == 0, run.printed()

    done = assert_published(gate, old)
    assert_one_replay(gate, done)
    assert {chunk.epoch for chunk in done.chunks if chunk.index != FIRST} == {1}
    assert any(done.chunks[index].session_id in peers for index in untouched), "no peer took another chunk"
