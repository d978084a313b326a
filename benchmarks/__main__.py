"""`make bench`: runs what CASES=, CONTENDERS=, REPEATS= and BUDGET= ask for, and writes docs/benchmarks.md.

CASES and CONTENDERS are patterns, parted by commas; BUDGET is in minutes; RESUME=0 begins anew.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from benchmarks.bench import Asked, bench
from benchmarks.cases import chosen_entries
from benchmarks.ground import FOLDER
from benchmarks.page import write_page
from demo.place import ROOT
from dpone_dagster.campaign.errors import DponeError, Interrupted

RESULTS = FOLDER / "results.jsonl"
_REPEATS = 5

_Number = TypeVar("_Number", int, float)


def main() -> int:
    """Run what the environment asks for; 0 when it is done, 2 if it asks for what there is not."""
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers that were started are stopped then too
    try:
        asked = Asked(
            entries=tuple(chosen_entries(os.environ.get("CASES", ""), os.environ.get("CONTENDERS", ""))),
            repeats=_number("REPEATS", _REPEATS, int, least=1),
            budget_seconds=_number("BUDGET", float("inf"), float, least=0) * 60,
        )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if os.environ.get("RESUME") == "0" and RESULTS.exists():
        RESULTS.rename(RESULTS.with_name(f"results-{datetime.now(UTC):%Y%m%dT%H%M%S}.jsonl"))
    started = time.monotonic()
    try:
        failed = bench(asked, RESULTS)
    except DponeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; `make bench` goes on from here", file=sys.stderr)
        return Interrupted.exit_code
    page = write_page(RESULTS)
    print(f"{page.relative_to(ROOT)} is written ({(time.monotonic() - started) / 60:.0f} minutes)")
    return 1 if failed else 0


def _number(name: str, default: _Number, kind: Callable[[str], _Number], *, least: int) -> _Number:
    said = os.environ.get(name)
    if not said:
        return default
    with contextlib.suppress(ValueError):
        number = kind(said)
        if number >= least:
            return number
    raise ValueError(f"{name}={said} is no number of {least} or more")


if __name__ == "__main__":
    sys.exit(main())
