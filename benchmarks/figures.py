"""Medians, spreads, deciles and ratios: nothing but arithmetic."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LEAST_CHUNKS = 10


@dataclass(frozen=True)
class Spread:
    """The median of some runs, and how far they lie apart.

    Attributes:
        median: Of all.
        low: The smallest.
        high: The largest.
        runs: How many.
    """

    median: float
    low: float
    high: float
    runs: int


def spread(values: Sequence[float]) -> Spread | None:
    """Of some runs' values; None if there are none."""
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), len(values))


def deciles(seconds: Sequence[float]) -> tuple[float, float] | None:
    """Median of the first and of the last tenth.

    Args:
        seconds: Of each chunk, in the order in which they were begun.

    Returns:
        None where there are fewer than ten.
    """
    if len(seconds) < _LEAST_CHUNKS:
        return None
    size = math.ceil(len(seconds) / 10)
    return statistics.median(seconds[:size]), statistics.median(seconds[-size:])


def paired_ratio(above: Mapping[int, float], below: Mapping[int, float]) -> Spread | None:
    """The ratio of two measures, taken within each repeat, so that a drift of the machine divides out.

    Args:
        above: By repeat.
        below: Likewise.

    Returns:
        None where no repeat has both.
    """
    return spread([above[n] / below[n] for n in sorted(above.keys() & below.keys()) if below[n]])


def gaps(begun: Mapping[int, Sequence[float]]) -> list[float]:
    """Seconds from one beginning to the next of the same lane: a chunk with everything around it.

    Args:
        begun: Moments in order, by lane.
    """
    return [later - earlier for moments in begun.values() for earlier, later in itertools.pairwise(moments)]
