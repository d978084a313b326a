"""The orders of `tests/orders.py` with a SQL Server target."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from datetime import UTC
from typing import Any

import psycopg

from dpone_dagster.mssql.session import UNBOUNDED, Session
from tests.orders import COLUMNS, ROWS, Orders, make_manifest

TARGET_COLUMNS = """
    id uniqueidentifier NOT NULL,
    amount decimal(18,2) NULL,
    placed_at datetimeoffset(6) NOT NULL,
    note nvarchar(max) NULL,
    paid bit NOT NULL,
    detail nvarchar(max) NULL
"""


class MssqlOrders(Orders):
    """Source on PostgreSQL, target on SQL Server."""

    @property
    def environment(self) -> Mapping[str, str]:
        return {"DPONE_CONNECTION_PG_OLTP": self.source_url, "DPONE_CONNECTION_MSSQL_DWH": self.target_url}

    def on_target(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with contextlib.closing(Session(self.target_url, "test harness")) as session:
            if statement.lstrip().upper().startswith(("SELECT", "WITH")):
                return session.rows(statement, *parameters, seconds=UNBOUNDED)
            session.execute(statement, *parameters, seconds=UNBOUNDED)
            return []

    def source_rows(self) -> list[tuple[Any, ...]]:
        return self.on_source(
            "SELECT id::text, amount, placed_at, note, paid, detail::text FROM public.orders ORDER BY 1"
        )

    def target_rows(self, table: str = "[landing].[orders]") -> list[tuple[Any, ...]]:
        rows = self.on_target(
            "SELECT LOWER(CONVERT(nvarchar(36), id)), amount, "
            "CAST(SWITCHOFFSET(placed_at, '+00:00') AS datetime2(6)), note, paid, detail "
            f"FROM {table}"
        )
        return sorted((i, a, placed_at.replace(tzinfo=UTC), n, p, d) for i, a, placed_at, n, p, d in rows)

    def index_names(self) -> list[str]:
        rows = self.on_target(
            "SELECT i.name FROM sys.indexes AS i "
            "WHERE i.object_id = OBJECT_ID('landing.orders') AND i.name IS NOT NULL ORDER BY i.name"
        )
        # The stand-in appends the table's name and a digest, which changes with every table.
        return sorted(re.sub(r"orders[0-9a-f]{20,}$", "", name) for (name,) in rows)


def make_mssql_orders(source_url: str, target_url: str, *, rows: int, chunks: int = 8, lanes: int = 2) -> MssqlOrders:
    """Create the source with `rows` rows and a live target that holds an older generation of three rows."""
    with psycopg.connect(source_url, autocommit=True) as source:
        source.execute(f"CREATE TABLE public.orders ({COLUMNS}, PRIMARY KEY (id))".encode())
        source.execute(f"INSERT INTO public.orders {ROWS}".encode(), {"rows": rows, "salt": "new"})
        source.execute("ANALYZE public.orders")
    with contextlib.closing(Session(target_url, "test setup")) as target:
        target.execute("EXEC (N'CREATE SCHEMA landing')")
        target.execute(f"CREATE TABLE landing.orders ({TARGET_COLUMNS})", seconds=30)
        target.execute("CREATE UNIQUE INDEX orders_id ON landing.orders (id)", seconds=30)
        target.execute("CREATE INDEX orders_placed_at ON landing.orders (placed_at)", seconds=30)
        for number in range(3):
            target.execute(
                "INSERT INTO landing.orders VALUES (NEWID(), ?, '2020-01-01 00:00:00 +00:00', N'old', 1, NULL)", number
            )
    manifest = make_manifest(chunks, lanes)
    manifest["sink"] |= {"type": "mssql", "connection_ref": "mssql_dwh"}
    manifest["state"] |= {"type": "mssql", "connection_ref": "mssql_dwh"}
    return MssqlOrders(source_url, target_url, manifest)
