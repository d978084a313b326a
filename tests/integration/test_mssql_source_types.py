"""Every row of the type tables of a SQL Server source, live: values arrive as they are, or stop their chunk.

Some pairs at a time are columns of one table, so that they are loaded at once. Verified on Babelfish 4.3. UNVERIFIED
on SQL Server: what its driver makes of a time's and a money's last digits, unpaired surrogates, code pages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest

from demo.mssql_server import MssqlServer
from dpone_dagster.campaign.contract import Column, ColumnBinding, ColumnContract, ColumnOption, ColumnType
from dpone_dagster.campaign.errors import ColumnContractRefused, ValueNotRepresentable
from dpone_dagster.campaign.matching import match_columns
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import ChunkSpec, Plan
from dpone_dagster.campaign.typetables import Server, type_table
from dpone_dagster.mssql.bulk import bulk_copy
from dpone_dagster.mssql.catalog import CatalogReader
from dpone_dagster.mssql.digests import content_digest as mssql_content_digest
from dpone_dagster.mssql.quoting import quoted_table
from dpone_dagster.mssql.rowinsert import insert_batches
from dpone_dagster.mssql.session import Session
from dpone_dagster.mssql.source import MssqlSource
from dpone_dagster.mssql.stages import Stage
from dpone_dagster.ports.source import ChunkRead
from dpone_dagster.postgres.columns import read_columns
from dpone_dagster.postgres.copyin import Blocks, copy_in
from dpone_dagster.postgres.digests import content_digest
from dpone_dagster.postgres.session import Session as PostgresSession
from tests.integration.mssql_source_cases import TO_MSSQL, TO_POSTGRES, Case, type_of
from tests.integration.test_mssql_types import Held

_AT_ONCE = 10  # the stand-in takes much longer to read a longer statement
SOURCE, BY_BULK, BY_ROW = (TableRef("dbo", name) for name in ("types_source", "types_bulk", "types_row"))
# How a value of the target is read as text; floats and all others are read by the driver.
_INSTANT = "CONVERT(nvarchar(40), {}, 121)"
FORMS = {
    "uniqueidentifier": "LOWER(CONVERT(nvarchar(36), {}))",
    "date": "CONVERT(nvarchar(10), {}, 23)",
    **dict.fromkeys(
        ("time", "datetime2", "datetime", "smalldatetime", "datetimeoffset"), "CONVERT(nvarchar(40), {}, 121)"
    ),
}


@dataclass
class Bench:
    """The source's table, one column a case, and what reads it."""

    session: Session
    source: MssqlSource
    cases: Sequence[Case]

    def make(self, rows: Sequence[Mapping[int, str]]) -> None:
        """The source's table anew: for each row T-SQL by number of the case; what is not named is NULL."""
        columns = ", ".join(f"c{n} {case.source}" for n, case in enumerate(self.cases))
        values = [[str(row), *(rows[row].get(n, "NULL") for n in range(len(self.cases)))] for row in range(len(rows))]
        marks = ", ".join(f"({', '.join(row)})" for row in values)
        self.session.execute(
            f"DROP TABLE IF EXISTS {quoted_table(SOURCE)};"
            f"CREATE TABLE {quoted_table(SOURCE)} (id int NOT NULL PRIMARY KEY, {columns});"
            f"INSERT INTO {quoted_table(SOURCE)} VALUES {marks}",
            seconds=60,
        )

    def contract(self, server: Server, target: Sequence[Column], policy: str) -> tuple[ColumnContract, str]:
        table = self.source.describe(SOURCE, None)
        options = {
            f"c{n}": ColumnOption(policy, case.representation)  # type: ignore[arg-type]
            for n, case in enumerate(self.cases)
        }
        found = match_columns(
            table.columns, target, options=options, wanted=None, key=("id",), find_home=type_table("mssql", server).home
        )
        return ColumnContract.from_dict(found.as_dict()), table.digest

    @contextlib.contextmanager
    def read(self, contract: ColumnContract, digest: str, first: int = 0, last: int = 999) -> Iterator[Any]:
        chunk = Plan(ChunkSpec("integer", "id", str(first), str(last), "1000")).chunk(0)
        with self.source.read_chunk(
            ChunkRead(SOURCE, chunk, "id", contract, digest, None, "00ff", "arrow", "types")
        ) as rows:
            yield rows

    def digested(self, contract: ColumnContract) -> ColumnContract:
        """The columns that have a digest on this server; the stand-in writes no bytes, and no scale of a cast."""
        without = self.source.types_without_digest()
        return replace(contract, columns=tuple(c for c in contract.columns if _is_written(c, without)))

    @property
    def good(self) -> list[dict[int, str]]:
        longest = max(len(case.good) for case in self.cases)
        return [{n: c.good[k][0] for n, c in enumerate(self.cases) if k < len(c.good)} for k in range(longest)] + [{}]

    def wanted(self, row: int, number: int) -> str | None:
        good = self.cases[number].good
        return good[row][1] if row < len(good) else None


@pytest.fixture(scope="module")
def bench_of(mssql: MssqlServer) -> Iterator[Callable[[Sequence[Case]], Bench]]:
    url = mssql.recreate("types")
    with contextlib.closing(Session(url, "test")) as session, contextlib.closing(MssqlSource(url, "test")) as source:
        yield lambda cases: Bench(session, source, cases)
    mssql.drop("types")


def _is_written(column: ColumnBinding, without: frozenset[str]) -> bool:
    source, cast = type_of(column.source_type), type_of(column.cast or "")
    return source.name not in without and not (cast.name == "decimal" and source.args[1:] not in ((), cast.args[1:]))


def _groups(cases: Sequence[Case]) -> list[Sequence[Case]]:
    return [cases[start : start + _AT_ONCE] for start in range(0, len(cases), _AT_ONCE)]


def _ids(cases: Sequence[Case]) -> str:
    return f"{cases[0]} …"


def test_every_row_of_the_tables_has_a_case() -> None:
    for server, cases in (("postgres", TO_POSTGRES), ("mssql", TO_MSSQL)):
        tried = {
            (type_of(case.source).name, type_of(case.target).name) for case in cases if case.representation is None
        }
        assert tried == set(type_table("mssql", server).rules)  # type: ignore[arg-type]


@pytest.mark.parametrize("cases", _groups(TO_POSTGRES), ids=_ids)
def test_values_arrive_in_postgresql_exactly_or_stop_their_chunk(
    bench_of: Callable[[Sequence[Case]], Bench], database: str, cases: Sequence[Case]
) -> None:
    bench = bench_of(cases)
    columns = ", ".join(f"c{n} {case.target}" for n, case in enumerate(cases))
    with psycopg.connect(database, autocommit=True) as target:
        target.execute(f"CREATE TABLE public.t (id int PRIMARY KEY, {columns})".encode())
    with contextlib.closing(PostgresSession(database, "test")) as session:
        found = read_columns(session, TableRef("public", "t"))
        assert found is not None
        bench.make(bench.good)
        contract, digest = bench.contract("postgres", found[2], "fail")
        with session.transaction(), bench.read(contract, digest) as rows:
            blocks = Blocks(rows)
            names = psycopg.sql.SQL(", ").join(psycopg.sql.Identifier(c.target) for c in contract.columns)
            copy = psycopg.sql.SQL("COPY public.t ({}) FROM STDIN (FORMAT {})").format(names, blocks.format)
            assert copy_in(session, copy, blocks) == len(bench.good) == rows.rows
        digested = bench.digested(contract)
        assert bench.source.content_digest(SOURCE, digested) == content_digest(
            session, TableRef("public", "t"), digested
        )
    casts = ", ".join(_postgres_text(n, case) for n, case in enumerate(cases))
    with psycopg.connect(database, options="-c TimeZone=UTC") as target:
        for row, *values in target.execute(f"SELECT id, {casts} FROM public.t ORDER BY id".encode()):
            for number, value in enumerate(values):
                assert value == bench.wanted(row, number), str(cases[number])
    _prove_bad(bench, "postgres", found[2])


def _postgres_text(number: int, case: Case) -> str:
    if case.target in ("float8", "float4"):
        return f"c{number}::float8::text || CASE WHEN c{number}::float8::text ~ '^-?\\d+$' THEN '.0' ELSE '' END"
    if case.target == "character(4)":
        return f"rpad(c{number}, 4)"  # PostgreSQL's text of it has no padding
    return f"c{number}::text"


@pytest.mark.parametrize("cases", _groups(TO_MSSQL), ids=_ids)
def test_values_arrive_in_sql_server_exactly_or_stop_their_chunk(
    bench_of: Callable[[Sequence[Case]], Bench], cases: Sequence[Case]
) -> None:
    bench = bench_of(cases)
    columns = ", ".join(f"c{n} {case.target} NULL" for n, case in enumerate(cases))
    for table in (BY_BULK, BY_ROW):
        bench.session.execute(f"DROP TABLE IF EXISTS {quoted_table(table)}")
        bench.session.execute(f"CREATE TABLE {quoted_table(table)} (id int NOT NULL, {columns})", seconds=60)
    target = CatalogReader(bench.session).describe(BY_BULK)
    assert target is not None
    bench.make(bench.good)
    contract, digest = bench.contract("mssql", target.columns, "fail")
    with bench.read(contract, digest) as rows:
        batches = list(rows)
    stage = Stage(BY_BULK, {c.target: c.target for c in contract.columns}, "types")
    assert bulk_copy(bench.session, stage, Held(batches)) == len(bench.good)
    assert insert_batches(bench.session, quoted_table(BY_ROW), batches) == len(bench.good)
    digested = bench.digested(contract)
    assert bench.source.content_digest(SOURCE, digested) == mssql_content_digest(bench.session, BY_BULK, digested)
    forms = ", ".join(FORMS.get(type_of(c.target).name, "{}").format(f"c{n}") for n, c in enumerate(cases))
    for table in (BY_BULK, BY_ROW):
        query = f"SELECT id, {forms} FROM {quoted_table(table)} ORDER BY id"
        for row, *values in bench.session.rows(query, seconds=60):
            for number, value in enumerate(values):
                told = _told(value, cases[number].target)
                assert told == bench.wanted(row, number), (str(cases[number]), table)
    _prove_bad(bench, "mssql", target.columns)


def _told(value: Any, kind: str) -> str | None:
    if value is None or (isinstance(value, str) and "time" not in kind):
        return value
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    text = str(value)
    point, _, zone = text.partition(" +")
    return point.rstrip("0").rstrip(".") + (f" +{zone}" if zone else "") if "." in text and "time" in kind else text


def _prove_bad(bench: Bench, server: Server, target: Sequence[Column]) -> None:
    """Each bad value is NULL, and counted, where that is asked for; else it stops its chunk with its reason."""
    bad = [(n, value, reason) for n, case in enumerate(bench.cases) for value, reason in case.bad]
    if not bad:
        return
    bench.make([{number: value} for number, value, _ in bad])
    contract, digest = bench.contract(server, target, "null")
    with bench.read(contract, digest) as rows:
        read = {row.pop("id"): row for batch in rows for row in batch.to_pylist()}
    assert len(read) == len(bad)
    for row, values in read.items():
        assert set(values.values()) == {None}, bench.cases[bad[row][0]]
    numbers = [number for number, *_ in bad]
    assert {name: count for name, count in rows.nulled.items() if count} == {
        f"c{number}": numbers.count(number) for number in numbers
    }
    contract, digest = bench.contract(server, target, "fail")
    for row, (number, _, reason) in enumerate(bad):
        if reason in [told for _, _, told in bad[:row]]:
            continue  # a guard is a guard, whatever its column
        with pytest.raises(ValueNotRepresentable) as refused, bench.read(contract, digest, row, row) as rows:
            list(rows)
        (finding,) = refused.value.findings
        assert finding.path == f"source.c{number}"
        assert finding.problem.startswith(f"{reason}, in the row with key digest "), str(bench.cases[number])


def test_what_has_no_exact_home_is_refused_with_what_to_do() -> None:
    refusals = {
        ("timestamp", "postgres", "bytea"): "leave the column out",
        ("sql_variant", "postgres", "text"): "leave the column out",
        ("hierarchyid", "mssql", "hierarchyid"): "leave the column out",
        ("money", "mssql", "money"): "representation: text",
        ("datetimeoffset", "mssql", "datetime2"): "change the target's type",
        ("nvarchar", "postgres", "jsonb"): "change the target's type",
    }
    for (source, server, target), advice in refusals.items():
        columns = [Column("c", ColumnType(name, display=name), True) for name in (source, target)]
        with pytest.raises(ColumnContractRefused) as refused:
            match_columns(
                columns[:1], columns[1:], options={}, wanted=None, key=(),
                find_home=type_table("mssql", server).home,  # type: ignore[arg-type]
            )  # fmt: skip
        assert advice in refused.value.findings[0].advice, source
