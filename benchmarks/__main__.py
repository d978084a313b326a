"""`make bench`: runs what CASES=, CONTENDERS=, REPEATS= and BUDGET= ask for, and writes docs/benchmarks.md.

CASES and CONTENDERS are patterns, parted by commas; BUDGET is in minutes; RESUME=0 begins anew.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import UTC, datetime

from benchmarks.bench import Asked, bench
from benchmarks.cases import chosen_entries
from benchmarks.ground import FOLDER
from benchmarks.page import write_page
from demo.place import ROOT
from dpone_dagster.campaign.errors import DponeError, Interrupted

RESULTS = FOLDER / "results.jsonl"
_REPEATS = 5


def main() -> int:
    """Run what the environment asks for; 0 when it is done, 2 if it asks for what there is not."""
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers that were started are stopped then too
    try:
        asked = Asked(
            entries=tuple(chosen_entries(os.environ.get("CASES", ""), os.environ.get("CONTENDERS", ""))),
            repeats=round(_number("REPEATS", _REPEATS, least=1)),
            budget_seconds=_number("BUDGET", float("inf"), least=0) * 60,
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


def _number(name: str, default: float, *, least: float) -> float:
    said = os.environ.get(name) or str(default)
    try:
        number = float(said)
    except ValueError:
        number = float("nan")
    if not number >= least:
        raise ValueError(f"{name}={said} is no number of {least:g} or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
