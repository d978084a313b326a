"""What the flags of a table's catalog say that a swap would lose; an unknown flag that is set counts as lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpone_dagster.mssql.facts import CLUSTERED, CLUSTERED_COLUMNSTORE, HEAP, NONCLUSTERED, Row

_ALLOWED_TABLE_FLAGS = frozenset({"uses_ansi_nulls"})
_ALLOWED_COLUMN_FLAGS = frozenset({"is_nullable", "is_ansi_padded"})
# Properties of sys.tables that are none but 0, by the finding's kind.
_TABLE_NUMBERS = {
    "temporal_type": "temporal",
    "history_table_id": "temporal",
    "ledger_type": "ledger",
    "durability": "in-memory",
    "is_memory_optimized": "in-memory",
    "text_in_row_limit": "in-row option",
    "large_value_types_out_of_row": "in-row option",
    "lock_on_bulk_load": "lock_on_bulk_load",
    "has_unchecked_assembly_data": "has_unchecked_assembly_data",
    "filestream_data_space_id": "filegroup",
    "principal_id": "owner",
}
_COLUMN_NUMBERS = {
    "encryption_type": "encryption",
    "xml_collection_id": "typed xml",
    "rule_object_id": "bound rule",
    "generated_always_type": "generated",
    "ledger_view_column_type": "ledger",
    "graph_type": "generated",
    "type_is_user_defined": "alias type",
    "type_is_assembly": "alias type",
}
_INDEX_NUMBERS = {
    "is_disabled": "disabled index",
    "is_hypothetical": "disabled index",
    "ignore_dup_key": "ignore_dup_key",
    "suppress_dup_key_messages": "index option",
    "is_ignored_in_optimization": "index option",
}


def _flags(row: Row, allowed: frozenset[str]) -> Iterator[str]:
    """Flags that are set and that nothing here is known to reproduce, those of newer servers included."""
    return (name for name, value in row.items() if name.startswith("is_") and value and name not in allowed)


def _numbers(row: Row, kinds: Mapping[str, str]) -> Iterator[str]:
    return (kind for name, kind in kinds.items() if row.get(name))


def lost_table(row: Row, table: str) -> Iterator[tuple[str, str]]:
    """(kind, name) of what a row of sys.tables tells."""
    kinds = dict.fromkeys(_numbers(row, _TABLE_NUMBERS))
    kinds.update(dict.fromkeys(name for name in _flags(row, _ALLOWED_TABLE_FLAGS) if name not in _TABLE_NUMBERS))
    if not row.get("lob_on_default_filegroup", 1):
        kinds["filegroup"] = None
    if not row.get("uses_ansi_nulls", 1):
        kinds["uses_ansi_nulls = 0"] = None
    return ((kind, table) for kind in kinds)


def lost_column(row: Row) -> Iterator[tuple[str, str]]:
    """(kind, name) of what a row of sys.columns tells."""
    name = f"column {row['name']}"
    kinds = dict.fromkeys(_numbers(row, _COLUMN_NUMBERS))
    kinds.update(dict.fromkeys(_flags(row, _ALLOWED_COLUMN_FLAGS)))
    if row["user_type_id"] != row["system_type_id"]:
        kinds["alias type"] = None
    return ((kind, name) for kind in kinds)


def lost_index(row: Row, parts: Sequence[Row], table: str) -> Iterator[tuple[str, str]]:
    """(kind, name) of what a row of sys.indexes tells, with the rows of sys.index_columns of its table."""
    name = row["name"] or table
    if row["type"] not in (HEAP, CLUSTERED, NONCLUSTERED, CLUSTERED_COLUMNSTORE):
        yield "index kind", name
    if not row["on_default_filegroup"] or (row["partition_count"] or 1) > 1:
        yield "filegroup", name
    for kind in dict.fromkeys(_numbers(row, _INDEX_NUMBERS)):
        yield kind, name
    own = [part for part in parts if part["index_id"] == row["index_id"]]
    if any(part.get("column_store_order_ordinal") for part in own):
        yield "ordered columnstore", name
