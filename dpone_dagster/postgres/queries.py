"""Loads the named statements of the SQL files beside this module."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import LiteralString, cast

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
