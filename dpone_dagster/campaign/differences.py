"""Names what differs between two pieces of plain data, such as the catalogs of a table then and now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def differences(old: object, new: object, path: str = "") -> list[str]:
    """Paths at which they differ, so that a drift can be named.

    Args:
        old: Mappings and lists of plain values. Lists of mappings that all have a `name` are compared by it.
        new: As `old`.
        path: Where they stand; goes before every path that is returned.
    """
    if old == new:
        return []
    before, after = _by_key(old), _by_key(new)
    if before is None or after is None:
        return [path]
    keys = sorted(before.keys() | after.keys(), key=str)
    found = [f for key in keys for f in differences(before.get(key), after.get(key), f"{path}.{key}".strip("."))]
    return found or [f"{path}, their order"]


def _by_key(data: object) -> Mapping[str, object] | None:
    if isinstance(data, Mapping):
        return data
    if not isinstance(data, Sequence) or isinstance(data, (str, bytes)):
        return None
    named = {str(item["name"]): item for item in data if isinstance(item, Mapping) and item.get("name") is not None}
    return named if len(named) == len(data) else None
