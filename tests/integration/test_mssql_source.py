"""The SQL Server source: one snapshot a chunk, proven before rows; what it refuses, and how a read ends early.

Verified on Babelfish 4.3. UNVERIFIED on SQL Server: error 3961 for a table that is altered within a snapshot, how
soon a statement is cut.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from demo.mssql_server import MssqlServer
from dpone_dagster.campaign.contract import Column, ColumnContract, ColumnOption, ColumnType, Guard
from dpone_dagster.campaign.errors import (
    CatalogDrift,
    ConnectionLost,
    DponeError,
    Interrupted,
    TableMissing,
    ValueNotRepresentable,
)
from dpone_dagster.campaign.matching import match_columns
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import ChunkSpec, Plan
from dpone_dagster.campaign.typetables import type_table
from dpone_dagster.mssql.session import Session
from dpone_dagster.mssql.source import MssqlSource
from dpone_dagster.ports.source import ChunkRead, Source, XminSource

TABLE = TableRef("dbo", "t")
PLAN = Plan(ChunkSpec("integer", "id", "1", "100", "100"))
WIDE = Plan(ChunkSpec("integer", "id", "1", "100000", "100000")).chunk(0)
TARGET = (
    Column("id", ColumnType("int4"), True),
    Column("note", ColumnType("text"), True),
    Column("seen", ColumnType("timestamp"), True),
    Column("later", ColumnType("int4"), True),
)


@dataclass
class Bench:
    """A source, and another session that changes what it reads."""

    source: MssqlSource
    other: Session

    def read_of(self, columns: tuple[str, ...] | None = None, **more: Any) -> ChunkRead:
        table = self.source.describe(TABLE, columns)
        contract = self.contract(table.columns, columns)
        read = ChunkRead(TABLE, PLAN.chunk(0), "id", contract, table.digest, None, "00ff", "arrow", "test")
        return replace(read, **more)

    def contract(self, columns: tuple[Column, ...], wanted: tuple[str, ...] | None) -> ColumnContract:
        home = type_table("mssql", "postgres").home
        return match_columns(columns, TARGET, options={}, wanted=wanted, key=("id",), find_home=home)

    def rows(self, read: ChunkRead) -> list[dict[str, Any]]:
        with self.source.read_chunk(read) as stream:
            return [row for batch in stream for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def connections(mssql: MssqlServer) -> Iterator[Bench]:
    url = mssql.recreate("source")
    with contextlib.closing(Session(url, "other")) as other, contextlib.closing(MssqlSource(url, "test")) as source:
        yield Bench(source, other)
    mssql.drop("source")


@pytest.fixture
def bench(connections: Bench) -> Bench:
    connections.other.execute(
        "DROP TABLE IF EXISTS dbo.t; DROP TABLE IF EXISTS dbo.t2;"
        "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, note nvarchar(40) NULL, seen datetime2(6) NULL);"
        "INSERT INTO dbo.t VALUES (1, N'one', NULL), (2, N'', '2024-01-01T00:00:00'), (100, NULL, NULL);"
        "INSERT INTO dbo.t VALUES (101, N'', NULL)",
        seconds=30,
    )
    return connections


def test_it_reads_the_rows_of_the_chunk_and_no_others(bench: Bench) -> None:
    rows = bench.rows(bench.read_of())
    assert sorted(row["id"] for row in rows) == [1, 2, 100]
    assert {row["id"]: row["note"] for row in rows} == {1: "one", 2: "", 100: None}
    assert (bench.source.has_rows(TABLE, "id", PLAN), bench.source.count_outside(TABLE, "id", PLAN)) == (True, 1)


def test_a_source_is_known_by_what_it_can_do(bench: Bench) -> None:
    source: Source = bench.source
    assert not isinstance(source, XminSource)


def test_what_is_written_while_a_chunk_is_open_is_not_read(bench: Bench) -> None:
    with bench.source.read_chunk(bench.read_of()) as stream:
        bench.other.execute("INSERT INTO dbo.t VALUES (3, N'new', NULL); UPDATE dbo.t SET note = N'changed'")
        rows = [row for batch in stream for row in batch.to_pylist()]
        bench.other.execute("DELETE FROM dbo.t")
        assert bench.source.has_rows(TABLE, "id", PLAN)
    assert (sorted(row["id"] for row in rows), stream.rows) == ([1, 2, 100], 3)
    assert "changed" not in {row["note"] for row in rows}
    assert not bench.source.has_rows(TABLE, "id", PLAN)


def test_a_table_that_was_altered_is_not_read(bench: Bench) -> None:
    whole, named = bench.read_of(), bench.read_of(("id", "note"))
    bench.other.execute("ALTER TABLE dbo.t ADD later int NULL")
    with pytest.raises(CatalogDrift, match="no longer looks as it did"):
        bench.rows(whole)
    assert len(bench.rows(named)) == 3  # what is not read may change
    bench.other.execute("ALTER TABLE dbo.t DROP COLUMN note; ALTER TABLE dbo.t ADD note nvarchar(41) NULL")
    with pytest.raises(CatalogDrift, match="no longer looks as it did"):
        bench.rows(named)


def test_a_table_that_was_replaced_or_is_gone_is_not_read(bench: Bench) -> None:
    read = bench.read_of()
    bench.other.execute("SELECT * INTO dbo.t2 FROM dbo.t; DROP TABLE dbo.t", seconds=30)
    with pytest.raises(CatalogDrift, match="is gone from the source"):
        bench.rows(read)
    bench.other.execute(
        "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, note nvarchar(40) NULL, seen datetime2(6) NULL)", seconds=30
    )
    with pytest.raises(CatalogDrift, match="no longer looks as it did"):
        bench.rows(read)
    assert bench.rows(bench.read_of()) == []


def test_what_is_not_there_is_named(bench: Bench) -> None:
    with pytest.raises(TableMissing, match=r"dbo.nothing does not exist"):
        bench.source.describe(TableRef("dbo", "nothing"), None)
    with pytest.raises(TableMissing) as missing:
        bench.source.describe(TABLE, ("id", "nope"))
    assert [finding.path for finding in missing.value.findings] == ["dbo.t.nope"]


def test_a_view_is_read_as_its_text_says(bench: Bench) -> None:
    bench.other.execute("EXEC (N'CREATE VIEW dbo.seen AS SELECT id, note, seen FROM dbo.t WHERE id < 3')")
    try:
        table = bench.source.describe(TableRef("dbo", "seen"), None)
        assert table.kind == "view"
        contract = bench.contract(table.columns, None)
        read = replace(bench.read_of(), table=table.table, contract=contract, source_digest=table.digest)
        assert len(bench.rows(read)) == 2
    finally:
        bench.other.execute("DROP VIEW dbo.seen")


def many(bench: Bench) -> None:
    """More rows than one batch, or what the network holds."""
    bench.other.execute(
        "INSERT INTO dbo.t SELECT n + 1000, N'more', NULL FROM (SELECT TOP (60000) ROW_NUMBER() OVER "
        "(ORDER BY (SELECT 1)) AS n FROM sys.all_columns AS a CROSS JOIN sys.all_columns AS b) AS numbers",
        seconds=60,
    )


def test_columns_of_any_name_are_read(bench: Bench) -> None:
    names = ["select", "it's", 'q"q', "%s", "?", "{x}", "c1", "a b"]  # the stand-in's catalog is ASCII
    columns = ", ".join(f"[{name}] nvarchar(9) NULL" for name in names)
    values = ", ".join(f"N'{place}'" for place in range(len(names)))
    bench.other.execute(
        f"DROP TABLE dbo.t; CREATE TABLE dbo.t (id int NOT NULL, {columns}); INSERT INTO dbo.t VALUES (1, {values})",
        seconds=30,
    )
    table = bench.source.describe(TABLE, None)
    target = [TARGET[0], *(Column(name, ColumnType("varchar", (9,)), True) for name in names)]
    home = type_table("mssql", "postgres").home
    options = {"?": ColumnOption("null")}
    contract = match_columns(table.columns, target, options=options, wanted=None, key=("id",), find_home=home)
    read = ChunkRead(TABLE, PLAN.chunk(0), "id", contract, table.digest, None, "00ff", "arrow", "what? {x} */", True)
    with bench.source.read_chunk(read) as stream:
        rows = [row for batch in stream for row in batch.to_pylist()]
    assert rows == [{"id": 1, **{name: str(place) for place, name in enumerate(names)}}]
    assert (dict(stream.nulled), str(stream.digest).partition(":")[0]) == ({"?": 0}, "1")


class GivenUp(Exception):
    pass


def test_a_read_that_is_given_up_leaves_a_usable_source(bench: Bench) -> None:
    read = bench.read_of()
    with contextlib.suppress(GivenUp), bench.source.read_chunk(read) as stream:
        next(iter(stream))
        raise GivenUp
    with bench.source.read_chunk(read) as stream:  # and one that nobody reads
        pass
    with bench.source.read_chunk(read) as stream:  # and one that is left without a word
        next(iter(stream))
    assert len(bench.rows(read)) == 3


def test_rows_are_read_once(bench: Bench) -> None:
    with bench.source.read_chunk(bench.read_of()) as stream:
        assert len(list(stream)) == 1
        with pytest.raises(DponeError, match="once only"):
            list(stream)


def test_a_value_is_refused_before_the_rest_of_the_rows_is_read(bench: Bench) -> None:
    many(bench)
    bench.other.execute("UPDATE dbo.t SET seen = '2024-01-01T00:00:00.000001'", seconds=60)
    read = bench.read_of(chunk=WIDE)
    contract = ColumnContract.from_dict(read.contract.as_dict())
    guarded = replace(contract.columns[2], guards=(Guard("precision", "nanoseconds", (1_000_000,)),))
    read = replace(read, contract=replace(contract, columns=(*contract.columns[:2], guarded)))
    with pytest.raises(ValueNotRepresentable) as refused:
        bench.rows(read)
    assert refused.value.findings[0].path == "source.seen"
    assert len(bench.rows(bench.read_of())) == 3


def test_a_read_is_cut_from_another_thread(bench: Bench) -> None:
    many(bench)
    read = bench.read_of(chunk=WIDE)

    def cut() -> None:
        with bench.source.read_chunk(read) as stream:
            batches = iter(stream)
            next(batches)
            canceller = threading.Thread(target=bench.source.cancel)
            canceller.start()
            canceller.join()
            list(batches)

    with pytest.raises(Interrupted):
        cut()
    assert len(bench.rows(bench.read_of())) == 3
    bench.source.cancel()  # nothing is in flight
    assert len(bench.rows(bench.read_of())) == 3


def test_a_session_that_the_server_ends_is_a_lost_connection(bench: Bench) -> None:
    read = bench.read_of()

    def killed() -> None:
        with bench.source.read_chunk(read) as stream:
            cursor = bench.source._snapshots._connection.cursor()
            cursor.execute("SELECT @@SPID")
            (session_id,) = cursor.fetchone()
            bench.other.execute(f"KILL {session_id}")
            list(stream)

    with pytest.raises(ConnectionLost):
        killed()
    assert len(bench.rows(read)) == 3
