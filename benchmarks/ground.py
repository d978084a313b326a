"""The servers: one PostgreSQL for the source and the target, set as for a load, and a SQL Server where there is one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg import sql

from benchmarks import tables
from benchmarks.cases import Case, Route
from demo.embedded import Embedded, stop_server
from demo.mssql_server import STAND_IN, URL_VARIABLE, MssqlServer, named_server, start_stand_in
from demo.place import ROOT
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.quoting import literal, quoted, quoted_table
from dpone_dagster.mssql.session import UNBOUNDED, Session

FOLDER = ROOT / ".dpone" / "bench"
SOURCE_DATABASE, TARGET_DATABASE = "bench_source", "dpone_bench"
# As a DBA would set a server for a load; nothing that gives up durability. The same for every contender.
SETTINGS: Mapping[str, str] = {
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "maintenance_work_mem": "512MB",
}
_SHOWN = (*SETTINGS, "wal_buffers", "fsync", "synchronous_commit", "full_page_writes", "wal_level", "server_version")


class Ground(Protocol):
    """A target's server, on which the target's database is made anew for each run."""

    url: str

    def make(self, case: Case) -> None:
        """Make the database, with the live table, empty; then wait for a checkpoint."""

    def rows(self, table: TableRef) -> int:
        """How many a table has."""

    def written(self) -> int | None:
        """Bytes of log written since the server was made; None where it does not tell."""

    def drop(self) -> None:
        """Drop the database."""


class PostgresGround:
    """The embedded server, which has the source too."""

    def __init__(self, server: Embedded) -> None:
        self._server = server
        self.url = server.url(TARGET_DATABASE)

    def make(self, case: Case) -> None:
        """As the protocol says."""
        tables.make_live(self._server.recreate(TARGET_DATABASE), case)
        checkpoint(self._server)

    def rows(self, table: TableRef) -> int:
        """As the protocol says."""
        name = sql.Identifier(table.schema, table.name)
        with psycopg.connect(self.url) as target:
            row = target.execute(sql.SQL("SELECT count(*) FROM {}").format(name)).fetchone()
        assert row is not None
        return int(row[0])

    def written(self) -> int | None:
        """Of the whole server; nobody else uses it."""
        with psycopg.connect(self.url) as target:
            row = target.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        return int(row[0])

    def drop(self) -> None:
        """As the protocol says."""
        self._server.drop(TARGET_DATABASE)


class MssqlGround:
    """A SQL Server on which databases may be made."""

    def __init__(self, server: MssqlServer, source: Embedded) -> None:
        self._server = server
        self._source = source
        self.url = server.url_of(TARGET_DATABASE)

    def make(self, case: Case) -> None:
        """As the protocol says."""
        live = quoted_table(tables.LIVE)
        url = self._server.recreate(TARGET_DATABASE)
        with contextlib.closing(Session(url, "bench")) as session:
            # CREATE SCHEMA has to be alone in its batch.
            session.execute(f"EXEC ({literal(f'CREATE SCHEMA {quoted(tables.LIVE.schema)}')})")
            session.execute(f"CREATE TABLE {live} ({tables.mssql_definitions(case)})")
            session.execute(f"CREATE UNIQUE INDEX loaded_id ON {live} ([id])")
            with contextlib.suppress(DponeError):
                session.execute("CHECKPOINT", seconds=UNBOUNDED)
        checkpoint(self._source)

    def rows(self, table: TableRef) -> int:
        """As the protocol says."""
        with contextlib.closing(Session(self.url, "bench")) as session:
            return int(session.value(f"SELECT COUNT_BIG(*) FROM {quoted_table(table)}", seconds=UNBOUNDED))

    def written(self) -> int | None:
        """Not asked for."""
        return None

    def drop(self) -> None:
        """As the protocol says."""
        self._server.drop(TARGET_DATABASE)


@dataclass(frozen=True)
class Servers:
    """What there is to run on.

    Attributes:
        source: The embedded server.
        grounds: By route; one is missing where there is no such server.
        facts: Of each server, for the page.
    """

    source: Embedded
    grounds: Mapping[Route, Ground]
    facts: Mapping[str, Mapping[str, str]]


@contextlib.contextmanager
def opened_servers(routes: frozenset[Route]) -> Iterator[Servers]:
    """Start what is needed; the embedded server is stopped at the end, its source tables are kept.

    Args:
        routes: That are asked for.
    """
    with contextlib.ExitStack() as stack:
        server = _tuned(stack)
        with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
            if admin.execute("SELECT FROM pg_database WHERE datname = %s", (SOURCE_DATABASE,)).fetchone() is None:
                admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(SOURCE_DATABASE)))
            shown = {name: str(admin.execute(f"SHOW {name}".encode()).fetchone()[0]) for name in _SHOWN}  # type: ignore[index]
        grounds: dict[Route, Ground] = {"pg": PostgresGround(server)}
        facts: dict[str, Mapping[str, str]] = {"PostgreSQL (source, and target of `pg-`)": shown}
        other = _sql_server() if "mssql" in routes else None
        if other is not None:
            stack.callback(other.close)
            grounds["mssql"] = MssqlGround(other, server)
            facts["Target of `mssql-`"] = {"version": other.verified_on}
        yield Servers(server, grounds, facts)


def checkpoint(server: Embedded) -> None:
    """Write out what earlier runs have left behind, so that no run pays for another."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
        admin.execute("CHECKPOINT")


def _tuned(stack: contextlib.ExitStack) -> Embedded:
    folder = _data_dir()
    folder.parent.mkdir(parents=True, exist_ok=True)
    server = Embedded(folder, keep=True)
    with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
        for name, value in SETTINGS.items():
            admin.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    # Some of them are read at the start only; a new process is also the same ground for every bench.
    server.restart()
    stack.callback(stop_server, folder)
    return server


def _data_dir() -> Path:
    """In the checkout, or below the temporary folder where the server, which is another user then, cannot reach it."""
    if os.geteuid() != 0 or all(folder.stat().st_mode & stat.S_IXOTH for folder in (ROOT, *ROOT.parents)):
        return FOLDER / "pg"
    digest = hashlib.sha256(str(ROOT).encode()).hexdigest()[:10]
    return Path(tempfile.gettempdir()) / f"dpone-bench-{digest}" / "pg"


def _sql_server() -> MssqlServer | None:
    if url := os.environ.get(URL_VARIABLE):
        return named_server(url)
    return start_stand_in() if STAND_IN.exists() else None
