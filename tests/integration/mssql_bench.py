"""A SQL Server target with one small live table, made anew for each test in a database that a module shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from demo.mssql_server import MssqlServer
from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract
from dpone_dagster.campaign.ledger import Claim, Worker
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.quoting import quoted, quoted_table
from dpone_dagster.mssql.target import MssqlTarget
from dpone_dagster.ports.source import Wire
from dpone_dagster.ports.tables import ChunkWrite, ShadowHandle, TargetTable
from tests.servers.mssql_targets import MssqlTargets

LIVE, SHADOW = TableRef("landing", "orders"), TableRef("landing", "orders it's {x} %s")
RUN_KEY = "7" * 64
CLAIM = Claim(RUN_KEY, 3, 5, Worker("run-1", 0, "host", 1))
CONTRACT = ColumnContract(
    (ColumnBinding("n", "n", "integer", "int"), ColumnBinding("t", "te'xt %s", "text", "nvarchar(max)")), ("n",)
)


class Rows:
    """A stream of Arrow batches; may fail, or do something, after the first one."""

    wire: Wire = "arrow"

    def __init__(
        self, counts: Sequence[int], said: int | None = None, after_first: Callable[[], None] | None = None
    ) -> None:
        self._counts = counts
        self._after_first = after_first
        self._said = said
        self.rows = 0
        self.bytes = 0
        self.nulled = {"te'xt %s": 2}

    def __iter__(self) -> Iterator[Any]:
        import pyarrow as pa

        first = 1
        for number, count in enumerate(self._counts):
            if number == 1 and self._after_first is not None:
                self._after_first()
            numbers = range(first, first + count)
            texts = [f"é😀 {n}" for n in numbers]
            yield pa.record_batch({"n": pa.array(numbers, pa.int32()), "te'xt %s": pa.array(texts, pa.string())})
            first += count
            self.bytes += count * 10
        self.rows = first - 1 if self._said is None else self._said


class MssqlBench:
    """One database of a server, and sessions to it that a test has for itself."""

    def __init__(self, url: str, *, stand_in: bool) -> None:
        self.stand_in = stand_in
        self.targets = MssqlTargets(url, "system")

    def target(self, purpose: str = "test lane") -> MssqlTarget:
        return self.targets.target(purpose)

    def reset(self) -> MssqlTarget:
        """A fresh live table, and state tables with one running chunk."""
        target = self.target()
        if not target.session.value("SELECT COUNT(*) FROM sys.schemas WHERE name = ?", "landing"):
            run(target, "CREATE SCHEMA landing")
            target.ledger.provision()
        run(target, *(f"DROP VIEW landing.{quoted(name)}" for (name,) in tables(target, "landing", "V")))
        for (name,) in tables(target, "landing"):
            run(target, f"DROP TABLE landing.{quoted(name)}")
        run(
            target,
            "CREATE TABLE landing.orders (n int NOT NULL, [te'xt %s] nvarchar(max) NULL, extra int NULL)",
            "CREATE UNIQUE INDEX orders_n ON landing.orders (n)",
            "CREATE INDEX orders_extra ON landing.orders (extra DESC, n) INCLUDE ([te'xt %s])",
            "INSERT INTO landing.orders VALUES (-1, N'old', 0)",
        )
        run(
            target,
            "DELETE FROM system.__dpone__backfill_chunks",
            "DELETE FROM system.__dpone__chunk_receipts",
            "INSERT INTO system.__dpone__backfill_chunks (run_key, chunk_index, lower_bound, upper_bound, "
            "upper_inclusive, state, epoch, worker_run_id, lease_expires_at) "
            f"VALUES (N'{RUN_KEY}', 3, N'0', N'9', 1, N'running', 5, N'run-1', SYSUTCDATETIME())",
        )
        return target


def run(target: MssqlTarget, *statements: str) -> None:
    for statement in statements:
        target.session.execute(statement, seconds=60)


def tables(target: MssqlTarget, schema: str, kind: str = "U") -> list[tuple[str]]:
    query = (
        "SELECT o.name FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id "
        "WHERE s.name = ? AND RTRIM(o.type) = ? ORDER BY o.name"
    )
    return target.session.rows(query, schema, kind, seconds=60)


def described(target: MssqlTarget, table: TableRef = LIVE) -> TargetTable:
    found = target.tables.describe(table)
    assert found is not None
    return found


def make_shadow(target: MssqlTarget, shadow: TableRef = SHADOW, run_key: str = RUN_KEY) -> ShadowHandle:
    live = described(target)
    with target.transaction():
        return target.tables.create_shadow(live, shadow, run_key)


def write_of(handle: ShadowHandle) -> ChunkWrite:
    return ChunkWrite(SHADOW, handle.object_id, handle.digest, CONTRACT, "plan", "binding")


def fill(target: MssqlTarget, table: TableRef, numbers: Sequence[int]) -> None:
    values = ", ".join(f"({n}, N'{n}', NULL)" for n in numbers)
    run(target, f"INSERT INTO {quoted_table(table)} VALUES {values}")


@pytest.fixture(scope="module")
def mssql_bench(mssql: MssqlServer, request: pytest.FixtureRequest) -> Iterator[MssqlBench]:
    name = f"bench_{request.module.__name__.rpartition('_')[2]}"
    made = MssqlBench(mssql.recreate(name), stand_in=mssql.stand_in)
    yield made
    made.targets.close()
    mssql.drop(name)


@pytest.fixture
def target(mssql_bench: MssqlBench) -> Iterator[MssqlTarget]:
    yield mssql_bench.reset()
    mssql_bench.targets.end_test()
