"""The rows of a chunk as an SQL condition that the chunk column's index can serve."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from dpone_dagster.campaign.chunkbounds import chunk_bound_type
from dpone_dagster.campaign.contract import Column
from dpone_dagster.campaign.errors import Finding, SourceUnsuitable
from dpone_dagster.campaign.plan import Chunk


def in_chunk(columns: Sequence[Column], name: str, chunk: Chunk) -> sql.Composed:
    """The condition, its bounds as literals of a type that compares with the column's own.

    Args:
        columns: Of the source table.
        name: The chunk column.
        chunk: The range.

    Raises:
        SourceUnsuitable: The column cannot be cut into chunks of this kind.
    """
    column = next((column for column in columns if column.name == name), None)
    bound_type = None if column is None else chunk_bound_type(chunk.kind, column.type)
    if bound_type is None:
        problem = "does not exist" if column is None else f"is {column.type}, which has no {chunk.kind} chunks"
        raise SourceUnsuitable(
            "the source table cannot be read by chunk",
            findings=[Finding(f"source.{name}", problem, "name another `chunk.column`, or its own `chunk.kind`")],
            next_step="Correct `sink.strategy.backfill.chunk` in the manifest.",
        )
    kind = sql.Identifier("pg_catalog", bound_type)
    lower, upper = (sql.SQL("{}::{}").format(sql.Literal(bound), kind) for bound in (chunk.lower, chunk.upper))
    below = sql.SQL("<=" if chunk.upper_inclusive else "<")
    return sql.SQL("{0} >= {1} AND {0} {2} {3}").format(sql.Identifier(name), lower, below, upper)
