"""The PostgreSQL source: catalog, anchor, chunks and increments. Reads only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from psycopg import errors as pg
from psycopg import sql

from dpone_dagster.campaign.contract import Column, ColumnContract
from dpone_dagster.campaign.errors import CatalogDrift, DponeError, SourceChanged, TableMissing
from dpone_dagster.campaign.identity import sha256_of
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import Chunk, Plan
from dpone_dagster.campaign.watermark import Anchor, SourceIdentity
from dpone_dagster.ports import ChangeRead, ChangeSnapshot, ChunkRead, RowStream, SourceTable
from dpone_dagster.postgres import digests
from dpone_dagster.postgres.columns import read_columns
from dpone_dagster.postgres.copystream import PgCopyStream, comment
from dpone_dagster.postgres.increments import PgChangeSnapshot, Snapshot, prove_window
from dpone_dagster.postgres.projection import nulled_counts, plain, projection
from dpone_dagster.postgres.queries import load
from dpone_dagster.postgres.session import Session, translated

_KINDS = {"r": "table", "p": "partitioned", "v": "view", "m": "matview", "f": "foreign"}
_LITERAL_TYPES = {"uuid": "uuid", "integer": "bigint", "date": "date", "timestamp": "timestamptz"}
_SNAPSHOT_ISOLATION = "REPEATABLE READ, READ ONLY"


class PostgresSource:
    """One connection to a PostgreSQL source.

    Args:
        url: `postgresql://…`, secrets included; kept out of every message.
        purpose: Goes into the application name.

    Raises:
        ServerUnreachable: No answer, or the login was refused.
    """

    def __init__(self, url: str, purpose: str) -> None:
        self.session = Session(url, purpose)

    def identity(self) -> SourceIdentity:
        """Which server this is."""
        with translated():
            row = self.session.connection.execute(load("source.sql")["identity"]).fetchone()
        if row is None:
            raise DponeError("the source did not tell which server it is")
        return SourceIdentity(str(row[0]), int(row[1]), int(row[2]))

    def describe(self, table: TableRef, columns: tuple[str, ...] | None) -> SourceTable:
        """Read the catalog; no row is read."""
        found = read_columns(self.session, table)
        if found is None:
            raise TableMissing(f"the source has no table {table}")
        oid, kind, every = found
        chosen = tuple(c for c in every if columns is None or c.name in columns)
        with translated():
            readable = self.session.connection.execute(
                load("source.sql")["readable"],
                {"schema": table.schema, "oid": oid, "columns": [c.name for c in chosen]},
            ).fetchone()
        if readable is None or not readable[0]:
            raise TableMissing(f"the source login may not read {table}")
        return SourceTable(table, _KINDS[kind], chosen, _digest(chosen))

    def capture_anchor(self) -> Anchor:
        """The xmin anchor, now."""
        identity = self.identity()
        snapshot = self._snapshot()
        return Anchor(snapshot.xmin, identity, snapshot.taken_at)

    @contextlib.contextmanager
    def read_chunk(self, read: ChunkRead) -> Iterator[RowStream]:
        """Open one chunk: one snapshot, lock, proofs, then one COPY."""
        with self.session.transaction(_SNAPSHOT_ISOLATION):
            self._lock(read.table)
            self._prove_catalog(read.table, read.contract, read.source_digest)
            if read.anchor is not None:
                self._prove_server(read.anchor)
            rows = sql.SQL("FROM {} AS t WHERE {}").format(
                _identifier(read.table), self._range(read.table, read.chunk_column, read.chunk)
            )
            nulled = self._nulled(read.contract, rows)
            columns = sql.SQL(", ").join(projection(read.contract, read.digest_key))
            statement = sql.SQL("COPY (SELECT {} {}) TO STDOUT (FORMAT binary) {}").format(
                columns, rows, comment("read_chunk", read.label)
            )
            yield PgCopyStream(self.session, statement, nulled)

    @contextlib.contextmanager
    def read_changes(self, read: ChangeRead) -> Iterator[ChangeSnapshot]:
        """Open one increment's snapshot, with the same proofs as a chunk's."""
        with self.session.transaction(_SNAPSHOT_ISOLATION):
            self._lock(read.table)
            self._prove_catalog(read.table, read.contract, read.source_digest)
            identity = self._prove_identity(read.since)
            snapshot = self._snapshot()
            prove_window(read.since, snapshot)
            yield PgChangeSnapshot(self.session, read, snapshot, identity)

    def count_outside(self, table: TableRef, chunk_column: str, plan: Plan) -> int:
        """Rows whose chunk column is NULL or outside the plan's range."""
        first, last = plan.chunk(0), plan.chunk(plan.count - 1)
        whole = Chunk(0, first.kind, first.lower, last.upper, last.upper_inclusive)
        query = sql.SQL("SELECT /* dpone:count_outside */ count(*) FROM {} AS t WHERE ({}) IS NOT TRUE").format(
            _identifier(table), self._range(table, chunk_column, whole)
        )
        with translated():
            row = self.session.connection.execute(query).fetchone()
        return int(row[0]) if row else 0

    def content_digest(self, table: TableRef, contract: ColumnContract) -> str:
        """`<rows>:<sum>` over all contract columns, as the target holds them."""
        relation = sql.SQL("{} AS t").format(_identifier(table))
        types = [column.target_type for column in contract.columns]
        values = [digests.portable(v, kind) for v, kind in zip(plain(contract), types, strict=True)]
        with translated():
            row = self.session.connection.execute(digests.content_digest_query(relation, values)).fetchone()
        if row is None:
            raise DponeError(f"the server returned no digest of {table}")
        return str(row[0])

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread."""
        self.session.cancel()

    def close(self) -> None:
        """Close the connection; never raises."""
        self.session.close()

    def _snapshot(self) -> Snapshot:
        with translated():
            row = self.session.connection.execute(load("source.sql")["snapshot"]).fetchone()
        if row is None:
            raise DponeError("the source did not tell its snapshot")
        return Snapshot(int(row[0]), int(row[1]), row[2])

    def _lock(self, table: TableRef) -> None:
        # First of all: an older snapshot would read a rewritten or truncated table as empty.
        try:
            self.session.connection.execute(
                sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE /* dpone:lock_source */").format(_identifier(table))
            )
        except pg.WrongObjectType:
            return  # a materialized view or foreign table cannot be locked; views and tables can
        except pg.UndefinedTable:
            raise CatalogDrift(f"{table} is gone from the source") from None

    def _prove_catalog(self, table: TableRef, contract: ColumnContract, digest: str) -> None:
        found = read_columns(self.session, table)
        every = found[2] if found else ()
        loaded = {column.source for column in contract.columns}
        if digest not in (_digest(every), _digest(tuple(c for c in every if c.name in loaded))):
            raise CatalogDrift(f"{table} no longer looks as it did when the campaign was prepared")

    def _prove_identity(self, anchor: Anchor) -> SourceIdentity:
        identity = self.identity()
        if identity != anchor.identity:
            raise SourceChanged(
                f"the anchor was taken on cluster {anchor.identity.system_identifier}, timeline "
                f"{anchor.identity.timeline}, database {anchor.identity.database_oid}; this is "
                f"{identity.system_identifier}, {identity.timeline}, {identity.database_oid}"
            )
        return identity

    def _prove_server(self, anchor: Anchor) -> None:
        self._prove_identity(anchor)
        snapshot = self._snapshot()
        if snapshot.xmin < anchor.xid:
            raise SourceChanged(f"this server is at transaction {snapshot.xmin}, behind the anchor {anchor.xid}")

    def _range(self, table: TableRef, column: str, chunk: Chunk) -> sql.Composed:
        """The chunk's rows; literals carry the column's own type, so that its index serves."""
        kind = _LITERAL_TYPES[chunk.kind]
        if chunk.kind == "timestamp":
            kind = self._type_of(table, column) or kind
        bounds = [sql.SQL("{}::{}").format(sql.Literal(b), sql.SQL(kind)) for b in (chunk.lower, chunk.upper)]
        operator = sql.SQL("<=" if chunk.upper_inclusive else "<")
        name = sql.Identifier("t", column)
        return sql.SQL("{c} >= {low} AND {c} {op} {high}").format(c=name, low=bounds[0], op=operator, high=bounds[1])

    def _type_of(self, table: TableRef, column: str) -> str | None:
        found = read_columns(self.session, table)
        kinds = {c.name: c.type.name for c in found[2]} if found else {}
        return kinds.get(column) if kinds.get(column) in ("timestamp", "timestamptz", "date") else None

    def _nulled(self, contract: ColumnContract, rows: sql.Composable) -> dict[str, int]:
        """How many values `on_bad_value: null` replaces: counted in the same snapshot, only where asked for."""
        counts = nulled_counts(contract)
        if not counts:
            return {}
        query = sql.SQL("SELECT /* dpone:nulled */ {} {}").format(sql.SQL(", ").join(counts.values()), rows)
        row = self.session.connection.execute(query).fetchone()
        return dict(zip(counts, row or (), strict=True))


def _digest(columns: tuple[Column, ...]) -> str:
    return sha256_of(
        [[c.name, c.type.name, list(c.type.args), c.type.display, c.type.collation, c.nullable] for c in columns]
    )


def _identifier(table: TableRef) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)
