"""What a source on SQL Server proves: that it may be read in a snapshot, and that its table is what it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpone_dagster.campaign.contract import Column, ColumnContract
from dpone_dagster.campaign.errors import CatalogDrift, Finding, SourceUnsuitable, TableMissing
from dpone_dagster.campaign.identity import sha256_of
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.columns import column_of
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import literal, quoted, quoted_table
from dpone_dagster.mssql.session import Row, Session
from dpone_dagster.ports.source import CatalogState, SourceTable, require_columns

_QUERIES = load("source.sql")
_SECONDS = 30
_SNAPSHOT_ON = 1
_KINDS = {"U": "table", "V": "view"}
_NAME = 3  # the place of a column's name in a row of `catalog`


def describe(session: Session, table: TableRef, wanted: tuple[str, ...] | None) -> SourceTable:
    """Read the catalog, and find out that the login sees every row and every value as it is.

    Args:
        session: The source's session.
        table: The table or view.
        wanted: The columns that will be read; None for all.

    Raises:
        TableMissing: The table is not there, a wanted column is not, or the login may not read it.
        SourceUnsuitable: The database allows no snapshots; or rows or values would be hidden from the login.
    """
    found = session.records(_of("relation", table), seconds=_SECONDS)
    if not found:
        raise TableMissing(f"the source table {table} does not exist")
    columns = tuple(map(_column, found))
    require_columns(table, wanted, columns)
    _prove_readable(session, table, [row for row in found if wanted is None or row["name"] in wanted])
    state = state_of(
        session.rows(_of("catalog", table), seconds=_SECONDS), wanted or [column.name for column in columns]
    )
    return SourceTable(table, _KINDS[found[0]["kind"]], columns, state.digest_for(wanted), int(found[0]["object_id"]))


def columns_of(session: Session, table: TableRef) -> tuple[Column, ...]:
    """The columns now; none if the table is gone."""
    return tuple(map(_column, session.records(_of("relation", table), seconds=_SECONDS)))


def prove_catalog(rows: Sequence[Row], table: TableRef, contract: ColumnContract, digest: str) -> CatalogState:
    """The catalog digest still holds.

    Args:
        rows: Of `catalog_statement`.
        table: The table.
        contract: What is read.
        digest: Of the prepare.

    Raises:
        CatalogDrift: It does not.
    """
    if not rows:
        raise CatalogDrift(f"{table} is gone from the source")
    state = state_of(rows, [column.source for column in contract.columns])
    state.prove(table, digest)
    return state


def catalog_statement(table: TableRef) -> str:
    """The SELECT of what `prove_catalog` and `state_of` look at."""
    return _of("catalog", table)


def state_of(rows: Sequence[Row], names: Sequence[str]) -> CatalogState:
    """The digests over rows of `catalog`."""
    facts = [[int(value) if isinstance(value, bool) else value for value in row] for row in rows]
    return CatalogState(
        sha256_of(["all", facts]), sha256_of(["named", [fact for fact in facts if fact[_NAME] in names]])
    )


def _prove_readable(session: Session, table: TableRef, read: Sequence[Mapping[str, Any]]) -> None:
    (seen,) = session.records(_of("readable", table), seconds=_SECONDS)
    if not seen["may_select"]:
        raise TableMissing(
            f"the source login may not read {table}", next_step=f"GRANT SELECT ON {table} to the source login."
        )
    if seen["snapshot_state"] != _SNAPSHOT_ON:
        raise SourceUnsuitable(
            f"database {session.database} does not allow snapshot isolation, without which rows that move while a "
            "chunk is read are missed or come twice",
            next_step=f"ALTER DATABASE {quoted(session.database)} SET ALLOW_SNAPSHOT_ISOLATION ON.",
        )
    if seen["has_policies"] and session.value(_of("filters", table), seconds=_SECONDS):
        raise SourceUnsuitable(
            f"a security policy hides rows of {table}",
            next_step="Read a table without a filter predicate, or switch the policy off.",
        )
    findings = [
        *(_hidden(row, "is masked for the source login", "GRANT UNMASK to it") for row in read if _masked(row, seen)),
        *(_hidden(row, "is encrypted by its clients", "leave it out") for row in read if row.get("encryption_type")),
    ]
    if findings:
        raise SourceUnsuitable(f"values of {table} would not be read as they are", findings=findings)


def _column(row: Mapping[str, Any]) -> Column:
    return column_of({**row, "type_name": row["base_name"] or row["type_name"]})


def _masked(row: Mapping[str, Any], seen: Mapping[str, Any]) -> bool:
    return bool(row.get("is_masked")) and not seen["may_unmask"]


def _hidden(row: Mapping[str, Any], problem: str, advice: str) -> Finding:
    return Finding(f"source.{row['name']}", problem, advice)


def _of(name: str, table: TableRef) -> str:
    return filled(_QUERIES[name], named=literal(quoted_table(table)))
