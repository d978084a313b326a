"""The horizon: no reader may be older than the last chunk's commit when the shadow becomes the live table.

A REPEATABLE READ snapshot finds the new table by its name, but sees only rows that were committed before it was taken:
it would read a part of them, in silence. A frozen row is seen by everybody, and VACUUM can freeze a row only when no
older snapshot is left. So `relfrozenxid` at or past the horizon proves both. The TOAST table needs no such proof:
out-of-line values are fetched for a row that is seen already, whatever the snapshot.
"""

from __future__ import annotations

from psycopg import sql

from dpone_dagster.campaign.errors import CatalogDrift, DponeError
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.postgres.catalog import identifier
from dpone_dagster.postgres.queries import load
from dpone_dagster.postgres.session import Session, translated


def seal(session: Session) -> int:
    """The first transaction id that has not ended yet; every chunk's is below it, since no lane is alive."""
    with translated():
        row = session.connection.execute(load("horizon.sql")["seal"]).fetchone()
    if row is None:
        raise DponeError("the server did not tell its snapshot")
    return int(row[0])


def settle_horizon(session: Session, shadow: TableRef, horizon: int) -> list[str]:
    """Freeze the shadow, unless it is; names what is still older than the horizon. Not for use in a transaction."""
    if _settled(session, shadow, horizon):
        return []
    older = _older(session, horizon)
    if older:
        return older  # VACUUM would read the whole table and freeze nothing
    with translated():
        session.connection.execute(
            sql.SQL("VACUUM (FREEZE, ANALYZE) {} /* dpone:settle_horizon */").format(identifier(shadow))
        )
    if _settled(session, shadow, horizon):
        return []
    return _older(session, horizon) or [f"VACUUM did not freeze {shadow}: the login must own it; look again"]


def _settled(session: Session, shadow: TableRef, horizon: int) -> bool:
    values = {"horizon": horizon, "schema": shadow.schema, "name": shadow.name}
    with translated():
        row = session.connection.execute(load("horizon.sql")["settled"], values).fetchone()
    if row is None:
        raise CatalogDrift(f"{shadow} is gone")
    return bool(row[0] and row[1])


def _older(session: Session, horizon: int) -> list[str]:
    with translated():
        rows = session.connection.execute(load("horizon.sql")["older"], {"horizon": horizon}).fetchall()
    return [str(row[0]) for row in rows]
