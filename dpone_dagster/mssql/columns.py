"""Columns of SQL Server as its catalog has them, as the domain's own types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpone_dagster.campaign.contract import Column, ColumnType

_MAX = -1
_WIDE_CHARACTERS = frozenset({"nchar", "nvarchar"})
_BYTES = frozenset({"char", "varchar", "binary", "varbinary"})
_SCALED = frozenset({"datetime2", "datetimeoffset", "time"})
_EXACT_NUMERIC = frozenset({"decimal", "numeric"})

Row = Mapping[str, Any]


def column_of(row: Row) -> Column:
    """The column of a row of sys.columns with its `type_name`."""
    return Column(row["name"], type_of(row), bool(row["is_nullable"]), _filled_by_server(row))


def type_of(row: Row) -> ColumnType:
    """The type of a row of sys.columns with its `type_name`.

    `args` are (length,) in UTF-16 units or bytes, empty for `max`; (precision, scale); or (fractional digits,).
    """
    name = str(row["type_name"] or "unknown").lower()
    args = _arguments(name, row)
    words = ", ".join(map(str, args))
    if row["max_length"] == _MAX and (name in _WIDE_CHARACTERS or name in _BYTES):
        words = "max"
    display = f"{name}({words.replace(' ', '')})" if words else name
    return ColumnType(name, args, "base", display, row["collation_name"])


def _arguments(name: str, row: Row) -> tuple[int, ...]:
    length = int(row["max_length"])
    if name in _EXACT_NUMERIC:
        return (int(row["precision"]), int(row["scale"]))
    if name in _SCALED:
        return (int(row["scale"]),)
    if name in _WIDE_CHARACTERS and length != _MAX:
        return (length // 2,)
    return (length,) if name in _BYTES and length != _MAX else ()


def _filled_by_server(row: Row) -> bool:
    return bool(row["default_object_id"] or row["is_identity"] or row["is_computed"])
