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
from dpone_dagster.cli.dagster_run import prepare_home
from dpone_dagster.connections import ENVIRONMENT_PREFIX, Connections
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.settings import load_spec
from dpone_dagster.wiring import open_connector

DPONE = str(Path(sys.executable).with_name("dpone"))
_END_OF_STEP = (
    ("validated_shadow", "validation"),
    ("published_target", "publication"),
    ("xmin_handoff", "handoff"),
)


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
        phases = self._phases(usage, chunks)
        measures = {
            **of_usage(usage, pids),
            **of_chunks([_moments(chunk) for chunk in chunks]),
            **_of_lanes(chunks),
            "run_start_to_first_claim_seconds": phases["run start to first claim"],
        }
        return measures, phases

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

    def _phases(self, usage: Usage, chunks: Sequence[ChunkRecord]) -> dict[str, float]:
        moments = [_moments(chunk) for chunk in chunks]
        with DagsterInstance.from_config(str(self._home)) as instance:
            (record,) = instance.get_run_records(limit=1)
            steps = {stat.step_key: stat.end_time for stat in instance.get_run_step_stats(record.dagster_run.run_id)}
        marks: list[tuple[str, float | None]] = [
            ("command to run start", record.start_time),
            ("run start to first claim", min(began for began, _ in moments)),
            ("first claim to last commit", max(ended for _, ended in moments)),
            ("collect", _end_of(steps, "collect")),
            *((label, _end_of(steps, name)) for name, label in _END_OF_STEP),
            ("end of run", record.end_time),
            ("exit", usage.began + usage.seconds),
        ]
        return _differences(usage.began, marks)


def of_usage(usage: Usage, lanes: set[int]) -> dict[str, float]:
    """What was measured from outside.

    Args:
        usage: Of the command.
        lanes: Process ids of what moved the rows.
    """
    peaks = [bytes_ for pid, bytes_ in usage.peak_bytes.items() if pid in lanes]
    measures = {
        "seconds": usage.seconds,
        "client_cpu_seconds": usage.cpu_seconds,
        "peak_total_bytes": float(usage.peak_total_bytes),
    }
    return {**measures, "lane_peak_bytes": float(max(peaks))} if peaks else measures


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
    between = gaps(begun)
    return {"claim_to_claim_seconds": statistics.median(between)} if between else {}


def _moments(chunk: ChunkRecord) -> tuple[float, float]:
    if chunk.started_at is None or chunk.finished_at is None:
        raise ValueError(f"chunk {chunk.index} is not committed")
    return chunk.started_at.timestamp(), chunk.finished_at.timestamp()


def _end_of(steps: Mapping[str, float | None], name: str) -> float | None:
    ends = [end for key, end in steps.items() if end is not None and name in key]
    return max(ends, default=None)


def _differences(began: float, marks: Sequence[tuple[str, float | None]]) -> dict[str, float]:
    phases = {}
    for name, moment in marks:
        if moment is not None:
            phases[name], began = moment - began, moment
    return phases
