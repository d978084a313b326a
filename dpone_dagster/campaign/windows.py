"""Whether two campaigns that write straight into one table have a row in common."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.plan import ChunkSpec, Plan, read_instant

# What touches the rows of its own window alone; a refresh deletes every row of the table.
_WITHIN_ITS_WINDOW = frozenset({"append", "merge", "replace"})


def apart(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether no row can be written by both. What cannot be compared is not known to be apart.

    Args:
        one: The `slices` of a campaign.
        other: Another one's.
    """
    if not {one.get("action"), other.get("action")} <= _WITHIN_ITS_WINDOW:
        return False
    if one.get("kind") == "uuid" or any(one.get(name) != other.get(name) for name in ("kind", "column")):
        return False
    try:
        (first, end), (their_first, their_end) = _ends(one), _ends(other)
    except (ValueError, OverflowError):
        return False  # beyond the years that can be read
    return end <= their_first or their_end <= first


def _ends(slices: Mapping[str, object]) -> tuple[float, float]:
    """First value of a window and the first one after it."""
    kind, column, lower, upper, step = (str(slices.get(name)) for name in ("kind", "column", "from", "to", "step"))
    plan = Plan(ChunkSpec(kind, column, lower, upper, step))  # type: ignore[arg-type]
    first, end = plan.chunk(0).lower, plan.chunk(plan.count - 1).upper
    if kind == "integer":
        return int(first), int(end) + 1
    return read_instant(first).timestamp(), read_instant(end).timestamp()
