"""The swap: live → backup, shadow → live. Indexes and statistics belong to their table, so their names stay."""

from __future__ import annotations

import contextlib

from dpone_dagster.campaign.differences import differences
from dpone_dagster.campaign.errors import BackupRefused, CatalogDrift, DponeError, PublicationBlocked, TransientFailure
from dpone_dagster.campaign.names import TableRef, derived_name, digest_of
from dpone_dagster.faultpoints import reach
from dpone_dagster.mssql import ddl
from dpone_dagster.mssql.catalog import GENERATION_PROPERTY, OWNER_PROPERTY, CatalogReader
from dpone_dagster.mssql.facts import Catalog
from dpone_dagster.mssql.faults import ServerError
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.session import CONTROL_SECONDS, UNBOUNDED, Session
from dpone_dagster.mssql.shadow import present, prove_alike
from dpone_dagster.ports.tables import TargetTable

# Something refers to it by a foreign key, or is bound to its schema.
_IN_USE = frozenset({3726, 3729})


def lock_table(session: Session, reader: CatalogReader, table: TableRef, wait_seconds: float) -> None:
    """Inside a transaction: lock one table against everybody, until its end.

    A time-out ends the transaction. That the sessions in the way are named is UNVERIFIED on SQL Server.

    Raises:
        PublicationBlocked: Not within the wait; names the sessions that hold it or queue for it, as far as this login
            may see them.
        CatalogDrift: The table is gone.
    """
    object_id = reader.object_id(table)
    if object_id is None:
        raise CatalogDrift(f"{table} is gone")
    elsewhere = table.sibling(derived_name(table.name, "locked", digest_of(str(table))))
    statement = filled(
        load("swap.sql")["lock"],
        milliseconds=str(max(1, round(wait_seconds * 1000))),
        rename_there=ddl.rename_table(table, elsewhere.name),
        rename_back=ddl.rename_table(elsewhere, table.name),
    )
    try:
        session.execute(statement, seconds=CONTROL_SECONDS + round(2 * wait_seconds))
    except DponeError as error:
        # It has left its time-out behind, and no other statement may follow it in this transaction.
        session.after_transaction(lambda: session.execute(load("swap.sql")["wait_again"]))
        if not isinstance(error, (ServerError, TransientFailure)):
            raise
        named = _blockers(session, object_id)
        said = f"{named} (the server: {error.message})"
        raise PublicationBlocked(f"{table} was not free within {wait_seconds:g} s: {said}") from error


def _blockers(session: Session, object_id: int) -> str:
    """Who holds locks on the object, asked over another session: this one's transaction is lost."""
    try:
        with contextlib.closing(Session(session.address, f"{session.purpose} blockers")) as other:
            rows = other.rows(load("swap.sql")["blockers"], object_id, session.session_id)
    except DponeError:
        return "by a session that this login may not see (the right VIEW SERVER STATE would name it)"
    return "; ".join(dict.fromkeys(str(row[0]) for row in rows)) or "a session that has just let go"


def swap(session: Session, reader: CatalogReader, live: TargetTable, shadow: TargetTable, backup: TableRef) -> None:
    """Inside a transaction, both locked: swap the names, then prove the new live table equal to the old one.

    Raises:
        CatalogDrift: A table is not what the caller saw, the backup's name is taken, or the new live table is not like
            the old one.
    """
    old, new = _as_seen(reader, live), _as_seen(reader, shadow)
    prove_alike(old.contract(), new.contract(), shadow.table, live.table)
    if reader.object_id(backup) is not None:
        raise CatalogDrift(f"the backup's name {backup} is taken")
    session.execute(ddl.rename_table(live.table, backup.name))
    reach("between_renames")
    session.execute(ddl.rename_table(shadow.table, live.table.name))
    if reader.property_of(new.object_id, OWNER_PROPERTY) is not None:
        session.execute(ddl.drop_property(live.table, OWNER_PROPERTY))  # it is no shadow any more
    now = present(reader, live.table)
    if now.object_id != shadow.object_id or reader.object_id(backup) != live.object_id:
        raise CatalogDrift(f"{live.table} is not the table that was swapped in")
    prove_alike(old.contract(), now.contract(), live.table, backup)


def mark_generation(session: Session, reader: CatalogReader, live: TableRef, generation: str) -> None:
    """Inside a transaction: let the live table bear its generation, which it does already if it was a shadow.

    Raises:
        CatalogDrift: It bears another one.
    """
    mark = reader.generation(live)
    if mark is None:
        session.execute(ddl.add_property(live, GENERATION_PROPERTY, generation))
    elif mark != generation:
        raise CatalogDrift(f"{live} bears the mark of generation {mark}, not of {generation}")


def drop(session: Session, table: TableRef) -> None:
    """Inside a transaction, the table locked: drop it.

    Raises:
        BackupRefused: Something depends on it.
    """
    try:
        session.execute(ddl.drop_table(table), seconds=UNBOUNDED)
    except ServerError as error:
        if error.number in _IN_USE:
            raise BackupRefused(error.message) from error
        raise


def _as_seen(reader: CatalogReader, seen: TargetTable) -> Catalog:
    catalog = present(reader, seen.table)
    if catalog.object_id != seen.object_id:
        raise CatalogDrift(f"{seen.table} was replaced")
    differing = differences(dict(seen.contract), catalog.contract())
    if differing:
        raise CatalogDrift(f"{seen.table} was altered: {', '.join(differing)}")
    return catalog
