"""A SQL Server for the contract tests, and what they do to it from outside."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.mssql.changes import MssqlChanges
from dpone_dagster.mssql.fence import MssqlFence
from dpone_dagster.mssql.ledger import MssqlLedger
from dpone_dagster.mssql.publications import MssqlPublications
from dpone_dagster.mssql.quoting import quoted
from dpone_dagster.mssql.session import Session
from dpone_dagster.ports import Changes, Fence, Ledger, Publications, RowStream, Wire

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


class MssqlParts:
    """One session of a SQL Server."""

    def __init__(self, url: str, purpose: str, schema: str) -> None:
        self.session = Session(url, purpose)
        self.fence: Fence = MssqlFence(self.session, schema)
        self.ledger: Ledger = MssqlLedger(self.session, schema)
        self.publications: Publications = MssqlPublications(self.session, schema)
        self.changes: Changes = MssqlChanges(self.session)

    def transaction(self) -> AbstractContextManager[None]:
        return self.session.transaction()

    def close(self) -> None:
        self.session.close()


@dataclass
class MssqlAdapter:
    """One database of a SQL Server."""

    url: str
    schema: str
    opened: list[MssqlParts] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._harness = Session(self.url, "test harness")

    def target(self, purpose: str = "test") -> MssqlParts:
        target = MssqlParts(self.url, purpose, self.schema)
        self.opened.append(target)
        return target

    def end_session(self, target: MssqlParts) -> None:
        ended = target.session.session_id
        self._run(f"KILL {ended}")
        while self._rows("SELECT 1 FROM sys.dm_exec_sessions WHERE session_id = ?", ended):
            time.sleep(0.01)

    def state(self) -> dict[str, list[tuple[Any, ...]]]:
        names = self._rows(
            "SELECT t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id WHERE s.name = ?",
            self.schema,
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

    def store_receipt(self, receipt: ChunkReceipt) -> None:
        columns = ["run_key", "chunk_index", "receipt_id", "plan_hash", "contract_hash", "binding", "epoch"]
        columns += ["rows", "bytes"]
        names = ", ".join(map(quoted, columns))
        marks = ", ".join("?" * len(columns))
        values = [getattr(receipt, name) for name in columns]
        self._run(f"INSERT INTO {self._state('__dpone__chunk_receipts')} ({names}) VALUES ({marks})", *values)

    def create_orders(self, rows: Sequence[tuple[int, str | None, str | None]]) -> None:
        self._run("EXEC (N'CREATE SCHEMA landing')")
        self._run("CREATE TABLE landing.orders (id int NOT NULL PRIMARY KEY, note nvarchar(max), detail nvarchar(max))")
        for row in rows:
            self._run("INSERT INTO landing.orders VALUES (?, ?, ?)", *row)

    def orders(self) -> list[tuple[int, str | None, str | None]]:
        return self._rows("SELECT id, note, detail FROM landing.orders ORDER BY id")

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
        for target in self.opened:
            target.close()
        self._harness.close()

    def _state(self, table: str) -> str:
        return f"{quoted(self.schema)}.{quoted(table)}"

    def _run(self, statement: str, *values: object) -> None:
        self._harness.execute(statement, *values)

    def _rows(self, statement: str, *values: object) -> list[Any]:
        return self._harness.rows(statement, *values)


def _parsed(value: object) -> object:
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value
