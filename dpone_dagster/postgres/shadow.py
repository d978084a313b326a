"""The shadow: created empty beside the live table, marked as owned, and given its indexes when it is full."""

from __future__ import annotations

from psycopg import errors as pg

from dpone_dagster.campaign.differences import differences
from dpone_dagster.campaign.errors import CatalogDrift, DponeError, ShadowForeign
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports.tables import IndexViolation, ShadowHandle, TargetTable
from dpone_dagster.postgres import ddl
from dpone_dagster.postgres.catalog import (
    Catalog,
    IndexFacts,
    index_key,
    joined,
    loadable_digest,
    owner_comment,
    read_catalog,
    set_local,
)
from dpone_dagster.postgres.session import Session


def shadow_owner(session: Session, shadow: TableRef) -> str | None:
    """The run key that owns the table of this name; None if there is no table; "" if it is nobody's shadow."""
    taken, comment = owner_comment(session, shadow)
    return ddl.marked_owner(comment) if taken else None


def create_shadow(session: Session, live: TargetTable, shadow: TableRef, run_key: str) -> ShadowHandle:
    """Create the loadable shadow in the caller's transaction, or find the one that this campaign has already.

    Raises:
        ShadowForeign: The name is taken by something that this campaign does not own.
        CatalogDrift: The live table was altered since it was described, or the shadow since it was created.
    """
    with joined(session):
        source = read_catalog(session, live.table)
        if source is None or source.relation.oid != live.object_id:
            raise CatalogDrift(f"{live.table} was replaced since it was described")
        owner = shadow_owner(session, shadow)
        if owner is None:
            _create(session, source, shadow, run_key)
        elif owner != run_key:
            raise ShadowForeign.taken(shadow, owner)
        _prove_loadable(session, source, shadow)
        handle = loadable_digest(session, shadow)
    if handle is None:
        raise CatalogDrift(f"{shadow} is gone")
    return ShadowHandle(*handle)


def _create(session: Session, live: Catalog, shadow: TableRef, run_key: str) -> None:
    try:
        before = set_local(session, "default_tablespace", live.relation.tablespace or "")
        for statement in ddl.create_table(shadow, live, session.server_version):
            session.connection.execute(statement)
        session.connection.execute(ddl.comment_on_table(shadow, ddl.owner_marker(run_key)))
        set_local(session, "default_tablespace", before)
    except (pg.DuplicateTable, pg.DuplicateObject, pg.UniqueViolation) as error:
        raise ShadowForeign(f"the shadow's name {shadow} was taken while it was being created") from error


def _prove_loadable(session: Session, live: Catalog, shadow: TableRef) -> None:
    made = read_catalog(session, shadow)
    found = ["table"] if made is None else differences(live.loadable(), made.loadable())
    if found:
        raise CatalogDrift(f"{shadow} does not have the shape of {live.table}: {', '.join(found)} differ")


def build_indexes(session: Session, shadow: TableRef, live: TargetTable) -> list[IndexViolation]:
    """Build what the shadow lacks, each index in a transaction of its own, so that a retry keeps what is built.

    Returns:
        The unique indexes that could not be built for the rows' sake.

    Raises:
        CatalogDrift: The finished shadow is not like the live table.
    """
    model = read_catalog(session, live.table)
    if model is None or model.relation.oid != live.object_id:
        raise CatalogDrift(f"{live.table} was replaced since it was described")
    wanted = {ddl.carried_name(shadow, index.name): index for index in model.indexes}
    _drop_strangers(session, shadow, wanted)
    present = {index.name for index in _catalog_of(session, shadow).indexes}
    violated = [
        _violation(session, shadow, live, index)
        for name, index in wanted.items()
        if name not in present and not _build(session, shadow, name, index)
    ]
    if violated:
        return violated
    identity = ddl.replica_identity(shadow, model.relation.replica_identity)
    if (
        identity is not None
        and _catalog_of(session, shadow).relation.replica_identity != model.relation.replica_identity
    ):
        with joined(session):
            session.connection.execute(identity)
    found = differences(model.contract(), _catalog_of(session, shadow).contract())
    if found:
        raise CatalogDrift(f"{shadow} does not have the shape of {live.table}: {', '.join(found)} differ")
    return []


def _violation(session: Session, shadow: TableRef, live: TargetTable, index: IndexFacts) -> IndexViolation:
    query = ddl.count_surplus(shadow, index_key(session, live.table.schema, index.name))
    with joined(session):
        row = session.connection.execute(query).fetchone()
    return IndexViolation(index.name, int(row[0]) if row else 0)


def _catalog_of(session: Session, shadow: TableRef) -> Catalog:
    catalog = read_catalog(session, shadow)
    if catalog is None:
        raise CatalogDrift(f"{shadow} is gone")
    return catalog


def _drop_strangers(session: Session, shadow: TableRef, wanted: dict[str, IndexFacts]) -> None:
    """Drop what is there under a derived name and is not the live table's index: unfinished, or of an older look."""
    for index in _catalog_of(session, shadow).indexes:
        model = wanted.get(index.name)
        if model is not None and index.contract() != model.contract():
            with joined(session):
                session.connection.execute(ddl.drop_index(shadow, index))


def _build(session: Session, shadow: TableRef, name: str, index: IndexFacts) -> bool:
    """Build one index; False if it is unique and the rows are not. The server's error would show their values."""
    try:
        with joined(session):
            before = set_local(session, "default_tablespace", index.tablespace or "")
            for statement in ddl.create_index(shadow, name, index):
                session.connection.execute(statement)
            set_local(session, "default_tablespace", before)
    except DponeError as error:
        if isinstance(error.__cause__, pg.UniqueViolation):
            return False
        raise
    return True
