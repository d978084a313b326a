"""The SQL Server source: catalog and chunks. Reads only."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime

from dpone_dagster.campaign.contract import Column, ColumnContract
from dpone_dagster.campaign.errors import CatalogDrift, ConnectionLost, DponeError, Interrupted, ValueNotRepresentable
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import Plan
from dpone_dagster.mssql.chunkrange import in_chunk
from dpone_dagster.mssql.digests import Digester, types_without_digest
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import quoted, quoted_table
from dpone_dagster.mssql.rowread import MssqlRows, RowRead
from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.mssql.snapshot import SnapshotConnection
from dpone_dagster.mssql.sourceproof import catalog_statement, columns_of, describe, prove_catalog
from dpone_dagster.ports.source import ChunkRead, RowStream, SourceTable

_QUERIES = load("source.sql")
_EVERY = "1 = 1"


class MssqlSource:
    """A SQL Server source: one session that asks, and a second connection that reads rows in snapshots.

    Args:
        url: `mssql://…`, secrets included; kept out of every message.
        purpose: Goes into the session's application name.

    Raises:
        ConnectionInvalid: The URL is not one of SQL Server.
        DriverMissing: pyodbc or the ODBC driver is not there.
        ServerUnreachable: No answer, or no connection is taken now.
        LoginRefused: The login was refused.
    """

    def __init__(self, url: str, purpose: str) -> None:
        self._session = Session(url, purpose)
        self._snapshots = SnapshotConnection(self._session.address)
        self._known: dict[str, tuple[tuple[Column, ...], Digester]] = {}

    def clock(self) -> datetime:
        """The server's clock, now."""
        now: datetime = self._session.value(_QUERIES["clock"])
        return now.replace(tzinfo=UTC)

    def domain(self) -> str:
        """Server, database, and when both were made; a readable secondary is another server."""
        return str(self._session.value(load("target.sql")["domain"]))

    def describe(self, table: TableRef, columns: tuple[str, ...] | None) -> SourceTable:
        """Read the catalog; no row is read.

        Args:
            table: The table or view.
            columns: The columns that will be read; None for all.

        Raises:
            TableMissing: The table is not there, a wanted column is not, or the login may not read it.
            SourceUnsuitable: The database allows no snapshots; or rows or values would be hidden from the login.
        """
        return describe(self._session, table, columns)

    @contextlib.contextmanager
    def read_chunk(self, read: ChunkRead) -> Iterator[RowStream]:
        """Open one chunk: SNAPSHOT isolation, the table touched, catalog digest, then one SELECT.

        From its first access on, the server fails every read of a table that was altered since (error 3961), so that
        what the proof has seen holds for the rows. UNVERIFIED on SQL Server.

        Raises:
            CatalogDrift: The catalog digest differs.
            ValueNotRepresentable: While iterating: a guard fired, with column, reason and key digest.
        """
        with self._snapshots.snapshot(read.label):
            with self._drift_named(read):
                rows = self._proven(read)
                digest = self._digest(rows) if read.digested else None
            with contextlib.closing(MssqlRows(self._snapshots, rows, self._drift_named(read))) as stream:
                stream.digest = digest
                yield stream

    def _proven(self, read: ChunkRead) -> RowRead:
        """What is to be read, once the catalog is proven in the snapshot."""
        self._snapshots.rows(filled(_QUERIES["first"], table=quoted_table(read.table)))
        found = self._snapshots.rows(catalog_statement(read.table))
        state = prove_catalog(found, read.table, read.contract, read.source_digest)
        columns, digester = self._facts(read.table, state.all_columns)
        condition = in_chunk(columns, read.chunk_column, read.chunk)
        return RowRead(read.table, read.contract, condition, digester, read.digest_key, read.label)

    @contextlib.contextmanager
    def _drift_named(self, read: ChunkRead) -> Iterator[None]:
        """A read that fails because the table was altered says so."""
        try:
            yield
        except (CatalogDrift, ConnectionLost, Interrupted, ValueNotRepresentable):
            raise
        except DponeError:
            self._prove_again(read)
            raise

    def _prove_again(self, read: ChunkRead) -> None:
        """The client tells no error numbers, so whether the table was altered is asked again."""
        try:
            found = self._session.rows(catalog_statement(read.table))
            prove_catalog(found, read.table, read.contract, read.source_digest)
        except CatalogDrift:
            raise
        except DponeError:
            return  # what went wrong first is on its way

    def _facts(self, table: TableRef, digest: str) -> tuple[tuple[Column, ...], Digester]:
        """Columns and digester of a table whose catalog has this digest."""
        if digest not in self._known:
            columns = columns_of(self._session, table)
            types = {column.name: column.type.name for column in columns}
            utf8 = Digester.of(self._session, table).utf8
            self._known[digest] = (columns, Digester(table, types, utf8))
        return self._known[digest]

    def _digest(self, read: RowRead) -> str:
        (row,) = self._snapshots.rows(read.digest_statement())
        return f"{row[0]}:{row[1]}"

    def has_rows(self, table: TableRef, chunk_column: str, plan: Plan) -> bool:
        """Whether a row lies in the plan's range. Inside `read_chunk`, after its last row: in the same snapshot."""
        rows = in_chunk(columns_of(self._session, table), chunk_column, plan.whole())
        statement = filled(_QUERIES["has_rows"], table=quoted_table(table), rows=rows)
        if self._snapshots.active:
            return bool(self._snapshots.value(statement))
        return bool(self._session.value(statement, seconds=UNBOUNDED))

    def count_outside(self, table: TableRef, chunk_column: str, plan: Plan) -> int:
        """Rows whose chunk column is NULL or outside the plan's range."""
        rows = in_chunk(columns_of(self._session, table), chunk_column, plan.whole())
        statement = filled(_QUERIES["count_outside"], table=quoted_table(table), column=quoted(chunk_column), rows=rows)
        return int(self._session.value(statement, seconds=UNBOUNDED))

    def content_digest(self, table: TableRef, contract: ColumnContract) -> str:
        """`<rows>:<sum>`: order-free digest over all contract columns as the target holds them."""
        columns = columns_of(self._session, table)
        types = {column.name: column.type.name for column in columns}
        digester = Digester(table, types, Digester.of(self._session, table).utf8)
        with self._snapshots.snapshot("content digest"):
            return self._digest(RowRead(table, contract, _EVERY, digester, secrets.token_hex(16), "content digest"))

    def types_without_digest(self) -> frozenset[str]:
        """Types whose values this server does not write as PostgreSQL does."""
        return types_without_digest(self._session)

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread."""
        self._session.cancel()
        self._snapshots.cancel()

    def close(self) -> None:
        """Close both connections; never raises."""
        self._snapshots.close()
        self._session.close()
