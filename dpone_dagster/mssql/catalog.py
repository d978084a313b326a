"""Reads the exact catalog of one table: the contract that a swap must keep, and everything that it would lose.

Read without lock hints: at prepare a later change is found by the digest, and at the swap the table is locked.
"""

from __future__ import annotations

from typing import Any

from dpone_dagster.campaign.errors import Finding
from dpone_dagster.campaign.identity import sha256_of
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.facts import HEAP, Catalog, Row, StatisticsFacts, index_of
from dpone_dagster.mssql.losses import lost_column, lost_index, lost_table
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import literal, quoted, quoted_table
from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.mssql.surface import UNWRITABLE, finding_of
from dpone_dagster.ports.tables import TargetTable

OWNER_PROPERTY = "dpone_shadow_of"
GENERATION_PROPERTY = "dpone_generation"
_FILE = "catalog.sql"
_SECONDS = 30  # a cold catalog of a busy server is slow, and a lock on it is nobody's fault of ours
_DEPENDENT = "dependent_"


class CatalogReader:
    """Reads catalogs on one session, and remembers what does not change: which views the server has.

    Args:
        session: The connection; its database qualifies every name.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._database = quoted(session.database)
        self._present_views: frozenset[str] | None = None
        self._keeps_index_names: bool | None = None

    def describe(self, table: TableRef) -> TargetTable | None:
        """The table as the engine sees it, with everything that a swap would lose; None if it is not there."""
        found = self._row("object", self._qualified(table))
        if found is None:
            return None
        if found["type"] != "U":
            return _not_a_table(table, int(found["object_id"]))
        catalog = self._read(table, int(found["object_id"]))
        contract = catalog.contract()
        lost = [*catalog.lost, *self._dependents(catalog.object_id)]
        spelt = TableRef(found["schema_name"], found["name"])
        if spelt != table:
            lost.append(("spelling", str(spelt)))
        if not self._session.value(self._query("sees_everything"), seconds=_SECONDS):
            lost.append(("visibility", self._session.database))
        return TargetTable(
            table=table,
            object_id=catalog.object_id,
            columns=catalog.columns,
            contract=contract,
            sha256=sha256_of(contract),
            findings=tuple(finding_of(kind, name, str(table)) for kind, name in lost),
            unwritable=tuple(finding_of(kind, name, str(table)) for kind, name in lost if kind in UNWRITABLE),
            unique_keys=catalog.unique_keys(),
            rows_exist=self._rows_exist(table),
            generation=self.property_of(catalog.object_id, GENERATION_PROPERTY),
        )

    def read(self, table: TableRef) -> Catalog | None:
        """Every fact of one table; None if there is no table of the name."""
        found = self._row("object", self._qualified(table))
        return self._read(table, int(found["object_id"])) if found is not None and found["type"] == "U" else None

    def object_id(self, table: TableRef) -> int | None:
        """The object of this name, of whatever kind; None if the name is free."""
        found = self._session.value(load(_FILE)["object_id"], self._qualified(table), seconds=_SECONDS)
        return None if found is None else int(found)

    def property_of(self, object_id: int, name: str) -> str | None:
        """A table's extended property as text; None if it has none of the name."""
        row = self._session.row(self._query("property"), object_id, name, seconds=_SECONDS)
        return None if row is None else str(row[0])

    def generation(self, table: TableRef) -> str | None:
        """The generation that a table bears; None if it bears none, or there is no table."""
        object_id = self.object_id(table)
        return None if object_id is None else self.property_of(object_id, GENERATION_PROPERTY)

    def loadable_digest(self, table: TableRef) -> tuple[int, str] | None:
        """Object id and digest of everything that decides what an INSERT does, its owner included; None if gone."""
        object_id = self.object_id(table)
        if object_id is None:
            return None
        query = self._query(
            "loadable", id=str(object_id), owner=literal(OWNER_PROPERTY), generation=literal(GENERATION_PROPERTY)
        )
        rows = self._session.records(query, seconds=_SECONDS)
        return (object_id, sha256_of([_plain(row) for row in rows])) if rows else None

    # ------------------------------------------------------------ reads

    def _qualified(self, table: TableRef) -> str:
        return f"{self._database}.{quoted_table(table)}"

    def _query(self, name: str, **parts: str) -> str:
        return filled(load(_FILE)[name], database=self._database, **parts)

    def _records(self, name: str, *values: object) -> list[dict[str, Any]]:
        return self._session.records(self._query(name), *values, seconds=_SECONDS)

    def _row(self, name: str, *values: object) -> Row | None:
        rows = self._records(name, *values)
        return rows[0] if rows else None

    def _read(self, table: TableRef, object_id: int) -> Catalog:
        facts = self._row("table", object_id) or {}
        columns = self._records("columns", object_id)
        index_rows = self._records("indexes", object_id, object_id)
        parts = self._records("index_columns", object_id)
        heap = next((row for row in index_rows if row["type"] == HEAP), None)
        made = [row for row in index_rows if row["type"] != HEAP]
        statistics, lost_statistics = self._statistics(object_id)
        lost = (
            *lost_table(facts, str(table)),
            *(found for row in columns for found in lost_column(row)),
            *(found for row in index_rows for found in lost_index(row, parts, str(table))),
            *lost_statistics,
        )
        return Catalog(
            table=table,
            object_id=object_id,
            column_rows=tuple(columns),
            lock_escalation=str(facts.get("lock_escalation_desc", "TABLE")),
            heap_compression=str(heap["compression"] or "NONE") if heap else None,
            indexes=tuple(index_of(row, parts) for row in made),
            statistics=statistics,
            keeps_index_names=self._names_are_kept(),
            lost=lost,
        )

    def _statistics(self, object_id: int) -> tuple[tuple[StatisticsFacts, ...], list[tuple[str, str]]]:
        if "stats_columns" not in self._views():
            return (), []
        by_name: dict[str, list[Row]] = {}
        for row in self._records("statistics", object_id):
            by_name.setdefault(row["name"], []).append(row)
        made = tuple(
            StatisticsFacts(
                name,
                tuple(row["column_name"] for row in rows),
                rows[0]["filter_definition"] if rows[0]["has_filter"] else None,
                bool(rows[0]["no_recompute"]),
            )
            for name, rows in by_name.items()
        )
        return made, [("statistics", name) for name, rows in by_name.items() if rows[0]["is_incremental"]]

    def _dependents(self, object_id: int) -> list[tuple[str, str]]:
        parts = [
            self._query(name, id=str(object_id), own=f"{literal(OWNER_PROPERTY)}, {literal(GENERATION_PROPERTY)}")
            for name in load(_FILE)
            if name.startswith(_DEPENDENT) and name.removeprefix(_DEPENDENT) in self._views()
        ]
        statement = filled(load(_FILE)["dependents"], parts="\nUNION ALL\n".join(parts))
        return [(str(kind), str(name)) for kind, name in self._session.rows(statement, seconds=_SECONDS)]

    def _views(self) -> frozenset[str]:
        """The catalog views that this server has; a surface whose view is missing does not exist there."""
        if self._present_views is None:
            wanted = [name.removeprefix(_DEPENDENT) for name in load(_FILE) if name.startswith(_DEPENDENT)]
            names = ", ".join(literal(name) for name in [*wanted, "stats_columns"])
            self._present_views = frozenset(
                row[0] for row in self._session.rows(self._query("views", names=names), seconds=_SECONDS)
            )
        return self._present_views

    def _names_are_kept(self) -> bool:
        if self._keeps_index_names is None:
            self._keeps_index_names = bool(self._session.value(load(_FILE)["keeps_index_names"], seconds=_SECONDS))
        return self._keeps_index_names

    def _rows_exist(self, table: TableRef) -> bool:
        statement = self._query("rows_exist", table=quoted_table(table))
        return bool(self._session.value(statement, seconds=UNBOUNDED))


def _plain(row: Row) -> list[object]:
    return [value if value is None or isinstance(value, (int, str)) else str(value) for value in row.values()]


def _not_a_table(table: TableRef, object_id: int) -> TargetTable:
    finding: Finding = finding_of("kind", str(table), str(table))
    return TargetTable(table, object_id, (), {}, sha256_of({}), (finding,), (), False, unwritable=(finding,))
