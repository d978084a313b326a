"""How long commands take that people wait for: `dpone --help`, `plan` of 512 chunks, `status` of a campaign."""

from __future__ import annotations

import statistics
import subprocess
import time

from benchmarks.campaigns import DPONE, Campaigns
from benchmarks.cases import OURS, Case

CALLS = 10
# The campaign whose plan and status are asked for; its rows are of no interest.
CASE = Case("pg", "narrow", "uuid", 1_000, 512, 1)


def time_commands(campaigns: Campaigns) -> dict[str, float]:
    """Median wall time of ten calls each, after the campaign has run.

    Args:
        campaigns: On a target that is there and empty.
    """
    campaigns.run(CASE, OURS)
    manifest = str(campaigns.manifest(CASE, OURS))
    return {
        "help_seconds": _median(campaigns, ["--help"]),
        "plan_seconds": _median(campaigns, ["backfill", "plan", manifest]),
        "status_seconds": _median(campaigns, ["backfill", "status", manifest]),
    }


def _median(campaigns: Campaigns, words: list[str]) -> float:
    return statistics.median(_seconds(campaigns, words) for _ in range(CALLS))


def _seconds(campaigns: Campaigns, words: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(
        [DPONE, *words], env=campaigns.environment, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - started
