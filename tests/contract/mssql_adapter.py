"""A SQL Server for the contract tests, and what they do to it from outside."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.mssql.quoting import quoted
from dpone_dagster.mssql.target import MssqlTarget
from dpone_dagster.ports.source import RowStream, Wire
from tests.servers.mssql_targets import MssqlTargets

_VERSION = "__dpone__schema_version"


@dataclass
class Batches:
    """A stream that is in memory already, as Arrow batches of two rows."""

    batches: list[Any]
    schema: Any
    rows: int
    wire: Wire = "arrow"
    bytes: int = 0

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)

    @property
    def nulled(self) -> dict[str, int]:
        return {}


@dataclass
class MssqlAdapter:
    """An empty database of a SQL Server, on sessions that other tests have used before."""

    targets: MssqlTargets

    def target(self, purpose: str = "test") -> MssqlTarget:
        return self.targets.target(purpose)

    def without_state(self) -> MssqlTarget:
        return MssqlTarget(self.targets.url, "no state", "")

    def end_session(self, target: MssqlTarget) -> None:
        self._run(f"KILL {target.session.session_id}")
        self.targets.wait_for_end(target)

    def state(self) -> dict[str, list[tuple[Any, ...]]]:
        names = self._rows(
            "SELECT t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id WHERE s.name = ?",
            self.targets.state_schema,
        )
        return {
            name: [tuple(map(_parsed, row)) for row in self._rows(f"SELECT * FROM {self._state(name)} ORDER BY 1, 2")]
            for (name,) in names
        }

    def set_state_version(self, version: int) -> None:
        self._run(f"UPDATE {self._state(_VERSION)} SET version = {version}")

    def expire_leases(self) -> None:
        table = self._state("__dpone__backfill_chunks")
        self._run(
            f"UPDATE {table} SET lease_expires_at = DATEADD(second, -1, SYSUTCDATETIME()) WHERE state = N'running'"
        )

    def commit_chunks(self, stop: int) -> None:
        self._run(
            f"UPDATE {self._state('__dpone__backfill_chunks')} SET state = N'committed', [rows] = 10, "
            "receipt_id = N'r', seconds = 1, started_at = SYSUTCDATETIME(), finished_at = SYSUTCDATETIME() "
            f"WHERE chunk_index < {stop}"
        )

    def store_receipt(self, receipt: ChunkReceipt) -> None:
        columns = ["run_key", "chunk_index", "receipt_id", "plan_hash", "contract_hash", "binding", "epoch"]
        columns += ["rows", "bytes", "nulled"]
        names = ", ".join(map(quoted, columns))
        marks = ", ".join("?" * len(columns))
        values = [*(getattr(receipt, name) for name in columns[:-1]), json.dumps(dict(receipt.nulled))]
        self._run(f"INSERT INTO {self._state('__dpone__chunk_receipts')} ({names}) VALUES ({marks})", *values)

    def create_orders(self, rows: Sequence[tuple[int, str | None, str | None]]) -> None:
        self._run("EXEC (N'CREATE SCHEMA landing')")
        self._run("CREATE TABLE landing.orders (id int NOT NULL PRIMARY KEY, note nvarchar(max), detail nvarchar(max))")
        for row in rows:
            self._run("INSERT INTO landing.orders VALUES (?, ?, ?)", *row)

    def orders(self) -> list[tuple[int, str | None, str | None]]:
        return self._rows("SELECT id, note, detail FROM landing.orders ORDER BY id")

    def add_mark(self, kind: Literal["time", "flag"]) -> None:
        self._run(f"ALTER TABLE landing.orders ADD gone {'datetime2(6)' if kind == 'time' else 'bit'} NULL")

    def marked(self) -> list[int]:
        rows = self._rows(
            "SELECT id, CONVERT(nvarchar(40), gone) FROM landing.orders WHERE gone IS NOT NULL ORDER BY id"
        )
        return [number for number, gone in rows if gone != "0"]

    def create_coded(self, rows: Sequence[tuple[int, int]]) -> None:
        self._run("EXEC (N'CREATE SCHEMA landing')")
        self._run("CREATE TABLE landing.coded (id int NOT NULL PRIMARY KEY, code int NOT NULL UNIQUE)")
        for row in rows:
            self._run("INSERT INTO landing.coded VALUES (?, ?)", *row)

    def coded(self) -> list[tuple[int, int]]:
        return self._rows("SELECT id, code FROM landing.coded ORDER BY id")

    def create_named(self, rows: Sequence[tuple[str, str]]) -> None:
        self._run("EXEC (N'CREATE SCHEMA landing')")
        self._run(
            "CREATE TABLE landing.named "
            "(name nvarchar(40) COLLATE Latin1_General_CI_AS NOT NULL PRIMARY KEY, note nvarchar(40))"
        )
        for row in rows:
            self._run("INSERT INTO landing.named VALUES (?, ?)", *row)

    def named(self) -> list[tuple[str, str]]:
        return self._rows("SELECT name, note FROM landing.named ORDER BY note")

    def create_moments(self, rows: Sequence[tuple[int, str, str, str, str]]) -> None:
        self._run("IF SCHEMA_ID(N'landing') IS NULL EXEC (N'CREATE SCHEMA landing')")
        self._run("DROP TABLE IF EXISTS landing.moments")
        self._run(
            "CREATE TABLE landing.moments (id int, u uniqueidentifier, d date, t datetime2(6), z datetimeoffset(6))"
        )
        for row in rows:
            self._run(
                "INSERT INTO landing.moments SELECT ?, CAST(? AS uniqueidentifier), CAST(? AS date), "
                "CAST(? AS datetime2(6)), CAST(? AS datetimeoffset(6))",
                *row,
            )

    def moments(self) -> list[int]:
        return [number for (number,) in self._rows("SELECT id FROM landing.moments ORDER BY id")]

    def stream(
        self, contract: ColumnContract, rows: Sequence[tuple[Any, ...]], *, said: int | None = None
    ) -> RowStream:
        import pyarrow as pa

        kinds = [pa.int32() if column.target_type == "integer" else pa.string() for column in contract.columns]
        schema = pa.schema(list(zip([column.target for column in contract.columns], kinds, strict=True)))
        batches = [
            pa.record_batch([list(values) for values in zip(*rows[at : at + 2], strict=True)], schema=schema)
            for at in range(0, len(rows), 2)
        ]
        return Batches(batches, schema, len(rows) if said is None else said)

    def close(self) -> None:
        self.targets.end_test()
        self.targets.empty()

    def _state(self, table: str) -> str:
        return f"{quoted(self.targets.state_schema)}.{quoted(table)}"

    def _run(self, statement: str, *values: object) -> None:
        self.targets.harness.execute(statement, *values)

    def _rows(self, statement: str, *values: object) -> list[Any]:
        return self.targets.harness.rows(statement, *values)


def _parsed(value: object) -> object:
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value
