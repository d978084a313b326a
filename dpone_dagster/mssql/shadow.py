"""The shadow: created empty beside the live table, marked as owned, and given its indexes when it is full."""

from __future__ import annotations

import uuid
from collections import Counter

from dpone_dagster.campaign.differences import differences
from dpone_dagster.campaign.errors import CatalogDrift, ShadowForeign
from dpone_dagster.campaign.identity import canonical_json
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql import ddl
from dpone_dagster.mssql.catalog import GENERATION_PROPERTY, OWNER_PROPERTY, CatalogReader
from dpone_dagster.mssql.facts import Catalog, IndexFacts
from dpone_dagster.mssql.faults import ServerError
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import quoted, quoted_table
from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.ports.tables import IndexViolation, ShadowHandle, TargetTable

_NAME_TAKEN = 2714
# CREATE UNIQUE INDEX found duplicates; or a row could not be inserted into one.
_DUPLICATE_KEY = frozenset({1505, 2601, 2627})


def shadow_owner(reader: CatalogReader, shadow: TableRef) -> str | None:
    """The run key that owns the table of this name; None if there is no table; "" if it is nobody's shadow."""
    object_id = reader.object_id(shadow)
    return None if object_id is None else reader.property_of(object_id, OWNER_PROPERTY) or ""


def create_shadow(
    session: Session, reader: CatalogReader, live: TargetTable, shadow: TableRef, run_key: str
) -> ShadowHandle:
    """Create the loadable shadow in the caller's transaction, or find the one that this campaign has already.

    Raises:
        ShadowForeign: The name is taken by something that this campaign does not own.
        CatalogDrift: The live table was altered since it was described, or the shadow since it was created.
    """
    model = model_of(reader, live)
    owner = shadow_owner(reader, shadow)
    if owner is None:
        _create(session, model, shadow, run_key)
    elif owner != run_key:
        raise ShadowForeign.taken(shadow, owner)
    made = present(reader, shadow)
    prove_alike(model.loadable(), made.loadable(), shadow, live.table)
    digest = reader.loadable_digest(shadow)
    if digest is None:
        raise CatalogDrift(f"{shadow} is gone")
    return ShadowHandle(*digest)


def model_of(reader: CatalogReader, live: TargetTable) -> Catalog:
    """The live table's catalog, if it is still the table that was described.

    Raises:
        CatalogDrift: It is not.
    """
    model = reader.read(live.table)
    if model is None or model.object_id != live.object_id:
        raise CatalogDrift(f"{live.table} was replaced since it was described")
    return model


def present(reader: CatalogReader, table: TableRef) -> Catalog:
    """The catalog of a table that has to be there.

    Raises:
        CatalogDrift: It is gone.
    """
    catalog = reader.read(table)
    if catalog is None:
        raise CatalogDrift(f"{table} is gone")
    return catalog


def prove_alike(wanted: object, found: object, table: TableRef, model: TableRef) -> None:
    """Compare two contracts.

    Raises:
        CatalogDrift: They differ; names where.
    """
    differing = differences(wanted, found)
    if differing:
        raise CatalogDrift(f"{table} does not have the shape of {model}: {', '.join(differing)} differ")


def _create(session: Session, model: Catalog, shadow: TableRef, run_key: str) -> None:
    try:
        for statement in ddl.create_table(shadow, model):
            session.execute(statement)
        session.execute(ddl.add_property(shadow, OWNER_PROPERTY, run_key))
        session.execute(ddl.add_property(shadow, GENERATION_PROPERTY, str(uuid.uuid4())))
    except ServerError as error:
        if error.number == _NAME_TAKEN:
            raise ShadowForeign(f"the shadow's name {shadow} was taken while it was being created") from error
        raise


def build_indexes(session: Session, reader: CatalogReader, shadow: TableRef, live: TargetTable) -> list[IndexViolation]:
    """Build what the shadow lacks, each index by itself, so that a retry keeps what is built.

    Returns:
        The unique indexes that could not be built for the rows' sake.

    Raises:
        CatalogDrift: The finished shadow is not like the live table.
    """
    model = model_of(reader, live)
    made = present(reader, shadow)
    for index in _surplus(made, model):
        session.execute(ddl.drop_index(shadow, index), seconds=UNBOUNDED)
    violated = [
        _violation(session, shadow, index) for index in _surplus(model, made) if not _build(session, shadow, index)
    ]
    if violated:
        return violated
    _build_statistics(session, shadow, model, made)
    if made.lock_escalation != model.lock_escalation:
        session.execute(ddl.lock_escalation(shadow, model.lock_escalation))
    prove_alike(model.contract(), present(reader, shadow).contract(), shadow, live.table)
    return []


def _violation(session: Session, shadow: TableRef, index: IndexFacts) -> IndexViolation:
    query = filled(
        load("tables.sql")["count_surplus"],
        table=quoted_table(shadow),
        predicate=index.predicate or "1 = 1",
        key=", ".join(quoted(name) for name, _ in index.keys),
    )
    return IndexViolation(index.name, int(session.value(query, seconds=UNBOUNDED)))


def _surplus(one: Catalog, other: Catalog) -> list[IndexFacts]:
    """Indexes of one table that the other one lacks; what stores the rows is never among them."""
    known = Counter(canonical_json(other.index_contract(index)) for index in other.indexes)
    surplus = []
    for index in one.indexes:
        contract = canonical_json(one.index_contract(index))
        if known[contract]:
            known[contract] -= 1
        elif not index.is_clustered:
            surplus.append(index)
    return surplus


def _build(session: Session, shadow: TableRef, index: IndexFacts) -> bool:
    """Build one index; False if it is unique and the rows are not. The server's error would show their values."""
    try:
        session.execute(ddl.create_index(shadow, index), seconds=UNBOUNDED)
    except ServerError as error:
        if error.number in _DUPLICATE_KEY:
            return False
        raise
    return True


def _build_statistics(session: Session, shadow: TableRef, model: Catalog, made: Catalog) -> None:
    for statistics in made.statistics:
        if statistics not in model.statistics:
            session.execute(ddl.drop_statistics(shadow, statistics.name))
    for statistics in model.statistics:
        if statistics not in made.statistics:
            session.execute(ddl.create_statistics(shadow, statistics), seconds=UNBOUNDED)


def seal_rows(session: Session, reader: CatalogReader, shadow: TableRef) -> None:
    """Bring a columnstore's rows into their final form; nothing to do for a rowstore. UNVERIFIED on SQL Server."""
    clustered = present(reader, shadow).clustered
    if clustered is not None and not clustered.keys:
        session.execute(ddl.seal_columnstore(shadow, clustered), seconds=UNBOUNDED)
