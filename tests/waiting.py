"""How long tests wait for what other processes do. A test ends as soon as it has what it waits for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

# For what has no bound of its own, on a machine that has other things to do.
PATIENCE_SECONDS = 180.0


def within(seconds: float, reached: Callable[[], bool]) -> bool:
    """Whether it was reached in that time.

    Args:
        seconds: How long it is looked for.
        reached: Looks.
    """
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


def promised(seconds: float) -> float:
    """A time that the product promises, on this machine: as many times longer as its processors are overbooked."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
