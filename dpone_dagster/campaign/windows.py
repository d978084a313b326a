"""Whether the windows of two campaigns have a row in common."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.plan import ChunkSpec, Plan, read_instant


def apart(one: ChunkSpec, other: Mapping[str, object]) -> bool:
    """Whether no row can belong to both windows. What cannot be compared is not known to be apart.

    Args:
        one: Of a campaign.
        other: Another one's, as its `ChunkSpec.as_dict()` has it.
    """
    if one.kind == "uuid" or (one.kind, one.column) != (other.get("kind"), other.get("column")):
        return False
    lower, upper, step = (str(other.get(name)) for name in ("from", "to", "step"))
    try:
        (first, end) = _ends(one)
        (their_first, their_end) = _ends(ChunkSpec(one.kind, one.column, lower, upper, step))
    except (ValueError, OverflowError):
        return False  # beyond the years that can be read
    return end <= their_first or their_end <= first


def _ends(spec: ChunkSpec) -> tuple[float, float]:
    """First value of a window and the first one after it."""
    plan = Plan(spec)
    lower, upper = plan.chunk(0).lower, plan.chunk(plan.count - 1).upper
    if spec.kind == "integer":
        return int(lower), int(upper) + 1
    return read_instant(lower).timestamp(), read_instant(upper).timestamp()
