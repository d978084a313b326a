"""The PostgreSQL source: catalog, anchor, chunks and increments. Reads only."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from datetime import datetime

from psycopg import errors as pg
from psycopg import sql

from dpone_dagster.campaign.contract import Column, ColumnContract
from dpone_dagster.campaign.errors import CatalogDrift, DponeError, SourceUnsuitable, TableMissing
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import Plan
from dpone_dagster.campaign.watermark import Anchor, SourceIdentity
from dpone_dagster.ports.source import (
    CatalogState,
    ChangeRead,
    ChangeSnapshot,
    ChunkRead,
    RowStream,
    SourceTable,
    Wire,
    require_columns,
)
from dpone_dagster.postgres.arrowstream import ArrowReader
from dpone_dagster.postgres.chunkrange import in_chunk
from dpone_dagster.postgres.columns import read_columns
from dpone_dagster.postgres.copystream import source_errors
from dpone_dagster.postgres.digests import content_digest_query, portable
from dpone_dagster.postgres.increments import PgChangeSnapshot
from dpone_dagster.postgres.projection import projection
from dpone_dagster.postgres.queries import load
from dpone_dagster.postgres.rowreader import RowReader
from dpone_dagster.postgres.session import Session, translated
from dpone_dagster.postgres.sourceproof import (
    catalog_state,
    domain,
    prove_server,
    prove_settlement,
    prove_table,
    prove_window,
    server_state,
)

_KINDS = {"r": "table", "p": "partitioned", "v": "view", "m": "matview", "f": "foreign"}
_LOCKABLE = frozenset({"r", "p", "v"})
_ONE_SNAPSHOT = "REPEATABLE READ, READ ONLY"


class PostgresSource:
    """One connection to a PostgreSQL source.

    Args:
        url: `postgresql://…`, secrets included; kept out of every message.
        purpose: Goes into the application name.

    Raises:
        ServerUnreachable: No answer, or no connection is taken now.
        LoginRefused: The login was refused.
    """

    def __init__(self, url: str, purpose: str) -> None:
        self._session = Session(url, purpose)
        with translated():
            self._session.connection.execute(load("source.sql")["settle_session"])
        self._arrow = ArrowReader(url, f"{purpose} rows", self._session.server_version)
        self._columns: dict[str, tuple[Column, ...]] = {}
        self._relkinds: dict[TableRef, str] = {}

    def clock(self) -> datetime:
        """The server's clock, now."""
        with translated():
            row = self._session.connection.execute("SELECT /* dpone:clock */ clock_timestamp()").fetchone()
        if row is None:
            raise DponeError("the source did not tell its clock")
        found: datetime = row[0]
        return found

    def domain(self) -> str:
        """The cluster's system identifier and the database's object id; a standby has its primary's."""
        return domain(self._session)

    def identity(self) -> SourceIdentity:
        """Which server this is."""
        return server_state(self._session).identity

    def capture_anchor(self) -> Anchor:
        """The xmin anchor, now. Every transaction below it has finished."""
        return server_state(self._session).anchor

    def describe(self, table: TableRef, columns: tuple[str, ...] | None) -> SourceTable:
        """Read the catalog; no row is read.

        Args:
            table: The table or view.
            columns: The columns that will be read; None for all.

        Raises:
            TableMissing: The table is not there, a wanted column is not, or the login may not read it.
            SourceUnsuitable: Row security would hide rows from the login.
        """
        with self._session.transaction(_ONE_SNAPSHOT):
            kind = self._readable_kind(table)
            found = read_columns(self._session, table)
            if found is None:
                raise TableMissing(f"the source table {table} does not exist")
            require_columns(table, columns, found[2])
            state = catalog_state(self._session, table, list(columns or (column.name for column in found[2])))
        if state is None:
            raise TableMissing(f"the source table {table} does not exist")
        return SourceTable(table, kind, found[2], state.digest_for(columns), found[0])

    def _readable_kind(self, table: TableRef) -> str:
        query = load("source.sql")["relation"]
        with translated():
            row = self._session.connection.execute(query, {"schema": table.schema, "name": table.name}).fetchone()
        if row is None or row[0] not in _KINDS:
            raise TableMissing(f"the source table {table} does not exist")
        kind, readable, hidden = row
        if not readable:
            raise TableMissing(
                f"the source login may not read {table}",
                next_step="GRANT USAGE on its schema and SELECT on the whole table to the source login.",
            )
        if hidden:
            raise SourceUnsuitable(
                f"row security hides rows of {table} from the source login",
                next_step="Use a login with BYPASSRLS, or one that owns the table without FORCE ROW LEVEL SECURITY.",
            )
        return _KINDS[kind]

    @contextlib.contextmanager
    def read_chunk(self, read: ChunkRead) -> Iterator[RowStream]:
        """Open one chunk: REPEATABLE READ, ACCESS SHARE lock, catalog digest and server proof, then one COPY.

        Raises:
            CatalogDrift: The catalog digest differs.
            SourceChanged: Another cluster or timeline, or a snapshot older than the anchor.
            SourceUnsuitable: The chunk column cannot be cut into chunks of this kind.
            ValueNotRepresentable: While iterating, or before it if rows are digested: a guard fired, with column,
                reason and key digest.
        """
        with self._locked(read.table):
            catalog, server = prove_table(self._session, read.table, read.contract, read.source_digest)
            if read.anchor is not None:
                prove_server(read.anchor, server)
            condition = in_chunk(self._columns_of(read.table, catalog), read.chunk_column, read.chunk)
            reader = RowReader(self._session, read, self._arrow_for(read.wire))
            digest = reader.digest(condition) if read.digested else None
            with reader.rows("read_chunk", condition) as stream:
                stream.digest = digest
                yield stream

    @contextlib.contextmanager
    def read_changes(self, read: ChangeRead) -> Iterator[ChangeSnapshot]:
        """Open one increment's snapshot, with the same proofs as `read_chunk`.

        Raises:
            CatalogDrift, SourceChanged: As for `read_chunk`.
            SourceTimelineChanged: Another timeline, and rows are not compared in full.
            IncrementRefused: The watermark is too old for 32-bit xmins, or ahead of the server's counter.
        """
        with self._locked(read.table):
            _, server = prove_table(self._session, read.table, read.contract, read.source_digest)
            (prove_settlement if read.in_full else prove_window)(read.since, server)
            with PgChangeSnapshot(self._session, read, server, self._arrow_for(read.wire)) as snapshot:
                yield snapshot

    @contextlib.contextmanager
    def _locked(self, table: TableRef) -> Iterator[None]:
        lockable = self._relkind(table) in _LOCKABLE
        with self._session.transaction(_ONE_SNAPSHOT):
            if lockable:
                self._lock(table)
            yield

    def _lock(self, table: TableRef) -> None:
        # Before the snapshot is taken: an older one would read a rewritten or truncated table as empty.
        query = sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE /* dpone:lock_source */").format(_identifier(table))
        try:
            self._session.connection.execute(query)
        except (pg.UndefinedTable, pg.InvalidSchemaName):
            raise CatalogDrift(f"{table} is gone from the source") from None

    def _relkind(self, table: TableRef) -> str:
        # Read once: if the table becomes something else, its catalog digest differs.
        if table not in self._relkinds:
            query = load("source.sql")["relation"]
            with translated():
                row = self._session.connection.execute(query, {"schema": table.schema, "name": table.name}).fetchone()
            if row is None:
                raise CatalogDrift(f"{table} is gone from the source")
            self._relkinds[table] = row[0]
        return self._relkinds[table]

    def _columns_of(self, table: TableRef, catalog: CatalogState) -> tuple[Column, ...]:
        if catalog.all_columns not in self._columns:
            found = read_columns(self._session, table)
            self._columns[catalog.all_columns] = found[2] if found else ()
        return self._columns[catalog.all_columns]

    def has_rows(self, table: TableRef, chunk_column: str, plan: Plan) -> bool:
        """Whether a row lies in the plan's range. Inside `read_chunk`, after its last row: in the same snapshot."""
        found = read_columns(self._session, table)
        query = sql.SQL("SELECT /* dpone:has_rows */ EXISTS (SELECT FROM {} WHERE {})::int").format(
            _identifier(table), in_chunk(found[2] if found else (), chunk_column, plan.whole())
        )
        return self._value(query) == "1"

    def count_outside(self, table: TableRef, chunk_column: str, plan: Plan) -> int:
        """Rows whose chunk column is NULL or outside the plan's range."""
        found = read_columns(self._session, table)
        inside = in_chunk(found[2] if found else (), chunk_column, plan.whole())
        return int(
            self._value(
                sql.SQL("SELECT /* dpone:count_outside */ count(*) FROM {} WHERE ({}) IS NOT TRUE").format(
                    _identifier(table), inside
                )
            )
        )

    def content_digest(self, table: TableRef, contract: ColumnContract) -> str:
        """`<rows>:<sum>`: order-free digest over all contract columns as the target holds them."""
        # A guard that fires here names its row by a key that nobody else has: it is only there to stop.
        columns = projection(contract, secrets.token_hex(16))
        values = [portable(columns[column.target], column.target_type) for column in contract.columns]
        return self._value(content_digest_query(_identifier(table), values))

    def _value(self, query: sql.Composed) -> str:
        with source_errors():
            row = self._session.connection.execute(query).fetchone()
        if row is None:
            raise DponeError("the source answered with no row")
        return str(row[0])

    def types_without_digest(self) -> frozenset[str]:
        """None: digests are of PostgreSQL's own texts."""
        return frozenset()

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread."""
        self._session.cancel()
        self._arrow.cancel()

    def close(self) -> None:
        """Close the connection; never raises."""
        self._arrow.close()
        self._session.close()

    def _arrow_for(self, wire: Wire) -> ArrowReader | None:
        return self._arrow if wire == "arrow" else None


def _identifier(table: TableRef) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)
