"""The orders of `tests/orders.py` with a SQL Server target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import psycopg
import pytest

from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.quoting import quoted_table
from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.ports.target import Connector
from tests.orders import COLUMNS, ROWS, Orders, make_manifest, make_orders
from tests.servers.mssql_targets import LendingConnector, MssqlTargets

TARGET_COLUMNS = """
    id uniqueidentifier NOT NULL,
    amount decimal(18,2) NULL,
    placed_at datetimeoffset(6) NOT NULL,
    note nvarchar(max) NULL,
    paid bit NOT NULL,
    detail nvarchar(max) NULL
"""


@dataclass
class MssqlOrders(Orders):
    """Source on PostgreSQL, target on SQL Server.

    Attributes:
        targets: Where sessions come from and go back to; None for the campaign's own connector.
    """

    targets: MssqlTargets | None = None

    @property
    def connector(self) -> Connector:
        own = super().connector
        # Lent sessions have state tables.
        lent = self.targets is not None and not self.spec.state.in_file
        return LendingConnector(own, self.targets) if lent and self.targets else own

    @property
    def environment(self) -> Mapping[str, str]:
        return {"DPONE_CONNECTION_PG_OLTP": self.source_url, "DPONE_CONNECTION_MSSQL_DWH": self.target_url}

    def on_target(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self.harness() as session:
            if statement.lstrip().upper().startswith(("SELECT", "WITH")):
                return session.rows(statement, *parameters, seconds=UNBOUNDED)
            session.execute(statement, *parameters, seconds=UNBOUNDED)
            return []

    def harness(self) -> AbstractContextManager[Session]:
        """A session of the test itself."""
        if self.targets is not None:
            return nullcontext(self.targets.harness)
        return closing(Session(self.target_url, "test harness"))

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

    def rows_of(self, table: TableRef) -> list[tuple[Any, ...]]:
        return self.target_rows(quoted_table(table))

    def index_names(self) -> list[str]:
        rows = self.on_target(
            "SELECT i.name FROM sys.indexes AS i "
            "WHERE i.object_id = OBJECT_ID('landing.orders') AND i.name IS NOT NULL ORDER BY i.name"
        )
        # The stand-in appends the table's name and a digest, which changes with every table.
        return sorted(re.sub(r"orders[0-9a-f]{20,}$", "", name) for (name,) in rows)


def make_mssql_orders(
    source_url: str, target: str | MssqlTargets, *, rows: int, chunks: int = 8, lanes: int = 2
) -> MssqlOrders:
    """Create the source with `rows` rows and a live target that holds an older generation of three rows."""
    with psycopg.connect(source_url, autocommit=True) as source:
        source.execute(f"CREATE TABLE public.orders ({COLUMNS}, PRIMARY KEY (id))".encode())
        source.execute(f"INSERT INTO public.orders {ROWS}".encode(), {"rows": rows, "salt": "new"})
        source.execute("ANALYZE public.orders")
    manifest = make_manifest(chunks, lanes)
    manifest["sink"] |= {"type": "mssql", "connection_ref": "mssql_dwh"}
    manifest["state"] |= {"type": "mssql", "connection_ref": "mssql_dwh"}
    if isinstance(target, str):
        orders = MssqlOrders(source_url, target, manifest)
    else:
        orders = MssqlOrders(source_url, target.url, manifest, target)
    make_mssql_target(orders)
    return orders


def make_mssql_target(orders: MssqlOrders) -> None:
    """A live table that holds an older generation of three rows."""
    with orders.harness() as session:
        session.execute("EXEC (N'CREATE SCHEMA landing')")
        session.execute(f"CREATE TABLE landing.orders ({TARGET_COLUMNS})", seconds=30)
        session.execute("CREATE UNIQUE INDEX orders_id ON landing.orders (id)", seconds=30)
        session.execute("CREATE INDEX orders_placed_at ON landing.orders (placed_at)", seconds=30)
        for number in range(3):
            session.execute(
                "INSERT INTO landing.orders VALUES (NEWID(), ?, '2020-01-01 00:00:00 +00:00', N'old', 1, NULL)", number
            )


def make_either_orders(request: pytest.FixtureRequest, **sizes: int) -> Orders:
    """`make_orders`, or its twin on SQL Server, as the fixture's parameter says: `postgres` or `mssql`."""
    new_database = request.getfixturevalue("new_database")
    if request.param == "postgres":
        return make_orders(new_database("oltp"), new_database("dwh"), **sizes)
    return make_mssql_orders(new_database("oltp"), request.getfixturevalue("mssql_warehouse"), **sizes)
