"""Loads the named statements of the SQL files beside this module, the state tables' schema filled in."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType

from dpone_dagster.mssql.quoting import quoted

_NOWHERE = "dpone: no state tables"  # what would read them where there are none finds nothing
_PART = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@functools.cache
def load(file_name: str, schema: str = "dbo") -> Mapping[str, str]:
    """The statements of one file, by the names of its `-- name: xyz` blocks.

    Args:
        file_name: Such as `ledger.sql`.
        schema: Of the state tables, unquoted; stands where the file has `{schema}`. Empty where there are none.
    """
    text = resources.files(__package__).joinpath(file_name).read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return MappingProxyType(
        {
            name: body.strip().replace("{schema}", quoted(schema or _NOWHERE))
            for name, body in zip(parts[1::2], parts[2::2], strict=True)
        }
    )


def filled(statement: str, **parts: str) -> str:
    """A statement with names, expressions or lists of marks where it has `{part}`; never with a value.

    Args:
        statement: From `load`.
        parts: Made by `quoting` and the modules that write expressions; all at once, so none is looked into.
    """
    return _PART.sub(lambda match: parts.get(match[1], match[0]), statement)
