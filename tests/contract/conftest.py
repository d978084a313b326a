"""Opens every adapter's target for the contract tests, so that each guarantee is written once and held by all."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

import psycopg
import pytest
from psycopg import sql

from demo.mssql_server import MssqlServer
from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.files.filerows import receipt_row
from dpone_dagster.files.statefile import StateFile
from dpone_dagster.files.target import FileStateTarget
from dpone_dagster.ports.changes import Changes
from dpone_dagster.ports.fence import Fence
from dpone_dagster.ports.history import History
from dpone_dagster.ports.ledger import Ledger
from dpone_dagster.ports.publications import Publications
from dpone_dagster.ports.source import RowStream, Wire
from dpone_dagster.ports.tables import Tables
from dpone_dagster.postgres.target import PostgresTarget
from tests.contract.mssql_adapter import MssqlAdapter
from tests.servers.mssql_targets import MssqlTargets

STATE_SCHEMA = 'state "100%s"'
RUN_KEY = "a" * 64


class Parts(Protocol):
    """The parts of a target that keep state, on one session."""

    fence: Fence
    ledger: Ledger
    publications: Publications
    history: History
    changes: Changes
    tables: Tables

    def transaction(self) -> AbstractContextManager[None]:
        """One transaction of the session."""
        ...

    def close(self) -> None:
        """End the session."""
        ...


class Adapter(Protocol):
    """One server with one empty database, and what the tests do to it from outside."""

    def target(self, purpose: str = "test") -> Parts:
        """A new session; closed with the test."""
        ...

    def without_state(self) -> Parts:
        """A session that knows of no state tables, as where a campaign's state is a file; the test closes it."""
        ...

    def end_session(self, target: Parts) -> None:
        """End it on the server, and return when the server has."""
        ...

    def state(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything in the state tables."""
        ...

    def set_state_version(self, version: int) -> None:
        """As if another program had made the state tables."""
        ...

    def expire_leases(self) -> None:
        """As if 90 s had passed."""
        ...

    def commit_chunks(self, stop: int) -> None:
        """As if an older program had committed the chunks before this one, which keeps no tally."""
        ...

    def store_receipt(self, receipt: ChunkReceipt) -> None:
        """As if a chunk's transaction had committed."""
        ...

    def create_orders(self, rows: Sequence[tuple[int, str | None, str | None]]) -> None:
        """The table `landing.orders` (id, note, detail) with these rows."""
        ...

    def orders(self) -> list[tuple[int, str | None, str | None]]:
        """Its rows by id."""
        ...

    def add_mark(self, kind: Literal["time", "flag"]) -> None:
        """The column `gone`, which marks deleted orders."""
        ...

    def marked(self) -> list[int]:
        """The ids that are marked."""
        ...

    def create_coded(self, rows: Sequence[tuple[int, int]]) -> None:
        """The table `landing.coded` (id, code) with these rows; each of its columns is unique."""
        ...

    def coded(self) -> list[tuple[int, int]]:
        """Its rows by id."""
        ...

    def create_named(self, rows: Sequence[tuple[str, str]]) -> None:
        """The table `landing.named` (name, note) with these rows; a name is unique whatever its case."""
        ...

    def named(self) -> list[tuple[str, str]]:
        """Its rows by note."""
        ...

    def create_moments(self, rows: Sequence[tuple[int, str, str, str, str]]) -> None:
        """The table `landing.moments` anew (id, u, d, t, z): a uuid, a date, a time without and one with a zone."""
        ...

    def moments(self) -> list[int]:
        """Its ids, in order."""
        ...

    def stream(
        self, contract: ColumnContract, rows: Sequence[tuple[Any, ...]], *, said: int | None = None
    ) -> RowStream:
        """These rows as the target's wire takes them; `said` is what the source claims to have sent."""
        ...


@dataclass
class Bytes:
    """A stream that is in memory already, in pieces of any size."""

    pieces: list[bytes]
    rows: int
    wire: Wire = "pgcopy"
    nulled: Mapping[str, int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.pieces)

    @property
    def bytes(self) -> int:
        return sum(map(len, self.pieces))


@dataclass
class PostgresAdapter:
    """An embedded PostgreSQL."""

    url: str
    opened: list[Parts] = field(default_factory=list)

    def target(self, purpose: str = "test") -> Parts:
        target = PostgresTarget(self.url, purpose, STATE_SCHEMA)
        self.opened.append(target)
        return target

    def without_state(self) -> Parts:
        return PostgresTarget(self.url, "no state", "")

    def end_session(self, target: Parts) -> None:
        assert isinstance(target, PostgresTarget)
        pid = target.session.pid
        self._run("SELECT pg_terminate_backend(%s)", pid)
        while self._run("SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid):
            time.sleep(0.01)

    def state(self) -> dict[str, list[tuple[Any, ...]]]:
        names = self._run(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace::regnamespace::text = quote_ident(%s)",
            STATE_SCHEMA,
        )
        return {name: self._run(f"SELECT xmin, ctid, * FROM {self._state(name)} ORDER BY ctid") for (name,) in names}

    def set_state_version(self, version: int) -> None:
        self._run(f"UPDATE {self._state('__dpone__schema_version')} SET version = {version}")

    def expire_leases(self) -> None:
        table = self._state("__dpone__backfill_chunks")
        self._run(f"UPDATE {table} SET lease_expires_at = now() - interval '1 s' WHERE state = 'running'")

    def commit_chunks(self, stop: int) -> None:
        self._run(
            f"UPDATE {self._state('__dpone__backfill_chunks')} SET state = 'committed', rows = 10, receipt_id = 'r', "
            f"seconds = 1, started_at = now(), finished_at = now() WHERE chunk_index < {stop}"
        )

    def store_receipt(self, receipt: ChunkReceipt) -> None:
        columns = "run_key, chunk_index, receipt_id, plan_hash, contract_hash, binding, epoch, rows, bytes, nulled"
        values = [getattr(receipt, name) for name in columns.split(", ")[:-1]] + [json.dumps(dict(receipt.nulled))]
        marks = ", ".join("'" + str(value) + "'" for value in values)
        self._run(f"INSERT INTO {self._state('__dpone__chunk_receipts')} ({columns}) VALUES ({marks})")

    def create_orders(self, rows: Sequence[tuple[int, str | None, str | None]]) -> None:
        self._run("CREATE SCHEMA landing")
        self._run("CREATE TABLE landing.orders (id integer PRIMARY KEY, note text, detail json)")
        for row in rows:
            self._run("INSERT INTO landing.orders VALUES (%s, %s, %s)", *row)

    def orders(self) -> list[tuple[int, str | None, str | None]]:
        return self._run("SELECT id, note, detail::text FROM landing.orders ORDER BY id")

    def add_mark(self, kind: Literal["time", "flag"]) -> None:
        self._run(f"ALTER TABLE landing.orders ADD gone {'timestamp' if kind == 'time' else 'boolean'}")

    def marked(self) -> list[int]:
        return [row[0] for row in self._run("SELECT id FROM landing.orders WHERE gone::text <> 'false' ORDER BY id")]

    def create_coded(self, rows: Sequence[tuple[int, int]]) -> None:
        self._run("CREATE SCHEMA landing")
        self._run("CREATE TABLE landing.coded (id integer PRIMARY KEY, code integer NOT NULL UNIQUE)")
        for row in rows:
            self._run("INSERT INTO landing.coded VALUES (%s, %s)", *row)

    def coded(self) -> list[tuple[int, int]]:
        return self._run("SELECT id, code FROM landing.coded ORDER BY id")

    def create_named(self, rows: Sequence[tuple[str, str]]) -> None:
        self._run("CREATE SCHEMA landing")
        try:
            self._run(
                "CREATE COLLATION landing.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
            )
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("this PostgreSQL is built without ICU, so all of its collations compare by bytes")
        self._run("CREATE TABLE landing.named (name text COLLATE landing.any_case PRIMARY KEY, note text)")
        for row in rows:
            self._run("INSERT INTO landing.named VALUES (%s, %s)", *row)

    def named(self) -> list[tuple[str, str]]:
        return self._run("SELECT name, note FROM landing.named ORDER BY note")

    def create_moments(self, rows: Sequence[tuple[int, str, str, str, str]]) -> None:
        self._run("CREATE SCHEMA IF NOT EXISTS landing")
        self._run("DROP TABLE IF EXISTS landing.moments")
        self._run("CREATE TABLE landing.moments (id integer, u uuid, d date, t timestamp, z timestamptz)")
        for row in rows:
            self._run("INSERT INTO landing.moments VALUES (%s, %s, %s, %s, %s)", *row)

    def moments(self) -> list[int]:
        return [number for (number,) in self._run("SELECT id FROM landing.moments ORDER BY id")]

    def stream(
        self, contract: ColumnContract, rows: Sequence[tuple[Any, ...]], *, said: int | None = None
    ) -> RowStream:
        types = [column.target_type for column in contract.columns]
        selects = [
            ", ".join(f"{sql.Literal(value).as_string()}::{kind}" for value, kind in zip(row, types, strict=False))
            for row in rows
        ]
        query = " UNION ALL ".join(f"SELECT {select}" for select in selects)
        if not rows:
            query = "SELECT " + ", ".join(f"NULL::{kind}" for kind in types) + " WHERE false"
        copy_out = f"COPY ({query}) TO STDOUT (FORMAT binary)"
        with psycopg.connect(self.url) as connection, connection.cursor().copy(copy_out) as copy:
            data = b"".join(bytes(block) for block in copy)
        pieces = [data[start : start + 7] for start in range(0, len(data), 7)]
        return Bytes(pieces, len(rows) if said is None else said)

    def close(self) -> None:
        for target in self.opened:
            target.close()

    def _state(self, table: str) -> str:
        return sql.Identifier(STATE_SCHEMA, table).as_string()

    def _run(self, statement: str, *parameters: object) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []


@dataclass
class FileAdapter(PostgresAdapter):
    """An embedded PostgreSQL whose campaigns have their state in files."""

    folder: Path = Path()
    sessions: dict[int, PostgresTarget] = field(default_factory=dict)

    def target(self, purpose: str = "test") -> Parts:
        server = PostgresTarget(self.url, purpose, STATE_SCHEMA)
        target = FileStateTarget(server, self.folder, RUN_KEY)
        self.opened.append(target)
        self.sessions[id(target)] = server
        return target

    def end_session(self, target: Parts) -> None:
        super().end_session(self.sessions[id(target)])

    def state(self) -> dict[str, list[tuple[Any, ...]]]:
        return {path.name: [(path.read_bytes(), path.stat().st_mtime_ns)] for path in self.folder.iterdir()}

    def expire_leases(self) -> None:
        past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
        with StateFile(self.folder, RUN_KEY).change() as document:
            for chunk in document["chunks"]:
                if chunk["state"] == "running":
                    chunk["lease_expires_at"] = past

    def store_receipt(self, receipt: ChunkReceipt) -> None:
        with StateFile(self.folder, RUN_KEY).change() as document:
            document["chunks"][receipt.chunk_index]["receipt"] = receipt_row(receipt)


@pytest.fixture(scope="session")
def mssql_targets(mssql: MssqlServer) -> Iterator[MssqlTargets]:
    """One database of a SQL Server, which each test finds empty."""
    made = MssqlTargets(mssql.recreate("contract"), STATE_SCHEMA)
    yield made
    made.close()
    mssql.drop("contract")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every adapter; a state file too, in a module of its ports, but for what is the servers' own."""
    if "adapter" in metafunc.fixturenames:
        in_files = metafunc.definition.get_closest_marker("in_files")
        servers = metafunc.definition.get_closest_marker("servers_only")
        kinds = ["postgres", "mssql", "file"] if in_files and not servers else ["postgres", "mssql"]
        metafunc.parametrize("adapter", kinds, indirect=True)


@pytest.fixture
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Adapter]:
    """One adapter after the other."""
    made: Any
    if request.param == "postgres":
        made = PostgresAdapter(request.getfixturevalue("new_database")("contract"))
    elif request.param == "file":
        made = FileAdapter(request.getfixturevalue("new_database")("contract"), folder=tmp_path / "state")
    else:
        made = MssqlAdapter(request.getfixturevalue("mssql_targets"))
    yield made
    made.close()


@pytest.fixture
def target(adapter: Adapter) -> Parts:
    """One session of the adapter."""
    return adapter.target()
