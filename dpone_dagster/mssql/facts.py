"""What is known of one table of SQL Server, made from the rows of its catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpone_dagster.campaign.contract import Column
from dpone_dagster.campaign.identity import canonical_json
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.columns import column_of, type_of

CATALOG_VERSION = 1
HEAP, CLUSTERED, NONCLUSTERED, CLUSTERED_COLUMNSTORE = 0, 1, 2, 5

Row = Mapping[str, Any]


@dataclass(frozen=True)
class IndexFacts:
    """One index, the heap left out.

    Attributes:
        name: Belongs to its table alone, so that shadow and live table can have the same.
        kind: `type` of sys.indexes.
        keys: (column, descending) in key order; none for a columnstore.
        included: INCLUDE columns by name.
        predicate: As the server prints it; None for all rows.
        options: What `WITH` says, defaults left out.
    """

    name: str
    kind: int
    unique: bool
    keys: tuple[tuple[str, bool], ...]
    included: tuple[str, ...]
    predicate: str | None
    options: Mapping[str, str | int]

    def contract(self) -> dict[str, object]:
        """Everything but the name."""
        return {
            "kind": self.kind,
            "unique": self.unique,
            "keys": [list(key) for key in self.keys],
            "included": list(self.included),
            "predicate": self.predicate,
            "options": dict(self.options),
        }

    @property
    def is_clustered(self) -> bool:
        """Whether it is how the rows are stored, so that the shadow needs it before it is loaded."""
        return self.kind in (CLUSTERED, CLUSTERED_COLUMNSTORE)


@dataclass(frozen=True)
class StatisticsFacts:
    """One statistics object that somebody created."""

    name: str
    columns: tuple[str, ...]
    predicate: str | None
    no_recompute: bool

    def contract(self) -> dict[str, object]:
        """Everything, the name too: it belongs to its table alone."""
        return {
            "name": self.name,
            "columns": list(self.columns),
            "predicate": self.predicate,
            "no_recompute": self.no_recompute,
        }


@dataclass(frozen=True)
class Catalog:
    """Everything that is known of one table.

    Attributes:
        heap_compression: Of a heap; None where an index stores the rows.
        keeps_index_names: Whether the server shows an index by the name that it was given.
        lost: (kind, name) of what a swap would lose, but for dependent objects.
    """

    table: TableRef
    object_id: int
    column_rows: tuple[Row, ...]
    lock_escalation: str
    heap_compression: str | None
    indexes: tuple[IndexFacts, ...]
    statistics: tuple[StatisticsFacts, ...]
    keeps_index_names: bool
    lost: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """In catalog order."""
        return tuple(column_of(row) for row in self.column_rows)

    @property
    def clustered(self) -> IndexFacts | None:
        """The index that stores the rows; None for a heap."""
        return next((index for index in self.indexes if index.is_clustered), None)

    def loadable(self) -> dict[str, object]:
        """The part of the contract that a shadow has from the start."""
        clustered = self.clustered
        return {
            "version": CATALOG_VERSION,
            "columns": [_column_contract(row) for row in self.column_rows],
            "heap_compression": self.heap_compression,
            "clustered": self.index_contract(clustered) if clustered else None,
        }

    def contract(self) -> dict[str, object]:
        """The whole contract."""
        return {
            **self.loadable(),
            "lock_escalation": self.lock_escalation,
            "indexes": sorted((self.index_contract(i) for i in self.indexes if not i.is_clustered), key=canonical_json),
            "statistics": sorted((s.contract() for s in self.statistics), key=canonical_json),
        }

    def index_contract(self, index: IndexFacts) -> dict[str, object]:
        """An index's contract, with its name where the server keeps names."""
        return {"name": index.name if self.keeps_index_names else None, **index.contract()}

    def unique_keys(self) -> tuple[tuple[str, ...], ...]:
        """Column sets that a unique index without predicate enforces."""
        return tuple(
            tuple(name for name, _ in index.keys) for index in self.indexes if index.unique and index.predicate is None
        )


def _column_contract(row: Row) -> dict[str, object]:
    return {
        "name": row["name"],
        "type": str(type_of(row)),
        "collation": row["collation_name"],
        "nullable": bool(row["is_nullable"]),
        "ansi_padded": bool(row["is_ansi_padded"]),
    }


def index_of(row: Row, parts: Sequence[Row]) -> IndexFacts:
    """The index of a row of sys.indexes, with the rows of sys.index_columns of its table."""
    own = [part for part in parts if part["index_id"] == row["index_id"]]
    columnstore = row["type"] == CLUSTERED_COLUMNSTORE  # its columns are all of the table's
    return IndexFacts(
        name=row["name"],
        kind=int(row["type"]),
        unique=bool(row["is_unique"]),
        keys=()
        if columnstore
        else tuple((p["column_name"], bool(p["is_descending_key"])) for p in own if p["key_ordinal"]),
        included=() if columnstore else tuple(sorted(p["column_name"] for p in own if p["is_included_column"])),
        predicate=row["filter_definition"] if row["has_filter"] else None,
        options=_options(row),
    )


def _options(row: Row) -> dict[str, str | int]:
    """What differs from the server's defaults, as `WITH (…)` writes it."""
    compression = str(row["compression"] or "NONE")
    if row["type"] == CLUSTERED_COLUMNSTORE:
        delay = row.get("compression_delay")
        return {"DATA_COMPRESSION": compression, **({"COMPRESSION_DELAY": int(delay)} if delay else {})}
    options: dict[str, str | int] = {}
    if row["fill_factor"]:
        options["FILLFACTOR"] = int(row["fill_factor"])
        if row["is_padded"]:
            options["PAD_INDEX"] = "ON"
    if row["no_recompute"]:
        options["STATISTICS_NORECOMPUTE"] = "ON"
    for name, column in (("ALLOW_ROW_LOCKS", "allow_row_locks"), ("ALLOW_PAGE_LOCKS", "allow_page_locks")):
        if not row[column]:
            options[name] = "OFF"
    if row.get("optimize_for_sequential_key"):
        options["OPTIMIZE_FOR_SEQUENTIAL_KEY"] = "ON"
    if compression != "NONE":
        options["DATA_COMPRESSION"] = compression
    return options
