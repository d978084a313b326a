"""The exact catalog of one table, read in one go: the contract that a swap must keep, and what it carries along."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, LiteralString, TypeVar

from psycopg import errors as pg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row

from dpone_dagster.campaign.errors import TransientFailure
from dpone_dagster.campaign.identity import canonical_json, sha256_of
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports.tables import TargetTable
from dpone_dagster.postgres.columns import read_columns
from dpone_dagster.postgres.queries import load
from dpone_dagster.postgres.session import Session, translated
from dpone_dagster.postgres.surface import UNWRITABLE, finding_of

CATALOG_VERSION = 1
_LOCK_WAIT_SECONDS = 5
_COMMENTS = frozenset({"comment", "not_null_comment", "key_comment"})
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class RelationFacts:
    """The row of the table itself; codes are PostgreSQL's own.

    Attributes:
        tablespace: None for the database's default.
        grants: (role, privilege, grantable), PUBLIC as None; the defaults where nothing was ever granted.
    """

    oid: int
    kind: str
    persistence: str
    access_method: str | None
    tablespace: str | None
    options: list[str] | None
    toast_options: list[str] | None
    replica_identity: str
    owner: str
    comment: str | None
    grants: list[tuple[str | None, str, bool]] | None

    def contract(self) -> dict[str, object]:
        """What the shadow must have too, but for the replica identity, which may need an index."""
        return {
            "kind": self.kind,
            "persistence": self.persistence,
            "access_method": self.access_method,
            "tablespace": self.tablespace,
            "options": sorted(self.options or ()),
            "toast_options": sorted(self.toast_options or ()),
        }


@dataclass(frozen=True)
class ColumnFacts:
    """One column. `not_null_name` is the constraint's name, which PostgreSQL has since version 18."""

    name: str
    type: str
    collation: str | None
    not_null: bool
    not_null_name: str | None
    default: str | None
    storage: str
    compression: str
    statistics: int | None
    options: list[str] | None
    comment: str | None
    not_null_comment: str | None

    def contract(self) -> dict[str, object]:
        """Everything but comments."""
        facts = {key: value for key, value in asdict(self).items() if key not in _COMMENTS}
        return {**facts, "options": sorted(self.options or ())}


@dataclass(frozen=True)
class IndexFacts:
    """One index, with the key constraint that it carries, if any.

    Attributes:
        name: Also the name of its constraint.
        constraint_kind: `p`rimary key, `u`nique, e`x`clusion, or empty for an index alone.
        definition: As the server prints it, names qualified.
        preamble: The part of it that names index and table.
        key_columns: Names of the key columns, None for an expression; INCLUDE columns are left out.
        plain_key: Neither predicate nor expression nor deferrable.
        statistics: (column number, statistics target) where it is set.
    """

    name: str
    constraint_kind: str
    unique: bool
    valid: bool
    clustered: bool
    replica_identity: bool
    tablespace: str | None
    definition: str
    preamble: str
    key_columns: list[str | None]
    plain_key: bool
    statistics: list[tuple[int, int]] | None
    comment: str | None
    key_comment: str | None

    @property
    def body(self) -> str:
        """The definition without the names of index and table: what follows USING."""
        return self.definition.removeprefix(self.preamble)

    def contract(self) -> dict[str, object]:
        """Everything but names and comments."""
        return {
            "body": self.body,
            "constraint_kind": self.constraint_kind,
            "unique": self.unique,
            "valid": self.valid,
            "clustered": self.clustered,
            "replica_identity": self.replica_identity,
            "tablespace": self.tablespace,
            "statistics": self.statistics,
        }


@dataclass(frozen=True)
class IndexKey:
    """What an index compares, as the server prints it.

    Attributes:
        expressions: Of the key columns, in order.
        predicate: Of a partial index; None for all rows.
        nulls_distinct: Whether two rows with a NULL are different.
    """

    expressions: list[str]
    predicate: str | None
    nulls_distinct: bool


@dataclass(frozen=True)
class Catalog:
    """Everything that is known of one table."""

    table: TableRef
    relation: RelationFacts
    columns: tuple[ColumnFacts, ...]
    indexes: tuple[IndexFacts, ...]

    def loadable(self) -> dict[str, object]:
        """The part of the contract that a shadow has from the start."""
        return {
            "version": CATALOG_VERSION,
            "table": self.relation.contract(),
            "columns": [column.contract() for column in self.columns],
        }

    def contract(self) -> dict[str, object]:
        """The whole contract, free of the names that must differ between live table and shadow."""
        return {
            **self.loadable(),
            "replica_identity": self.relation.replica_identity,
            "indexes": sorted((index.contract() for index in self.indexes), key=canonical_json),
        }

    def carried(self) -> dict[str, object]:
        """What only the live table has until the swap carries it over: owner, grants, names and comments."""
        return {
            "owner": self.relation.owner,
            "grants": self.relation.grants,
            "comment": self.relation.comment,
            "columns": {c.name: [c.comment, c.not_null_comment] for c in self.columns},
            "indexes": {i.name: [i.comment, i.key_comment, i.contract()] for i in self.indexes},
        }

    def unique_keys(self) -> tuple[tuple[str, ...], ...]:
        """Column sets that a valid, immediate unique index without predicate or expression enforces."""
        indexes = [i for i in self.indexes if i.unique and i.valid and i.plain_key]
        return tuple(tuple(name for name in i.key_columns if name is not None) for i in indexes)


def describe(session: Session, table: TableRef) -> TargetTable | None:
    """The table as the engine sees it, with everything that a swap would lose; None if it is not there."""
    with _one_look(session):
        catalog = read_catalog(session, table)
        if catalog is None:
            return None
        contract = catalog.contract()
        found = read_columns(session, table)
        lost = _lost(session, catalog)
        return TargetTable(
            table=table,
            object_id=catalog.relation.oid,
            columns=found[2] if found is not None else (),
            contract=contract,
            sha256=sha256_of(contract),
            findings=tuple(finding_of(kind, name, str(table)) for kind, name in lost),
            unwritable=tuple(finding_of(kind, name, str(table)) for kind, name in lost if kind in UNWRITABLE),
            unique_keys=catalog.unique_keys(),
            rows_exist=_rows_exist(session, catalog),
        )


def read_catalog(session: Session, table: TableRef) -> Catalog | None:
    """Read every fact of one table, locked against being altered meanwhile; None if it is not there."""
    with _one_look(session), _qualified_names(session):
        relation = _relation(session, table)
        if relation is not None and relation.kind in "rp":
            blockers = lock_within(session, table, "ACCESS SHARE", _LOCK_WAIT_SECONDS)
            if blockers:
                raise TransientFailure(f"{table} was not free within {_LOCK_WAIT_SECONDS} s: {'; '.join(blockers)}")
            relation = _relation(session, table)
        if relation is None:
            return None
        columns = _rows(session, ColumnFacts, load("catalog.sql")["columns"], oid=relation.oid)
        indexes = _rows(session, IndexFacts, load("catalog.sql")["indexes"], oid=relation.oid)
        return Catalog(table, relation, tuple(columns), tuple(indexes))


def lock_within(session: Session, table: TableRef, mode: LiteralString, wait_seconds: float) -> list[str]:
    """Lock a table until the transaction in hand ends; the transaction goes on where that is not possible.

    Args:
        session: In a transaction.
        table: It exists.
        mode: Such as `ACCESS SHARE`.
        wait_seconds: How long to queue for it.

    Returns:
        Empty if it is locked; else the sessions that hold it or queue for it.
    """
    connection = session.connection
    # The failed statement must not end the transaction, or nobody could be named.
    connection.execute("SAVEPOINT dpone_lock")
    before = set_local(session, "lock_timeout", f"{max(1, round(wait_seconds * 1000))}ms")
    statement = sql.SQL("LOCK TABLE {} IN {} MODE /* dpone:lock_table */").format(identifier(table), sql.SQL(mode))
    try:
        connection.execute(statement)
    except pg.LockNotAvailable:
        connection.execute("ROLLBACK TO SAVEPOINT dpone_lock")
        return _blockers(session, table) or ["a session that has just let go"]
    set_local(session, "lock_timeout", before)
    connection.execute("RELEASE SAVEPOINT dpone_lock")
    return []


def _blockers(session: Session, table: TableRef) -> list[str]:
    oid = session.connection.execute("SELECT %s::regclass::oid", [identifier(table).as_string(session.connection)])
    row = oid.fetchone()
    rows = session.connection.execute(load("swap.sql")["blockers"], {"oid": row[0] if row else None}).fetchall()
    return list(dict.fromkeys(str(row[0]) for row in rows))


def index_key(session: Session, schema: str, name: str) -> IndexKey:
    """What one index compares."""
    with joined(session), _qualified_names(session):
        return _rows(session, IndexKey, load("catalog.sql")["index_key"], schema=schema, name=name)[0]


def loadable_digest(session: Session, table: TableRef, *, lock: bool = False) -> tuple[int, str] | None:
    """Object id and digest of everything that decides what a COPY into the table does; None if it is not there.

    Args:
        session: The connection.
        table: The shadow.
        lock: Lock it against being altered until the transaction ends, in the same round trip.
    """
    query = sql.SQL(load("catalog.sql")["loadable_digest"]).format(
        schema=sql.Literal(table.schema), name=sql.Literal(table.name)
    )
    if lock:
        query = sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE; {}").format(identifier(table), query)
    with translated():
        try:
            cursor = session.connection.execute(query)
        except pg.UndefinedTable:
            return None
        while cursor.nextset():
            pass
        row = cursor.fetchone()
    return None if row is None else (int(row[0]), str(row[1]))


def owner_comment(session: Session, table: TableRef) -> tuple[bool, str | None]:
    """Whether anything bears the name, and its comment."""
    with translated():
        row = session.connection.execute(
            load("catalog.sql")["owner_comment"], {"schema": table.schema, "name": table.name}
        ).fetchone()
    return (False, None) if row is None else (True, row[0])


def identifier(table: TableRef) -> sql.Identifier:
    """The table's quoted, qualified name."""
    return sql.Identifier(table.schema, table.name)


@contextlib.contextmanager
def joined(session: Session) -> Iterator[None]:
    """The caller's transaction if there is one, else one of its own."""
    if session.connection.info.transaction_status == TransactionStatus.IDLE:
        with session.transaction():
            yield
    else:
        with translated():
            yield


@contextlib.contextmanager
def _one_look(session: Session) -> Iterator[None]:
    own = session.connection.info.transaction_status == TransactionStatus.IDLE
    with joined(session):
        if own:  # a look must not hang behind somebody's exclusive lock
            set_local(session, "lock_timeout", f"{_LOCK_WAIT_SECONDS}s")
        yield


@contextlib.contextmanager
def _qualified_names(session: Session) -> Iterator[None]:
    """Make the server print every name qualified; an error ends the transaction and the setting with it."""
    before = set_local(session, "search_path", "pg_catalog")
    yield
    set_local(session, "search_path", before)


def set_local(session: Session, name: LiteralString, value: str) -> str:
    """Set a parameter until the transaction ends; returns its value before."""
    row = session.connection.execute(
        "SELECT /* dpone:set_local */ current_setting(%(name)s), set_config(%(name)s, %(value)s, true)",
        {"name": name, "value": value},
    ).fetchone()
    return "" if row is None else str(row[0])


def _relation(session: Session, table: TableRef) -> RelationFacts | None:
    query = load("catalog.sql")["relation"]
    found = _rows(session, RelationFacts, query, schema=table.schema, name=table.name)
    return found[0] if found else None


def _rows(session: Session, kind: type[_Row], query: LiteralString, **values: Any) -> list[_Row]:
    with session.connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(query, values).fetchall()


def _rows_exist(session: Session, catalog: Catalog) -> bool:
    if catalog.relation.kind not in "rp":
        return False
    query = sql.SQL("SELECT /* dpone:rows_exist */ EXISTS (SELECT FROM {})").format(identifier(catalog.table))
    row = session.connection.execute(query).fetchone()
    return row is not None and bool(row[0])


def _lost(session: Session, catalog: Catalog) -> list[tuple[str, str]]:
    """(kind, name) of what a swap would lose."""
    found: list[tuple[str, str]] = []
    with _qualified_names(session):
        for name in ("properties", "dependents"):
            found += session.connection.execute(load("catalog.sql")[name], {"oid": catalog.relation.oid}).fetchall()
    strange = [i for i in catalog.indexes if not i.definition.startswith(i.preamble)]
    return found + [("index definition", i.name) for i in strange]
