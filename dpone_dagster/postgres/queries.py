"""Loads the named statements of the SQL files beside this module."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import LiteralString, cast

from psycopg import sql

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@functools.cache
def load(file_name: str) -> Mapping[str, LiteralString]:
    """The statements of one file, by the names of its `-- name: xyz` blocks.

    Args:
        file_name: Such as `ledger.sql`.
    """
    text = resources.files(__package__).joinpath(file_name).read_text(encoding="utf-8")
    # The text is part of the program, so psycopg may take it for a literal.
    parts = cast("list[LiteralString]", _NAME.split(text))
    return MappingProxyType({name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)})


def in_schema(file_name: str, schema: str) -> dict[str, sql.Composed]:
    """The statements of one file with `{schema}` filled in, for those that are executed with parameters.

    Args:
        file_name: Such as `ledger.sql`.
        schema: Of the state tables, unquoted.
    """
    quoted = sql.Identifier(schema.replace("%", "%%"))  # psycopg reads a lone % as a parameter
    return {name: sql.SQL(text).format(schema=quoted) for name, text in load(file_name).items()}


def statement(file_name: str, name: str, /, **parts: sql.Composable) -> sql.Composed:
    """One statement with its braces filled in, to be executed without parameters: no % is special in it.

    Args:
        file_name: Such as `changes.sql`.
        name: Of its block.
        **parts: What the braces name.
    """
    return sql.SQL(load(file_name)[name]).format(**parts)
