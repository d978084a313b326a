"""One certification from the first look to the report."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from certify import measure
from certify.commands import Operator
from certify.measurements import LARGE_CHUNK_ROWS, Measurements
from certify.orders import SOURCE, batches
from certify.parameters import Asked
from certify.procedure import open_campaign, play, watch, why
from certify.report import Parameters, Report
from certify.route import Route
from certify.verdict import Verdict, judge, verdict_of
from dpone_dagster.campaign.errors import DponeError, Interrupted

_EXIT_CODES = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCOMPLETE: 4, Verdict.UNVERIFIED: 5}
_PACKAGES = (
    "dpone-dagster", "dagster", "psycopg", "pydantic", "pyodbc", "mssql-python", "adbc-driver-postgresql", "pyarrow",
)  # fmt: skip
_LIMITATIONS = (
    "It certifies these servers, this machine and this release, with a table of its own, and no other.",
    "Nobody writes to the source meanwhile; what then has to be settled is shown by the tests, not here.",
    "Throughput is measured and not compared: no load by merges was run beside it.",
)


def exit_code_of(verdict: Verdict) -> int:
    """Of `python -m certify`."""
    return _EXIT_CODES[verdict]


@dataclass
class _Found:
    """What is known so far."""

    facts: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """An error ends the block; what it would have measured stays unmeasured. Who is told to stop, stops.

        Raises:
            Interrupted: As it came.
        """
        try:
            yield
        except Interrupted:
            raise
        except DponeError as error:
            self.problems.append(str(error))


def certify(route: Route, asked: Asked, folder: Path) -> Report:
    """Play the procedure, measure, clean up, judge, and write `report.json`.

    Args:
        route: Where.
        asked: How big.
        folder: Emptied first; for manifest, logs and report.

    Raises:
        CertifyRefused: Something stands in the way; nothing was touched.
    """
    route.prove_free()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started, moment = time.monotonic(), datetime.now(UTC)
    found = _Found({"source": route.source.server, "target": route.target.server})
    try:
        with found.noting():
            _make(route, asked)
            _run(route, asked, folder, found)
    finally:
        if not asked.keep:
            for drop in (route.source.drop, route.target.drop):
                with found.noting():
                    drop()
    measured = Measurements.model_validate(found.facts)
    criteria = judge(measured)
    report = Report(
        verdict=verdict_of(criteria),
        criteria=criteria,
        measurements=measured,
        parameters=Parameters(rows=asked.rows, chunks=asked.chunks, lanes=asked.lanes, large_chunks=asked.large_chunks),
        problems=tuple(found.problems),
        limitations=tuple(_limitations(measured)),
        versions=_versions(),
        started_at=moment,
        seconds=round(time.monotonic() - started, 1),
    )
    report.write(folder / "report.json")
    return report


def _make(route: Route, asked: Asked) -> None:
    for server in (route.source.server, route.target.server):
        print(f"  {server.connection_ref}: {server.version}{'' if server.genuine else ' (a stand-in)'}", flush=True)
    rows = batches(asked.rows, asked.chunks, asked.large_chunks)
    print(f"▸ fill {SOURCE} with {sum(batch.rows for batch in rows):,} rows", flush=True)
    route.source.make(rows)
    route.target.make()


def _run(route: Route, asked: Asked, folder: Path, found: _Found) -> None:
    campaign = open_campaign(route, route.manifest(asked), Path(os.path.relpath(folder / "certify.yaml")))
    operator = Operator(campaign.manifest, route.environment, folder, lambda: why(campaign))
    reader = watch(route)
    try:
        play(campaign, operator)
    finally:
        found.facts |= {"crashes": operator.crashes, "operator_steps": operator.steps}
        found.facts["reader"] = measure.seen_by(reader.stop())
    print("▸ count and compare", flush=True)
    looks: tuple[Callable[[], object], ...] = (
        lambda: found.facts.update(measure.of_state(campaign)),
        lambda: found.facts.update(measure.of_rows(campaign, route)),
    )
    for look in looks:
        with found.noting():
            look()
    if isinstance(rows := found.facts.get("source_rows"), int):
        found.facts["rows_per_second"] = round(rows / sum(step.seconds for step in operator.steps), 1)


def _limitations(measured: Measurements) -> Iterator[str]:
    yield from _LIMITATIONS
    if measured.target is not None and not measured.target.genuine:
        yield "UNVERIFIED on SQL Server: the target only stands in for one."
    times = measured.large_chunk_times
    if times is not None:
        yield f"The p95 of large chunks is that of {times.chunks} chunks of {LARGE_CHUNK_ROWS:,} rows or more."


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    with contextlib.suppress(OSError):
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        if not commit.returncode:
            found["commit"] = commit.stdout.strip()
    return found
