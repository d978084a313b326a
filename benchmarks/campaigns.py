"""Our own contenders: `dpone backfill run --execute`, and when what happened, from the ledger and from Dagster."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from dagster import DagsterInstance

from benchmarks.cases import Case
from benchmarks.figures import deciles, gaps
from benchmarks.manifests import SOURCE_REF, TARGET_REF, write_manifest
from benchmarks.processes import Usage, run_measured
from dpone_dagster.campaign.ledger import ChunkRecord
from dpone_dagster.campaign.selection import EVERY_CHUNK
from dpone_dagster.cli.ahead import prepare_home
from dpone_dagster.connections import ENVIRONMENT_PREFIX, Connections
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.settings import load_spec
from dpone_dagster.wiring import open_connector

DPONE = str(Path(sys.executable).with_name("dpone"))
# Of the steps' keys in Dagster, and what they are called on the page.
_BEFORE_LANES = (("_prepare", "prepare"),)
_LANE = "_lane["
_AFTER_LANES = (
    ("_collect", "collect"),
    ("validated_shadow", "validation"),
    ("published_target", "publication"),
    ("xmin_handoff", "handoff"),
)
Span = tuple[float, float]
Marks = list[tuple[str, float]]


class Campaigns:
    """Runs campaigns on one pair of databases.

    Args:
        folder: For manifests, logs and Dagster's own state.
        source: URL.
        target: URL.
    """

    def __init__(self, folder: Path, source: str, target: str) -> None:
        self._folder = folder
        own = {f"{ENVIRONMENT_PREFIX}{SOURCE_REF.upper()}": source, f"{ENVIRONMENT_PREFIX}{TARGET_REF.upper()}": target}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DPONE_")}
        self._home = folder / "dagster"
        self.environment = {**kept, **own, "DAGSTER_HOME": str(self._home)}

    def run(self, case: Case, contender: str) -> tuple[dict[str, float], dict[str, float]]:
        """Run one campaign to its end, as a user does; returns its measures and phases.

        Args:
            case: Its target is there and empty.
            contender: `ours` or `merge`.
        """
        manifest = self.manifest(case, contender)
        self.fresh_home()
        command = [DPONE, "backfill", "run", str(manifest), "--execute"]
        usage = run_measured(command, self.environment, self._folder / "run.log")
        chunks = self._chunks(manifest)
        pids = {chunk.worker.pid for chunk in chunks if chunk.worker is not None}
        moments = [_moments(chunk) for chunk in chunks]
        run, steps = self._run_and_steps()
        measures = {
            **of_usage(usage, pids),
            **of_chunks(moments),
            **_of_lanes(chunks),
            "run_start_to_first_claim_seconds": min(moments)[0] - run[0],
        }
        return measures, phases_of((usage.began, usage.began + usage.seconds), run, steps, moments)

    def manifest(self, case: Case, contender: str) -> Path:
        """Write the manifest of a case; returns its file."""
        file = self._folder / f"{contender}.yaml"
        write_manifest(case, contender, file)
        return file

    def fresh_home(self) -> None:
        """Dagster's state as on a host that has run campaigns before, without their events."""
        template = self._folder / "dagster-empty"
        if not template.exists():
            os.environ["DAGSTER_HOME"] = str(template)
            prepare_home()
            with DagsterInstance.get() as instance:
                instance.get_runs(limit=1)
        shutil.rmtree(self._home, ignore_errors=True)
        shutil.copytree(template, self._home)

    def _chunks(self, manifest: Path) -> Sequence[ChunkRecord]:
        spec = load_spec(manifest)
        connector = open_connector(spec, Connections.from_environment(self.environment))
        with target_session(connector, "bench") as target:
            return target.ledger.chunks(spec.run_key, EVERY_CHUNK)

    def _run_and_steps(self) -> tuple[Span, dict[str, Span]]:
        """When the run began and ended, and each of its steps."""
        with DagsterInstance.from_config(str(self._home)) as instance:
            (record,) = instance.get_run_records(limit=1)
            stats = instance.get_run_step_stats(record.dagster_run.run_id)
        if record.start_time is None or record.end_time is None:
            raise ValueError("Dagster's run has not ended")
        steps = {s.step_key: (s.start_time, s.end_time) for s in stats if s.start_time and s.end_time}
        return (record.start_time, record.end_time), steps


def phases_of(command: Span, run: Span, steps: Mapping[str, Span], chunks: Sequence[Span]) -> dict[str, float]:
    """Seconds from each mark of a campaign to the next; they add up to the command's.

    Args:
        command: Begin and end of the process.
        run: Of Dagster's run.
        steps: Of its steps, by key.
        chunks: Claim and commit of each.
    """
    marks: Marks = [("command, until Dagster's run starts", run[0])]
    for key, name in _BEFORE_LANES:
        marks += _marks_of(steps, key, name)
    lanes = [span for key, span in steps.items() if _LANE in key]
    marks += [
        ("lanes, their processes", min(began for began, _ in lanes)),
        ("lanes, to the first claim", min(began for began, _ in chunks)),
        ("first claim to last commit", max(ended for _, ended in chunks)),
        ("lanes, to their end", max(ended for _, ended in lanes)),
    ]
    for key, name in _AFTER_LANES:
        marks += _marks_of(steps, key, name)
    marks += [("run, to its end", run[1]), ("command, to its exit", command[1])]
    moments = [command[0], *(moment for _, moment in marks)]
    return {name: moment - before for (name, moment), before in zip(marks, moments, strict=False)}


def of_usage(usage: Usage, lanes: set[int]) -> dict[str, float]:
    """What was measured from outside.

    Args:
        usage: Of the command.
        lanes: Process ids of what moved the rows.
    """
    measures = {
        "seconds": usage.seconds,
        "client_cpu_seconds": sum(usage.cpu_seconds.values()),
        "peak_total_bytes": float(usage.peak_total_bytes),
    }
    seen = lanes & usage.peak_bytes.keys()
    if seen:
        measures["lane_peak_bytes"] = float(max(usage.peak_bytes[pid] for pid in seen))
        measures["lanes_cpu_seconds"] = sum(usage.cpu_seconds[pid] for pid in seen)
    return measures


def of_chunks(moments: Sequence[tuple[float, float]]) -> dict[str, float]:
    """From first claim to last commit, and how long chunks took.

    Args:
        moments: Begin and end of each.
    """
    ordered = sorted(moments)
    took = [ended - began for began, ended in ordered]
    measures = {
        "load_seconds": max(ended for _, ended in ordered) - ordered[0][0],
        "chunk_median_seconds": statistics.median(took),
        "chunk_max_seconds": max(took),
    }
    if (ends := deciles(took)) is not None:
        measures |= {"chunk_first_decile_seconds": ends[0], "chunk_last_decile_seconds": ends[1]}
    return measures


def _of_lanes(chunks: Sequence[ChunkRecord]) -> dict[str, float]:
    begun: dict[int, list[float]] = defaultdict(list)
    for began, lane in sorted((_moments(c)[0], c.worker.lane) for c in chunks if c.worker is not None):
        begun[lane].append(began)
    first, between = [claims[0] for claims in begun.values()], gaps(begun)
    measures = {"lanes_apart_seconds": max(first) - min(first)}
    return {**measures, "claim_to_claim_seconds": statistics.median(between)} if between else measures


def _moments(chunk: ChunkRecord) -> tuple[float, float]:
    if chunk.started_at is None or chunk.finished_at is None:
        raise ValueError(f"chunk {chunk.index} is not committed")
    return chunk.started_at.timestamp(), chunk.finished_at.timestamp()


def _marks_of(steps: Mapping[str, Span], key: str, name: str) -> Marks:
    found = next((span for step, span in steps.items() if step.endswith(key)), None)
    return [] if found is None else [(f"{name}, its process", found[0]), (f"{name}, its work", found[1])]
