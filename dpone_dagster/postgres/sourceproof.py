"""What a source transaction proves before it reads: the table is what it was, the server is the anchor's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import errors as pg
from psycopg import sql
from psycopg.rows import dict_row

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import (
    CatalogDrift,
    DponeError,
    IncrementRefused,
    SourceChanged,
    SourceTimelineChanged,
    SourceUnsuitable,
)
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.watermark import MAX_DISTANCE, Anchor, SourceIdentity
from dpone_dagster.ports.source import CatalogState
from dpone_dagster.postgres.queries import load
from dpone_dagster.postgres.session import Session, translated


@dataclass(frozen=True)
class ServerState:
    """The server and the snapshot of the asking statement.

    Attributes:
        identity: Which server.
        xmin: `pg_snapshot_xmin`, 64 bits.
        xmax: `pg_snapshot_xmax`, 64 bits.
        in_recovery: A standby.
        taken_at: By the server's clock.
    """

    identity: SourceIdentity
    xmin: int
    xmax: int
    in_recovery: bool
    taken_at: datetime

    @property
    def anchor(self) -> Anchor:
        """Where a reader of what comes after this snapshot starts."""
        return Anchor(self.xmin, self.identity, self.taken_at)


def server_state(session: Session) -> ServerState:
    """Ask the server who it is and where it stands."""
    return _server(_one(session, sql.SQL(load("source.sql")["server"])))


def domain(session: Session) -> str:
    """The cluster's system identifier and the database's object id, as `PostgresTarget.domain`."""
    return str(_one(session, sql.SQL(load("tables.sql")["domain"]))["domain"])


def catalog_state(session: Session, table: TableRef, columns: list[str]) -> CatalogState | None:
    """The digests now; None if there is no such table.

    Args:
        session: The source session.
        table: The table.
        columns: The columns that are read.
    """
    query, values = load("source.sql")["catalog"], _values(table, columns)
    with translated():
        row = session.connection.execute(query, values).fetchone()
    return None if row is None else CatalogState(*row)


def prove_table(
    session: Session, table: TableRef, contract: ColumnContract, digest: str
) -> tuple[CatalogState, ServerState]:
    """In one statement: the catalog digest still holds; and which server this is.

    Raises:
        CatalogDrift: The digest differs.
    """
    texts = load("source.sql")
    query = sql.SQL("SELECT /* dpone:prove_source */ * FROM ({}) AS catalog, ({}) AS server").format(
        sql.SQL(texts["catalog"]), sql.SQL(texts["server"])
    )
    row = _one(session, query, _values(table, [column.source for column in contract.columns]))
    catalog = CatalogState(row["all_columns"], row["named_columns"])
    catalog.prove(table, digest)
    return catalog, _server(row)


def prove_server(anchor: Anchor, state: ServerState) -> None:
    """The snapshot is of the anchor's server and not older than the anchor.

    Raises:
        SourceChanged: It is not.
    """
    _prove_identity(anchor.identity, state.identity, SourceChanged.next_step)
    if state.xmin < anchor.xid:
        raise SourceChanged(
            f"this server is at transaction {state.xmin}, behind the anchor {anchor.xid}",
            next_step="Connect to the primary, or wait until the standby has caught up; then try again.",
        )


def prove_window(since: Anchor, state: ServerState) -> None:
    """The rows since the watermark can be told by their 32-bit xmin, on the watermark's server.

    Raises:
        SourceChanged: Another server, or a standby that lags behind.
        IncrementRefused: The watermark is too old, or ahead of the server's counter.
    """
    _prove_identity(since.identity, state.identity, SourceTimelineChanged.next_step)
    if state.in_recovery:
        prove_server(since, state)
    _prove_counter(since, state)
    if state.xmax - since.xid >= MAX_DISTANCE:
        raise IncrementRefused(
            f"{state.xmax - since.xid} transactions since the watermark; xmin tells {MAX_DISTANCE} apart at most"
        )


def prove_settlement(since: Anchor, state: ServerState) -> None:
    """Whole rows may be compared with this server, to go on from it: it is the watermark's cluster, and no standby.

    Raises:
        SourceChanged: Another server, or a standby, which may lag behind what the target has.
        IncrementRefused: The counter went backwards without a new timeline.
    """
    _prove_cluster(since.identity, state.identity)
    if state.in_recovery:
        raise SourceChanged(
            "this is a standby, which may lag behind what the target has",
            next_step="Connect to the primary; then try again.",
        )
    if state.identity.timeline == since.identity.timeline:
        _prove_counter(since, state)


def _prove_counter(since: Anchor, state: ServerState) -> None:
    if state.xmin < since.xid:
        raise IncrementRefused(f"the watermark {since.xid} is ahead of the source, which is at {state.xmin}")


def _prove_identity(known: SourceIdentity, found: SourceIdentity, next_step: str) -> None:
    _prove_cluster(known, found)
    if known.timeline != found.timeline:
        raise SourceTimelineChanged(
            f"this is timeline {found.timeline}, the anchor is of {known.timeline}: a standby was promoted, or a "
            "backup restored",
            next_step=next_step,
        )


def _prove_cluster(known: SourceIdentity, found: SourceIdentity) -> None:
    if known.system_identifier != found.system_identifier:
        raise SourceChanged(f"this is cluster {found.system_identifier}, the anchor is of {known.system_identifier}")
    if known.database_oid != found.database_oid:
        raise SourceChanged(f"this is database {found.database_oid}, the anchor is of {known.database_oid}")


def _values(table: TableRef, columns: list[str]) -> dict[str, object]:
    return {"schema": table.schema, "name": table.name, "columns": columns}


def _one(session: Session, query: sql.SQL | sql.Composed, values: dict[str, object] | None = None) -> dict[str, Any]:
    try:
        with translated(), session.connection.cursor(row_factory=dict_row) as cursor:
            row: dict[str, Any] | None = cursor.execute(query, values).fetchone()
    except DponeError as error:
        if isinstance(error.__cause__, pg.InsufficientPrivilege):
            raise SourceUnsuitable(
                "the source login may not ask which server it is on",
                next_step="GRANT EXECUTE ON FUNCTION pg_control_system(), pg_control_checkpoint() to the source login.",
            ) from None
        raise
    if row is None:
        raise CatalogDrift("the source table is gone")
    return row


def _server(row: dict[str, Any]) -> ServerState:
    if row["timeline_hidden"]:
        raise SourceUnsuitable(
            "the source login may not ask which timeline this standby receives",
            next_step="GRANT pg_read_all_stats to the source login.",
        )
    return ServerState(
        SourceIdentity(row["system_identifier"], row["timeline"], row["database_oid"]),
        int(row["xmin"]),
        int(row["xmax"]),
        row["in_recovery"],
        row["taken_at"],
    )
