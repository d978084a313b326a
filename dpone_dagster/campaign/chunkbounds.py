"""Which columns can be cut into chunks of a kind, and the type of the bounds: one that the column's index can use."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.contract import ColumnType
from dpone_dagster.campaign.plan import ChunkKind

CHUNK_BOUNDS: Mapping[ChunkKind, Mapping[str, str]] = {
    "uuid": {"uuid": "uuid"},
    "integer": {"int2": "int8", "int4": "int8", "int8": "int8", "numeric": "numeric"},
    "date": {"date": "date", "timestamp": "timestamp", "timestamptz": "timestamptz"},
    "timestamp": {"date": "timestamp", "timestamp": "timestamp", "timestamptz": "timestamptz"},
}


def chunk_bound_type(kind: ChunkKind, column: ColumnType) -> str | None:
    """The type of a chunk's bounds over a column; None if the column cannot be cut into such chunks.

    Args:
        kind: Of the chunks.
        column: Type of the chunk column. Bounds of a timestamp without time zone are in UTC.
    """
    if column.kind != "base" or (column.name == "numeric" and not _whole_numbers(column)):
        return None  # inclusive integer bounds would leave fractions out
    return CHUNK_BOUNDS[kind].get(column.name)


def _whole_numbers(column: ColumnType) -> bool:
    return bool(column.args) and column.args[1] <= 0
