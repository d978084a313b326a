"""Digests are the same on both servers, at the edges of every type's domain.

Verified on Babelfish 4.3, which hashes text as UTF-8 by itself. UNVERIFIED on SQL Server: the way over a UTF-8
collation. Bytes are left out: the stand-in cannot write them as hexadecimal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from psycopg import sql

from demo.mssql_server import MssqlServer
from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql import digests as mssql_digests
from dpone_dagster.mssql.session import Session as MssqlSession
from dpone_dagster.postgres import digests as pg_digests
from dpone_dagster.postgres.session import Session as PgSession

TABLE = TableRef("landing", "edges")
# PostgreSQL type, SQL Server type, values as both read them.
EDGES: dict[str, tuple[str, str, list[str]]] = {
    "uuid": (
        "uuid",
        "uniqueidentifier",
        ["00000000-0000-0000-0000-000000000000", "FFFFFFFF-ffff-FFFF-ffff-fffffffffffe"],
    ),
    "smallint": ("int2", "smallint", ["-32768", "32767", "0"]),
    "int": ("int4", "int", ["-2147483648", "2147483647"]),
    "bigint": ("int8", "bigint", ["-9223372036854775808", "9223372036854775807", "-1"]),
    "money_like": ("numeric(18,2)", "decimal(18,2)", ["-0.50", "9999999999999999.99", "0", "7"]),
    "widest": ("numeric(38,10)", "decimal(38,10)", ["-9999999999999999999999999999.9999999999", "0.0000000001"]),
    "whole": ("numeric(38,0)", "decimal(38,0)", ["99999999999999999999999999999999999999", "-1"]),
    "flag": ("boolean", "bit", ["1", "0"]),
    "date": ("date", "date", ["0001-01-01", "9999-12-31", "2024-02-29"]),
    "time": ("time(6)", "time(6)", ["00:00:00", "23:59:59.999999", "12:00:00.120000", "12:00:00.000001"]),
    "time0": ("time(0)", "time(0)", ["00:00:00", "23:59:59"]),
    "stamp": (
        "timestamp(6)",
        "datetime2(6)",
        ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2024-01-01 10:00:00.1"],
    ),
    "stamp3": ("timestamp(3)", "datetime2(3)", ["2024-01-01 10:20:30.001", "2024-01-01 10:20:30.100"]),
    "instant": ("timestamptz", "datetimeoffset(6)", ["2024-01-01 00:30:00.5 +05:30", "0002-01-01 00:00:00 -12:00"]),
    "float": ("double precision", "float", ["0.1", "-1.5", "0", "1e308", "5e-324", "123456789.123456789"]),
    "real": ("real", "real", ["0.1", "-1.5", "3.4e38", "1e-38"]),
    "text": ("text", "nvarchar(max)", ["", " ", "a ", "~", "|", "~|~0~1", "naïve 😀", "\n\t", "x" * 9_000]),
    "short": ("varchar(20)", "nvarchar(20)", ["abc", "ABC", "日本語"]),
}


@pytest.fixture
def pg_url(database: str) -> str:
    with contextlib.closing(PgSession(database, "test")) as session:
        session.connection.execute("CREATE SCHEMA landing")
    return database


@pytest.fixture
def mssql_url(new_mssql_database: Callable[[str], str]) -> str:
    url = new_mssql_database("digests")
    with contextlib.closing(MssqlSession(url, "test")) as session:
        session.execute("EXEC (N'CREATE SCHEMA landing')")
    return url


def test_every_type_has_one_digest_on_both_servers(pg_url: str, mssql_url: str) -> None:
    """Each type with its edges and NULL, alone as a key with NULLs and together with all others."""
    with (
        contextlib.closing(PgSession(pg_url, "test")) as source,
        contextlib.closing(MssqlSession(mssql_url, "test")) as target,
    ):
        for name, (pg_type, mssql_type, values) in EDGES.items():
            fill(source, target, pg_type, mssql_type, [*values, None])
            contract = ColumnContract((ColumnBinding("v", "v", pg_type, mssql_type),), ("v",))
            assert mssql_digests.content_digest(target, TABLE, contract) == pg_digests.content_digest(
                source, TABLE, contract
            ), name
            if "float" in mssql_type or "real" in mssql_type:
                continue
            buckets = source.connection.execute(
                pg_digests.key_buckets_query(sql.SQL("landing.edges"), [sql.Identifier("v")], 16)
            ).fetchall()
            found = mssql_digests.key_buckets(target, TABLE, ["v"], 16, only="(1 = 1)")
            assert [(b.bucket, b.keys, b.total) for b in found] == buckets, name


def fill(source: PgSession, target: MssqlSession, pg_type: str, mssql_type: str, values: list[str | None]) -> None:
    source.connection.execute("DROP TABLE IF EXISTS landing.edges")
    source.connection.execute(f"CREATE TABLE landing.edges (v {pg_type})".encode())
    target.execute(f"DROP TABLE IF EXISTS landing.edges; CREATE TABLE landing.edges (v {mssql_type} NULL)")
    for value in values:
        source.connection.execute(f"INSERT INTO landing.edges VALUES (%s::text::{pg_type})".encode(), [value])
        target.execute(f"INSERT INTO landing.edges VALUES (CAST(CAST(? AS nvarchar(max)) AS {mssql_type}))", value)


def test_one_changed_value_changes_the_digest(mssql_url: str) -> None:
    with contextlib.closing(MssqlSession(mssql_url, "test")) as target:
        target.execute("CREATE TABLE landing.edges (a nvarchar(10) NULL, b nvarchar(10) NULL)")
        contract = ColumnContract(tuple(ColumnBinding(n, n, "text", "nvarchar(10)") for n in "ab"), ("a",))
        seen = set()
        pairs = [("a", "b"), ("a|b", ""), ("", "a|b"), ("a", None), (None, "a"), ("~", "a"), ("A", "b"), ("a ", "b")]
        for pair in pairs:
            target.execute("DELETE FROM landing.edges")
            target.execute("INSERT INTO landing.edges VALUES (?, ?)", *pair)
            seen.add(mssql_digests.content_digest(target, TABLE, contract))
        target.execute("DELETE FROM landing.edges")
        assert mssql_digests.content_digest(target, TABLE, contract) == "0:0"
        assert len(seen) == len(pairs)


def test_types_that_a_server_writes_otherwise_are_found_out(mssql: MssqlServer, mssql_url: str) -> None:
    with contextlib.closing(MssqlSession(mssql_url, "test")) as target:
        wrong = {"binary", "varbinary"} if mssql.stand_in else set()
        assert mssql_digests.types_without_digest(target) == wrong
