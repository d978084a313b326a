"""Columns of a table, read from the catalog as the domain's own types."""

from __future__ import annotations

from typing import Any

from dpone_dagster.campaign.contract import Column, ColumnType
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.postgres.queries import load
from dpone_dagster.postgres.session import Session, translated

_LENGTHS = frozenset({"varchar", "bpchar"})
_HEADER = 4  # of a varlena, which these type modifiers include


def read_columns(session: Session, table: TableRef) -> tuple[int, str, tuple[Column, ...]] | None:
    """Object id, kind (`relkind`) and columns of a table or view, dropped columns left out.

    A domain is reported as the type that it is made of, under its own name: that is what its values are. Types that
    PostgreSQL does not define itself have their schema in their name.

    Args:
        session: The connection, in a transaction or not.
        table: Schema and name as the catalog has them.

    Returns:
        None if there is nothing of that name that has rows.
    """
    with translated():
        query = load("columns.sql")["columns"]
        rows = session.connection.execute(query, {"schema": table.schema, "name": table.name}).fetchall()
    if not rows:
        return None
    return int(rows[0][0]), str(rows[0][1]), tuple(_column(row) for row in rows if row[2] is not None)


def _column(row: tuple[Any, ...]) -> Column:
    _, _, name, type_name, kind, modifier, display, collation, not_null, has_default = row
    arguments = type_arguments(type_name.removeprefix("_") if kind == "array" else type_name, modifier)
    return Column(name, ColumnType(type_name, arguments, kind, display, collation), not not_null, has_default)


def type_arguments(type_name: str, modifier: int) -> tuple[int, ...]:
    """What a type modifier stands for; the layout is PostgreSQL's own (numeric.c, varchar.c, timestamp.c).

    Args:
        type_name: `typname`, of the element for an array.
        modifier: `atttypmod`; -1 for none.
    """
    if modifier < 0:
        return ()
    if type_name == "numeric":
        packed = modifier - _HEADER
        scale = packed & 0x7FF
        return (packed >> 16) & 0xFFFF, scale - 0x800 if scale & 0x400 else scale  # scale is signed since 15
    if type_name in _LENGTHS:
        return (modifier - _HEADER,)
    return (modifier,)
