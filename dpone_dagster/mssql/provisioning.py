"""Creates and upgrades the state tables, and reads which version of them is there."""

from __future__ import annotations

from dpone_dagster.campaign.errors import DponeError, TransientFailure
from dpone_dagster.campaign.names import STATE_SCHEMA_VERSION_TABLE, state_lock
from dpone_dagster.campaign.stateversion import is_current, known_version, missing_versions
from dpone_dagster.mssql.locks import granted, lock_resource
from dpone_dagster.mssql.queries import load
from dpone_dagster.mssql.quoting import literal
from dpone_dagster.mssql.session import Session

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
    return is_current(schema, _version(session, schema))


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
        missing = missing_versions(_version(session, schema))
        for version in missing:
            session.execute(queries[f"version_{version}"], seconds=_UPGRADE_SECONDS)
        if missing:
            session.execute(queries["set_version"], missing[-1])


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
    row = session.row(load(_FILE, schema)["version"], schema, STATE_SCHEMA_VERSION_TABLE)
    return known_version(schema, int(row[0]) if row else 0)
