"""Reads the exact catalog of one table: the contract that a swap must keep, and everything that it would lose.

Read without lock hints: at prepare a later change is found by the digest, and at the swap the table is locked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

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
Facts = Mapping[str, Sequence[Row]]
# Blocks of the batch that reads a table, and of what is to be swapped besides.
_FACTS = ("object", "table", "columns", "indexes", "index_columns", "statistics")
_SWAPPED = ("dependents", "sees_everything", "generation")


class CatalogReader:
    """Reads catalogs on one session, and remembers what does not change: which views the server has.

    Args:
        session: The connection; its database qualifies every name.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._database = quoted(session.database)

    def describe(self, table: TableRef) -> TargetTable | None:
        """The table as the engine sees it, with everything that a swap would lose; None if it is not there."""
        facts = self._facts(table, *_SWAPPED)
        if not facts["object"]:
            return None
        (found,) = facts["object"]
        if found["type"] != "U":
            return _not_a_table(table, int(found["object_id"]))
        catalog = self._catalog(table, facts)
        contract = catalog.contract()
        lost = [*catalog.lost, *((str(row["kind"]), str(row["name"])) for row in facts["dependents"])]
        spelt = TableRef(found["schema_name"], found["name"])
        if spelt != table:
            lost.append(("spelling", str(spelt)))
        if not facts["sees_everything"][0]["everything"]:
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
            generation=next((str(row["generation"]) for row in facts["generation"]), None),
        )

    def read(self, table: TableRef) -> Catalog | None:
        """Every fact of one table; None if there is no table of the name."""
        facts = self._facts(table)
        found = facts["object"]
        return self._catalog(table, facts) if found and found[0]["type"] == "U" else None

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
        ordered = sorted(rows, key=lambda row: (row["kind"], row["place"], row["name"]))
        return (object_id, sha256_of([_plain(row) for row in ordered])) if rows else None

    # ------------------------------------------------------------ reads

    def _qualified(self, table: TableRef) -> str:
        return f"{self._database}.{quoted_table(table)}"

    def _query(self, name: str, **parts: str) -> str:
        return filled(load(_FILE)[name], database=self._database, **parts)

    def _facts(self, table: TableRef, *more: str) -> Facts:
        """Rows of the catalog by the names of their blocks, all in one round trip; none where nothing has the name."""
        parts = {"generation": literal(GENERATION_PROPERTY), "parts": self._dependents()}
        blocks = [name for name in (*_FACTS, *more) if name != "statistics" or "stats_columns" in self._views]
        batch = ";\n".join(self._query(name, **parts) for name in ("named", *blocks))
        found = self._session.results(batch, self._qualified(table), seconds=_SECONDS)
        return {"statistics": [], **dict(zip(blocks, found, strict=True))}

    def _catalog(self, table: TableRef, facts: Facts) -> Catalog:
        flags = facts["table"][0] if facts["table"] else {}
        index_rows, parts = facts["indexes"], facts["index_columns"]
        heap = next((row for row in index_rows if row["type"] == HEAP), None)
        made = [row for row in index_rows if row["type"] != HEAP]
        statistics, lost_statistics = _statistics(facts["statistics"])
        lost = (
            *lost_table(flags, str(table)),
            *(found for row in facts["columns"] for found in lost_column(row)),
            *(found for row in index_rows for found in lost_index(row, parts, str(table))),
            *lost_statistics,
        )
        return Catalog(
            table=table,
            object_id=int(facts["object"][0]["object_id"]),
            column_rows=tuple(facts["columns"]),
            lock_escalation=str(flags.get("lock_escalation_desc", "TABLE")),
            heap_compression=str(heap["compression"] or "NONE") if heap else None,
            indexes=tuple(index_of(row, parts) for row in made),
            statistics=statistics,
            keeps_index_names=self._abilities[1],
            lost=lost,
        )

    def _dependents(self) -> str:
        own = f"{literal(OWNER_PROPERTY)}, {literal(GENERATION_PROPERTY)}"
        names = (name for name in load(_FILE) if name.startswith(_DEPENDENT))
        there = [name for name in names if name.removeprefix(_DEPENDENT) in self._views]
        return "\nUNION ALL\n".join(self._query(name, own=own) for name in there)

    @property
    def _views(self) -> frozenset[str]:
        """The catalog views that this server has; a surface whose view is missing does not exist there."""
        return self._abilities[0]

    @cached_property
    def _abilities(self) -> tuple[frozenset[str], bool]:
        """Which of the catalog views there are, and whether an index is shown by the name that it was given."""
        wanted = [name.removeprefix(_DEPENDENT) for name in load(_FILE) if name.startswith(_DEPENDENT)]
        names = ", ".join(literal(name) for name in [*wanted, "stats_columns"])
        batch = f"{self._query('views', names=names)};\n{load(_FILE)['keeps_index_names']}"
        views, (shown,) = self._session.results(batch, seconds=_SECONDS)
        return frozenset(str(row["name"]) for row in views), bool(shown["kept"])

    def _rows_exist(self, table: TableRef) -> bool:
        statement = self._query("rows_exist", table=quoted_table(table))
        return bool(self._session.value(statement, seconds=UNBOUNDED))


def _statistics(rows: Sequence[Row]) -> tuple[tuple[StatisticsFacts, ...], list[tuple[str, str]]]:
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row["name"], []).append(row)
    made = tuple(
        StatisticsFacts(
            name,
            tuple(row["column_name"] for row in of_name),
            of_name[0]["filter_definition"] if of_name[0]["has_filter"] else None,
            bool(of_name[0]["no_recompute"]),
        )
        for name, of_name in by_name.items()
    )
    return made, [("statistics", name) for name, of_name in by_name.items() if of_name[0]["is_incremental"]]


def _plain(row: Row) -> list[object]:
    return [value if value is None or isinstance(value, (int, str)) else str(value) for value in row.values()]


def _not_a_table(table: TableRef, object_id: int) -> TargetTable:
    finding: Finding = finding_of("kind", str(table), str(table))
    return TargetTable(table, object_id, (), {}, sha256_of({}), (finding,), (), False, unwritable=(finding,))
