"""Quotes names and texts for T-SQL; nothing else in the product does."""

from __future__ import annotations

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.names import TableRef

MAX_NAME = 128


def quoted(name: str) -> str:
    """A name in brackets.

    Raises:
        DponeError: No name of a SQL Server object can look like this.
    """
    if not 0 < len(name.encode("utf-16-le")) // 2 <= MAX_NAME or "\x00" in name:
        raise DponeError(f"not a possible name of an object: {name[:40]!r}")
    return "[" + name.replace("]", "]]") + "]"


def quoted_table(table: TableRef) -> str:
    """Schema and name, each in brackets."""
    return f"{quoted(table.schema)}.{quoted(table.name)}"


def literal(text: str) -> str:
    """A Unicode string literal, for the few places that take no parameter."""
    return "N'" + text.replace("'", "''") + "'"
