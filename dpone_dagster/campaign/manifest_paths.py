"""Values of the manifest's plain data by their dotted path, whatever else is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def at(data: Any, path: str) -> Any:
    """The value at a path; None if there is none."""
    for key in path.split("."):
        if not isinstance(data, Mapping):
            return None
        data = data.get(key)
    return data


def names(data: Mapping[Any, Any], path: str) -> list[str]:
    """The texts of the list at a path; none if there is no list."""
    value = at(data, path)
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
