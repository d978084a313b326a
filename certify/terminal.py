"""A report on the terminal."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from certify.report import Report
from certify.route import Route
from certify.verdict import Result
from dpone_dagster.connections import FILE_VARIABLE

_SIGNS = {Result.HELD: "✓", Result.FAILED: "✗", Result.UNVERIFIED: "?", Result.MISSING: "-"}


def show(report: Report, path: Path) -> None:
    """Print every criterion, what stood in the way, and the verdict.

    Args:
        report: It.
        path: Where it was written.
    """
    print()
    for criterion in report.criteria:
        word = "" if criterion.result is Result.HELD else f" [{criterion.result}; wanted: {criterion.wanted}]"
        print(f"  {_SIGNS[criterion.result]} {criterion.name}: {criterion.found}{word}")
    if seen := report.measurements.reader:
        waited = f"longest look {seen.longest_look_seconds:.3f} s, counting alone {seen.last_look_seconds:.3f} s"
        print(f"  readers: {waited}")
    for problem in report.problems:
        print(f"  problem: {problem}")
    print(f"\n{report.verdict} after {report.seconds:.0f} s\nreport: {os.path.relpath(path)}")


def show_kept(route: Route, folder: Path) -> None:
    """Say how to look at what was kept; URLs may hold a secret, so they go to a file that only its owner reads.

    Args:
        route: The route.
        folder: The certification's own.
    """
    command = f".venv/bin/dpone backfill status {os.path.relpath(folder / 'certify.yaml')}"
    if route.own:
        connections = folder / "connections.yaml"
        connections.touch(mode=0o600)
        connections.write_text(yaml.safe_dump(dict(route.own)))
        command = f"{FILE_VARIABLE}={os.path.relpath(connections)} {command}"
    print(f"kept; look at it with: {command}")
