"""Values of the state tables as the server takes and gives them: JSON is text, times are UTC without a zone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dpone_dagster.campaign.identity import canonical_json

_JSON_COLUMNS = frozenset({"contract", "object_contract", "validation", "diagnostics", "nulled"})


def stored(value: object) -> object:
    """A value as its column takes it. A time is text: a driver's own form of it loses digits on some servers."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
    return canonical_json(value) if isinstance(value, Mapping) else value


def read(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the server as plain values."""
    return {name: _read(name, value) for name, value in row.items()}


def _read(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    return json.loads(value) if name in _JSON_COLUMNS and value is not None else value
