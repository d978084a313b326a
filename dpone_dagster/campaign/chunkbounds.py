"""Which columns can be cut into chunks of a kind, and the type of the bounds: one that the column's index can use."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.contract import ColumnType
from dpone_dagster.campaign.plan import ChunkKind

# By kind of chunk and name of a column's type, the type of the bounds.
Bounds = Mapping[ChunkKind, Mapping[str, str]]

CHUNK_BOUNDS: Bounds = {
    "uuid": {"uuid": "uuid"},
    "integer": {"int2": "int8", "int4": "int8", "int8": "int8", "numeric": "numeric"},
    "date": {"date": "date", "timestamp": "timestamp", "timestamptz": "timestamptz"},
    "timestamp": {"date": "timestamp", "timestamp": "timestamp", "timestamptz": "timestamptz"},
}
_DECIMALS = frozenset({"numeric", "decimal"})

_INSTANTS = {
    **dict.fromkeys(("datetime2", "datetime", "smalldatetime"), "datetime2"),
    "datetimeoffset": "datetimeoffset",
}

# SQL Server's own order of uniqueidentifiers is not PostgreSQL's: the bounds are their text, which no index serves.
MSSQL_CHUNK_BOUNDS: Bounds = {
    "uuid": {"uniqueidentifier": "char(36)", "char": "char(36)", "nchar": "char(36)"},
    "integer": {
        **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "bigint"),
        **dict.fromkeys(("decimal", "numeric"), "decimal(38)"),
    },
    "date": {"date": "date", **_INSTANTS},
    "timestamp": {"date": "datetime2", **_INSTANTS},
}
# As a source it is not read in the order of a text: every chunk would scan the table.
MSSQL_SOURCE_BOUNDS: Bounds = {**MSSQL_CHUNK_BOUNDS, "uuid": {}}


def chunk_bound_type(kind: ChunkKind, column: ColumnType, bounds: Bounds = CHUNK_BOUNDS) -> str | None:
    """The type of a chunk's bounds over a column; None if the column cannot be cut into such chunks.

    Args:
        kind: Of the chunks.
        column: Type of the chunk column. Bounds of a timestamp without time zone are in UTC.
        bounds: Those of the column's server.
    """
    if column.kind != "base" or (column.name in _DECIMALS and not _whole_numbers(column)):
        return None  # inclusive integer bounds would leave fractions out
    return bounds[kind].get(column.name)


def _whole_numbers(column: ColumnType) -> bool:
    return bool(column.args) and column.args[1] <= 0
