"""Creates and upgrades the state tables, and reads which version of them is there."""

from __future__ import annotations

from psycopg import errors as pg
from psycopg import pq, sql

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.names import STATE_SCHEMA_VERSION_TABLE, state_lock
from dpone_dagster.campaign.stateversion import is_current, known_version, missing_versions
from dpone_dagster.postgres.fence import lock_key
from dpone_dagster.postgres.queries import load, statement
from dpone_dagster.postgres.rights import unreadable
from dpone_dagster.postgres.session import Session, translated

_FILE = "schema.sql"


def provisioned(session: Session, schema: str) -> bool:
    """Whether the state tables are there in this program's version. Changes nothing.

    Args:
        session: Where they should be.
        schema: Their schema.

    Raises:
        StateVersionOlder: An older program made them.
        StateVersionNewer: A newer program made them.
        RightsMissing: The login may not read them.
    """
    with translated():
        try:
            found = _version(session, schema)
        except pg.InsufficientPrivilege as error:
            raise unreadable(schema) from error
    return is_current(schema, found)


def provision(session: Session, schema: str) -> None:
    """Create the schema if it is missing, and every version that is missing, in one transaction under a lock.

    Args:
        session: Where they should be; outside any transaction.
        schema: Their schema.

    Raises:
        StateVersionNewer: A newer program made them.
    """
    if session.connection.info.transaction_status != pq.TransactionStatus.IDLE:
        raise DponeError("state tables are provisioned outside of transactions")
    with session.transaction():
        session.connection.execute(load(_FILE)["lock"], {"key": lock_key(state_lock(schema))})
        if not _exists(session, "has_schema", {"schema": schema}):
            session.connection.execute(_statement("create_schema", schema))
        for version in missing_versions(_version(session, schema)):
            session.connection.execute(_statement(f"version_{version}", schema))
            session.connection.execute(_statement("set_version", schema, version=sql.Literal(version)))


def _statement(name: str, schema: str, **parts: sql.Composable) -> sql.Composed:
    return statement(_FILE, name, schema=sql.Identifier(schema), **parts)


def _version(session: Session, schema: str) -> int:
    """The version that is there, 0 for none."""
    if not _exists(session, "has_table", {"schema": schema, "table": STATE_SCHEMA_VERSION_TABLE}):
        return 0
    row = session.connection.execute(_statement("version", schema)).fetchone()
    return known_version(schema, int(row[0]) if row else 0)


def _exists(session: Session, query: str, values: dict[str, str]) -> bool:
    row = session.connection.execute(load(_FILE)[query], values).fetchone()
    return bool(row and row[0])
