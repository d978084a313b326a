"""Creates and upgrades the state tables, and reads which version of them is there."""

from __future__ import annotations

from dpone_dagster.campaign.errors import DponeError, StateVersionNewer, StateVersionOlder, TransientFailure
from dpone_dagster.campaign.names import STATE_SCHEMA_VERSION_TABLE, state_lock
from dpone_dagster.mssql.locks import granted, lock_resource
from dpone_dagster.mssql.queries import load
from dpone_dagster.mssql.quoting import literal
from dpone_dagster.mssql.session import Session

STATE_VERSION = 2
_FILE = "schema.sql"
_WAIT_SECONDS = 60
_UPGRADE_SECONDS = 300


def provisioned(session: Session, schema: str) -> bool:
    """Whether the state tables are there in this program's version. Changes nothing.

    Args:
        session: Where they should be.
        schema: Their schema.

    Raises:
        StateVersionOlder: An older program made them.
        StateVersionNewer: A newer program made them.
    """
    found = _version(session, schema)
    if 0 < found < STATE_VERSION:
        raise StateVersionOlder(f"state schema {schema} has version {found}, this program needs {STATE_VERSION}")
    return found == STATE_VERSION


def provision(session: Session, schema: str) -> None:
    """Create the schema if it is missing, and every version that is missing, in one transaction under a lock.

    Args:
        session: Where they should be; outside any transaction.
        schema: Their schema.

    Raises:
        StateVersionNewer: A newer program made them.
    """
    if session.in_transaction:
        raise DponeError("state tables are provisioned outside of transactions")
    queries = load(_FILE, schema)
    with session.transaction():
        _lock(session, schema)
        if not session.value(queries["has_schema"], schema):
            # CREATE SCHEMA has to be alone in its batch.
            session.execute(f"EXEC /* dpone:create_state_schema */ ({literal(queries['create_schema'])})")
        found = _version(session, schema)
        for version in range(found + 1, STATE_VERSION + 1):
            session.execute(queries[f"version_{version}"], seconds=_UPGRADE_SECONDS)
        if found != STATE_VERSION:
            session.execute(queries["set_version"], STATE_VERSION)


def _lock(session: Session, schema: str) -> None:
    resource = lock_resource(session.database, state_lock(schema))
    words = f"the lock of state schema {schema}"
    code = session.value(
        load(_FILE, schema)["lock"], resource, _WAIT_SECONDS * 1000, seconds=_WAIT_SECONDS + _UPGRADE_SECONDS
    )
    if not granted(code, words):
        raise TransientFailure(f"{words} was not free within {_WAIT_SECONDS} s")


def _version(session: Session, schema: str) -> int:
    """The version that is there, 0 for none."""
    queries = load(_FILE, schema)
    if not session.value(queries["has_table"], schema, STATE_SCHEMA_VERSION_TABLE):
        return 0
    row = session.row(queries["version"])
    version = int(row[0]) if row else 0
    if version > STATE_VERSION:
        raise StateVersionNewer(f"state schema {schema} has version {version}, this program knows {STATE_VERSION}")
    return version
