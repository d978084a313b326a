"""The `dpone` command: parse, call, print, exit. Starts fast: what a command needs is imported when it runs."""

from __future__ import annotations

import gc

# What is imported stays, and a command makes some 90,000 objects, with Dagster 360,000, and no garbage: looking for any
# among them, as Python does at each 700, takes a sixth of its time.
_OBJECTS_BETWEEN_SWEEPS = 500_000


def main() -> None:
    """Entry point of the `dpone` script."""
    gc.set_threshold(_OBJECTS_BETWEEN_SWEEPS)
    from dpone_dagster.cli.commands import dpone

    try:
        dpone(prog_name="dpone")
    finally:
        # Nothing waits to be closed by then; looking through all of Dagster once more would take a third of a second.
        gc.freeze()
