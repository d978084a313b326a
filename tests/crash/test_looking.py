"""Looking never touches: every state table and every file is the same before and after. Verified on Babelfish 4.3."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpone_dagster.campaign.errors import ReleaseRefused
from dpone_dagster.cli.commands import dpone
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.release import preview_release
from dpone_dagster.mssql.session import UNBOUNDED, Session
from tests.crash.conftest import MakeOrders
from tests.engine.campaign import Seen as LaneSeen
from tests.engine.campaign import finish, lane, load
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders

LOOKS = [
    ("backfill", "plan"),
    ("backfill", "run"),
    ("backfill", "status"),
    ("backfill", "doctor"),
    ("backfill", "report", "--output", os.devnull),
    ("backfill", "release"),
    ("backfill", "rollback"),
    ("backfill", "drop-backup"),
    ("increment", "status"),
    ("state", "inspect"),
]


def nothing(orders: Orders) -> None:
    """No campaign yet."""


def half(orders: Orders) -> None:
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    lane(orders, LaneSeen())


def whole(orders: Orders) -> None:
    load(orders)
    finish(orders)


def database(orders: Orders) -> dict[str, list[tuple[object, ...]]]:
    """Every table of the target with every row; on PostgreSQL with the transactions that wrote it."""
    if isinstance(orders, MssqlOrders):
        with orders.harness() as session:  # one for all: a new one is what takes time
            return database_of(session)
    found = orders.on_target(
        "SELECT relnamespace::regnamespace::text, relname FROM pg_class WHERE relkind = 'r' "
        "AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')"
    )
    named = (f'"{schema}"."{name}"' for schema, name in found)
    return {name: rows(orders, f"SELECT xmin, xmax, ctid, * FROM {name}") for name in named}


def database_of(session: Session) -> dict[str, list[tuple[object, ...]]]:
    columns: dict[str, list[str]] = {}
    for schema, table, column, kind in session.rows(
        "SELECT s.name, t.name, c.name, y.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id "
        "JOIN sys.columns AS c ON c.object_id = t.object_id JOIN sys.types AS y ON y.user_type_id = c.user_type_id "
        "ORDER BY s.name, t.name, c.column_id"
    ):
        # pyodbc has no type for it.
        read = f"CONVERT(nvarchar(40), [{column}], 121)" if kind == "datetimeoffset" else f"[{column}]"
        columns.setdefault(f"[{schema}].[{table}]", []).append(read)
    return {
        name: sorted(map(tuple, session.rows(f"SELECT {', '.join(reads)} FROM {name}", seconds=UNBOUNDED)), key=repr)
        for name, reads in columns.items()
    }


def rows(orders: Orders, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in orders.on_target(query)), key=repr)


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("brought_to", [nothing, half, whole])
def test_no_look_leaves_a_trace(
    make_any_orders: MakeOrders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    brought_to: Callable[[Orders], None],
) -> None:
    orders = make_any_orders(rows=60, chunks=2, lanes=1)
    brought_to(orders)
    manifest = orders.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, value in orders.environment.items():
        monkeypatch.setenv(name, value)
    before = database(orders), files(tmp_path)
    for look in LOOKS:
        answer = CliRunner().invoke(dpone, [*look, str(manifest), "--format", "json"])
        assert answer.exit_code in (0, 1, 2), answer.output
        assert answer.output.startswith("{"), (look, answer.output)
        assert database(orders) == before[0], look
        assert files(tmp_path) == before[1], look
    if brought_to is not nothing:
        with pytest.raises(ReleaseRefused):
            preview_release(orders.spec, orders.connector)
