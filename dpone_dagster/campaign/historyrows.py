"""Rows of a campaign's history as records; what an adapter's driver gives is plain values by now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from dpone_dagster.campaign.history import LaneTotals, Spread, StepRecord, Steps

Row = Mapping[str, Any]
_LANE = tuple(field.name for field in fields(LaneTotals))
_STEP = tuple(field.name for field in fields(StepRecord))


def lanes_of(rows: Sequence[Row]) -> tuple[int, list[LaneTotals]]:
    """Lanes of rows that have the number of all as `total`."""
    return (rows[0]["total"] if rows else 0), [LaneTotals(**{name: row[name] for name in _LANE}) for row in rows]


def spread_of(rows: Sequence[Row]) -> Spread:
    """A spread of rows (place, value), each with `count` and `total` of all."""
    if not rows:
        return Spread()
    samples = tuple((row["place"], float(row["value"])) for row in rows)
    return Spread(rows[0]["count"], float(rows[0]["total"]), samples)


def steps_of(rows: Sequence[Row]) -> Steps:
    """Steps of rows that have the number of all as `total`."""
    return Steps(
        rows[0]["total"] if rows else 0, tuple(StepRecord(**{name: row[name] for name in _STEP}) for row in rows)
    )
