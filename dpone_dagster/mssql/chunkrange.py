"""The rows of a chunk in a table of SQL Server, as a T-SQL condition."""

from __future__ import annotations

from collections.abc import Sequence

from dpone_dagster.campaign.chunkbounds import MSSQL_CHUNK_BOUNDS, chunk_bound_type
from dpone_dagster.campaign.contract import Column
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.mssql.quoting import literal, quoted

_TEXT = "char(36)"
_EXACT = "COLLATE Latin1_General_BIN2"
_LAST_YEAR = "10000-"  # the first instant that no type of SQL Server holds


def in_chunk(columns: Sequence[Column], name: str, chunk: Chunk) -> str:
    """The condition, its bounds as literals of a type that compares with the column's own.

    A uuid is compared as its lower-case text, as PostgreSQL does; no index of a uniqueidentifier serves that.

    Args:
        columns: Of the table.
        name: The chunk column.
        chunk: The range.

    Raises:
        DponeError: The column cannot be cut into chunks of this kind.
    """
    column = next((column for column in columns if column.name == name), None)
    bound_type = None if column is None else chunk_bound_type(chunk.kind, column.type, MSSQL_CHUNK_BOUNDS)
    if bound_type is None:
        raise DponeError(f"column {name} has no {chunk.kind} chunks on SQL Server")
    value = f"LOWER(CAST({quoted(name)} AS {_TEXT})) {_EXACT}" if bound_type == _TEXT else quoted(name)
    above = f"{value} >= {_bound(chunk.lower, bound_type)}"
    if chunk.upper.startswith(_LAST_YEAR):
        return above
    return f"{above} AND {value} {'<=' if chunk.upper_inclusive else '<'} {_bound(chunk.upper, bound_type)}"


def _bound(text: str, bound_type: str) -> str:
    # Instants come in UTC, and a datetime2 takes none that says so.
    written = text.removesuffix("+00:00") if bound_type == "datetime2" else text
    return f"CAST({literal(written)} AS {bound_type})"
