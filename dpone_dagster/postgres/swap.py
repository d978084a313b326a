"""The swap: live → backup, shadow → live, with every name, right and comment where it was."""

from __future__ import annotations

from collections.abc import Iterator

from psycopg import errors as pg
from psycopg import sql

from dpone_dagster.campaign.differences import differences
from dpone_dagster.campaign.errors import BackupRefused, CatalogDrift, PublicationBlocked
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.faultpoints import reach
from dpone_dagster.ports.tables import TargetTable
from dpone_dagster.postgres import ddl
from dpone_dagster.postgres.catalog import (
    Catalog,
    joined,
    lock_within,
    read_catalog,
)
from dpone_dagster.postgres.session import Session


def lock_table(session: Session, table: TableRef, wait_seconds: float) -> None:
    """Inside a transaction: lock one table against everybody, until its end.

    Raises:
        PublicationBlocked: Not within the wait; names the sessions that hold it or queue for it.
        CatalogDrift: The table is gone.
    """
    with joined(session):
        try:
            blockers = lock_within(session, table, "ACCESS EXCLUSIVE", wait_seconds)
        except pg.UndefinedTable:
            raise CatalogDrift(f"{table} is gone") from None
    if blockers:
        raise PublicationBlocked(f"{table} was not free within {wait_seconds:g} s: {'; '.join(blockers)}")


def swap(session: Session, live: TargetTable, shadow: TargetTable, backup: TableRef) -> None:
    """Inside a transaction, both locked: swap the names, then prove the new live table equal to the old one.

    The retained backup keeps its own rights and comments; its indexes get names derived from the backup's, so that it
    can be swapped back by the same function.

    Raises:
        CatalogDrift: A table is not what the caller saw, or the new live table is not like the old one.
    """
    with joined(session):
        old, new = _as_seen(session, live), _as_seen(session, shadow)
        _prove_alike(old, new)
        try:
            for statement in _statements(old, new, backup):
                session.connection.execute(statement)
        except (pg.DuplicateTable, pg.DuplicateObject) as error:
            raise CatalogDrift(f"a name of the backup {backup} is taken: {error.diag.message_primary}") from error
        now = _present(session, live.table)
        if now.relation.oid != shadow.object_id:
            raise CatalogDrift(f"{live.table} is not the table that was swapped in")
        for statement in ddl.carry(old, now):
            session.connection.execute(statement)
        _prove_carried(old, _present(session, live.table))


def drop(session: Session, table: TableRef) -> None:
    """Inside a transaction, the table locked: drop it.

    Raises:
        BackupRefused: Something depends on it.
    """
    with joined(session):
        try:
            session.connection.execute(ddl.drop_table(table))
        except pg.DependentObjectsStillExist as error:
            raise BackupRefused(f"{error.diag.message_primary}: {error.diag.message_detail}") from error


def _present(session: Session, table: TableRef) -> Catalog:
    catalog = read_catalog(session, table)
    if catalog is None:
        raise CatalogDrift(f"{table} is gone")
    return catalog


def _as_seen(session: Session, seen: TargetTable) -> Catalog:
    catalog = _present(session, seen.table)
    if catalog.relation.oid != seen.object_id:
        raise CatalogDrift(f"{seen.table} was replaced")
    found = differences(dict(seen.contract), catalog.contract())
    if found:
        raise CatalogDrift(f"{seen.table} was altered: {', '.join(found)}")
    return catalog


def _prove_alike(old: Catalog, new: Catalog) -> None:
    found = differences(old.contract(), new.contract())
    if found:
        raise CatalogDrift(f"{new.table} does not have the shape of {old.table}: {', '.join(found)} differ")
    wanted = {ddl.carried_name(new.table, index.name): index.contract() for index in old.indexes}
    if wanted != {index.name: index.contract() for index in new.indexes}:
        raise CatalogDrift(f"the indexes of {new.table} do not bear the names derived from those of {old.table}")


def _statements(old: Catalog, new: Catalog, backup: TableRef) -> Iterator[sql.Composed]:
    schema = old.table.schema
    for index in old.indexes:
        yield ddl.rename_index(schema, index.name, ddl.carried_name(backup, index.name))
    yield ddl.rename_table(old.table, backup.name)
    reach("between_renames")
    for index in old.indexes:
        yield ddl.rename_index(schema, ddl.carried_name(new.table, index.name), index.name)
    yield ddl.rename_table(new.table, old.table.name)


def _prove_carried(old: Catalog, now: Catalog) -> None:
    found = [*differences(old.contract(), now.contract()), *differences(old.carried(), now.carried())]
    if found:
        raise CatalogDrift(f"the new {now.table} is not like the old one: {', '.join(found)} differ")
