"""The tables that are loaded: their columns on both servers, and how the source's rows are made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from benchmarks.cases import Case, Key, Shape
from demo.embedded import Embedded
from dpone_dagster.campaign.names import TableRef

SOURCE_SCHEMA = "bench"
LIVE = TableRef("landing", "loaded")
_MEGABYTE_PIECES = 32_768  # of 32 characters
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: On both servers.
        postgres: Its type there.
        mssql: Its type there.
        value: Made from the row's number `n`.
    """

    name: str
    postgres: LiteralString
    mssql: str
    value: LiteralString


_KEYS: dict[Key, Column] = {
    "int": Column("id", "bigint NOT NULL", "bigint NOT NULL", "n"),
    "uuid": Column("id", "uuid NOT NULL", "uniqueidentifier NOT NULL", "md5('row ' || n)::uuid"),
}
_NARROW = (
    Column("customer_id", "integer NOT NULL", "int NOT NULL", "(n * 7919 % 1000003)::integer"),
    Column(
        "amount",
        "numeric(18,2)",
        "decimal(18,2) NULL",
        "CASE WHEN n % 11 > 0 THEN (n * 7919 % 100000000)::numeric / 100 END",
    ),
    Column(
        "placed_at",
        "timestamptz NOT NULL",
        "datetimeoffset(6) NOT NULL",
        "timestamptz '2024-01-01 00:00:00+00' + n * interval '1 second'",
    ),
    Column("note", "text", "nvarchar(100) NULL", "CASE WHEN n % 5 > 0 THEN 'order ' || n END"),
    Column("paid", "boolean NOT NULL", "bit NOT NULL", "n % 2 = 0"),
)
_WIDE = (
    *_NARROW,
    *(Column(f"text_{i}", "text", "nvarchar(100) NULL", "md5('text ' || n)") for i in range(6)),
    *(Column(f"number_{i}", "bigint", "bigint NULL", "n * 1000003") for i in range(5)),
    *(Column(f"price_{i}", "numeric(18,4)", "decimal(18,4) NULL", "(n % 10000000)::numeric / 10000") for i in range(4)),
    *(
        Column(
            f"moment_{i}",
            "timestamp",
            "datetime2(6) NULL",
            "timestamp '2024-01-01 00:00:00' + n * interval '1 minute'",
        )
        for i in range(3)
    ),
)
_MEGABYTE = (Column("body", "text", "nvarchar(max) NULL", "repeat(md5('body ' || n), {pieces})"),)
_SHAPES: dict[Shape, tuple[Column, ...]] = {
    "narrow": _NARROW,
    "sparse": _NARROW,
    "wide": _WIDE,
    "mb": _MEGABYTE,
}


def columns_of(case: Case) -> tuple[Column, ...]:
    """The key first."""
    return (_KEYS[case.key], *_SHAPES[case.shape])


def source_name(case: Case) -> str:
    """The source table's own name; cases with the same rows share it."""
    return case.table.replace("-", "_")


def fill_source(server: Embedded, database: str, case: Case) -> int:
    """Make the case's source table unless it is there; returns how many bytes it has.

    Args:
        server: Where.
        database: Its database, there already.
        case: Whose.
    """
    table = sql.Identifier(SOURCE_SCHEMA, source_name(case))
    with psycopg.connect(server.url(database), autocommit=True) as source:
        source.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SOURCE_SCHEMA)))
        if _bytes(source, case) is None:
            with source.transaction():
                source.execute(sql.SQL("CREATE TABLE {} ({})").format(table, _definitions(case)))
                source.execute(sql.SQL("INSERT INTO {} {}").format(table, _rows(case)))
                source.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (id)").format(table))
            # Frozen and with its hint bits set, or the first reader would pay for it.
            source.execute(sql.SQL("VACUUM (FREEZE, ANALYZE) {}").format(table))
        size = _bytes(source, case)
    assert size is not None
    return size


def make_live(url: str, case: Case) -> None:
    """On PostgreSQL: the live table, empty, with its primary key."""
    table = sql.Identifier(LIVE.schema, LIVE.name)
    with psycopg.connect(url, autocommit=True) as target:
        target.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(LIVE.schema)))
        target.execute(sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY (id))").format(table, _definitions(case)))


def decimals_of(case: Case) -> dict[str, tuple[int, int]]:
    """Precision and scale of its numeric columns."""
    found = {column.name: _DECIMAL.search(column.mssql) for column in columns_of(case)}
    return {name: (int(match[1]), int(match[2])) for name, match in found.items() if match}


def mssql_definitions(case: Case) -> str:
    """The columns as T-SQL."""
    return ", ".join(f"[{column.name}] {column.mssql}" for column in columns_of(case))


def _rows(case: Case) -> sql.Composed:
    values = sql.SQL(", ").join(
        sql.SQL(column.value.replace("{pieces}", str(_MEGABYTE_PIECES))) for column in columns_of(case)
    )
    query = sql.SQL("SELECT {} FROM generate_series(1::bigint, {}::bigint) AS n")
    return query.format(values, sql.Literal(case.rows))


def _definitions(case: Case) -> sql.Composed:
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(c.name), sql.SQL(c.postgres)) for c in columns_of(case)
    )


def _bytes(source: psycopg.Connection[tuple[int | None]], case: Case) -> int | None:
    name = sql.Identifier(SOURCE_SCHEMA, source_name(case)).as_string(source)
    row = source.execute("SELECT pg_table_size(to_regclass(%s))", (name,)).fetchone()
    return None if row is None else row[0]
