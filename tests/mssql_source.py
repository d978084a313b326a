"""The orders of `tests/orders.py` with a source on SQL Server, and a target on either kind of server."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from datetime import UTC
from typing import Any, ClassVar

import psycopg
import pytest

from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.ports.target import Connector
from tests.mssql_orders import TARGET_COLUMNS, MssqlOrders, make_mssql_orders, make_mssql_target
from tests.orders import ROWS, Orders, make_manifest, make_orders
from tests.servers.mssql_targets import LendingSource, MssqlTargets

# One a quarter of an hour, from the first instant of March 29.
FOUR_DAYS = {"column": "placed_at", "kind": "date", "from": "2024-03-29", "to": "2024-04-01", "step": "1d"}
_TARGET_COLUMNS = """
    id uuid NOT NULL, amount numeric(18,2), placed_at timestamptz NOT NULL, note text, paid boolean NOT NULL,
    detail text
"""
_NUMBERS = "SELECT TOP ({rows}) ROW_NUMBER() OVER (ORDER BY (SELECT 1)) AS n FROM sys.all_columns AS a"
_ROWS = f"""
    INSERT INTO [oltp].[orders]
    SELECT NEWID(), CAST(n AS decimal(18,2)) / 100,
           CAST(DATEADD(minute, 15 * ((n - 1) % 384), CAST('2024-03-29' AS datetime2(6))) AS datetimeoffset(6)),
           CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN N'' WHEN 2 THEN N'naïve 😀 " ' + CONVERT(nvarchar(9), n)
                      WHEN 3 THEN N'a' + NCHAR(10) + N'\\.' + NCHAR(13) + N',b ' ELSE N'\\N' END,
           n % 2, N'{{{{"n": ' + CONVERT(nvarchar(9), n) + N'}}}}'
    FROM ({_NUMBERS}) AS numbers
"""


class _FromMssql(Orders):
    """What a source on SQL Server changes."""

    warehouse: MssqlTargets | None = None  # which lends the source's connections, if anybody does
    chunks: ClassVar[dict[str, Any]] = FOUR_DAYS
    one_chunk: ClassVar[dict[str, Any]] = {**FOUR_DAYS, "step": "1w"}

    @property
    def connector(self) -> Connector:
        own = super().connector
        return LendingSource(own, self.warehouse) if self.warehouse else own

    @property
    def environment(self) -> Mapping[str, str]:
        return {"DPONE_CONNECTION_MSSQL_OLTP": self.source_url, self._sink: self.target_url}

    @property
    def _sink(self) -> str:
        return f"DPONE_CONNECTION_{self.manifest['sink']['connection_ref'].upper()}"

    def on_source(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        statement = statement.replace("public.orders", "oltp.orders")  # a schema that the stand-in keeps for itself
        with self.source_harness() as session:
            if statement.lstrip().upper().startswith(("SELECT", "WITH")):
                return session.rows(statement, *parameters, seconds=UNBOUNDED)
            session.execute(statement, *parameters, seconds=UNBOUNDED)
            return []

    def source_harness(self) -> AbstractContextManager[Session]:
        """A session of the test itself."""
        if self.warehouse is not None:
            return nullcontext(self.warehouse.harness)
        return closing(Session(self.source_url, "test harness"))

    def spread(self) -> None:
        pass  # they are

    def add_orders(self, count: int, day: str) -> None:
        numbers = _NUMBERS.format(rows=int(count))
        self.on_source(
            "INSERT INTO [oltp].[orders] SELECT NEWID(), 1, CAST(? AS datetimeoffset(6)), N'new', 1, NULL "
            f"FROM ({numbers}) AS numbers",
            day,
        )

    def source_rows(self) -> list[tuple[Any, ...]]:
        rows = self.on_source(
            "SELECT LOWER(CONVERT(nvarchar(36), id)), amount, "
            "CAST(SWITCHOFFSET(placed_at, '+00:00') AS datetime2(6)), note, paid, detail FROM [oltp].[orders]"
        )
        return sorted((i, a, placed_at.replace(tzinfo=UTC), n, p, d) for i, a, placed_at, n, p, d in rows)


@dataclass
class MssqlToPostgres(_FromMssql):
    """From SQL Server to PostgreSQL."""

    def target_rows(self, table: str = "landing.orders") -> list[tuple[Any, ...]]:
        query = f"SELECT id::text, amount, placed_at, note, paid, detail FROM {table} ORDER BY 1"
        return self.on_target(query)


@dataclass
class MssqlToMssql(_FromMssql, MssqlOrders):
    """From SQL Server to SQL Server."""


def make_from_mssql(
    source: str | MssqlTargets, target: str | MssqlTargets, *, rows: int, lanes: int = 2
) -> MssqlToPostgres | MssqlToMssql:
    """Create the source with `rows` rows over four days, and a live target that holds an older generation of three.

    Args:
        source: URL of its database, or what lends connections to it.
        target: The same.
        rows: How many.
        lanes: Of the campaign.
    """
    source_url, warehouse = (source, None) if isinstance(source, str) else (source.url, source)
    manifest = make_manifest(4, lanes)
    manifest["source"] = {
        "type": "mssql",
        "connection_ref": "mssql_oltp",
        "table": {"schema": "oltp", "name": "orders"},
    }
    made: MssqlToPostgres | MssqlToMssql
    if isinstance(target, str) and target.startswith("postgresql"):
        _make_target(target)
        made = MssqlToPostgres(source_url, target, manifest)
    else:
        manifest["sink"] |= {"type": "mssql", "connection_ref": "mssql_dwh"}
        manifest["state"] |= {"type": "mssql", "connection_ref": "mssql_dwh"}
        url, targets = (target, None) if isinstance(target, str) else (target.url, target)
        made = MssqlToMssql(source_url, url, manifest, targets)
        make_mssql_target(made)
    made.warehouse = warehouse
    with made.source_harness() as session:
        session.execute("EXEC (N'CREATE SCHEMA oltp')")
        session.execute(f"CREATE TABLE [oltp].[orders] ({TARGET_COLUMNS}, PRIMARY KEY (id))", seconds=30)
        session.execute("CREATE INDEX orders_placed_at ON [oltp].[orders] (placed_at)", seconds=30)
        session.execute(_ROWS.format(rows=int(rows)), seconds=60)
    return made


def _make_target(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as target:
        target.execute("CREATE SCHEMA landing")
        target.execute(f"CREATE TABLE landing.orders ({_TARGET_COLUMNS}, PRIMARY KEY (id))".encode())
        target.execute("CREATE INDEX orders_placed_at ON landing.orders (placed_at)")
        target.execute(f"INSERT INTO landing.orders {ROWS}".encode(), {"rows": 3, "salt": "old"})


ROUTES = ("postgres to postgres", "postgres to mssql", "mssql to postgres", "mssql to mssql")


def make_route(request: pytest.FixtureRequest, **sizes: int) -> Orders:
    """Orders on the route that the fixture's parameter names, one of `ROUTES`."""
    source, target = request.param.split(" to ")
    new_database = request.getfixturevalue("new_database")
    if source == "postgres":
        if target == "postgres":
            return make_orders(new_database("oltp"), new_database("dwh"), chunks=4, **sizes)
        return make_mssql_orders(new_database("oltp"), request.getfixturevalue("mssql_warehouse"), chunks=4, **sizes)
    warehouse = request.getfixturevalue("mssql_warehouse")
    return make_from_mssql(warehouse, warehouse if target == "mssql" else new_database("dwh"), **sizes)
