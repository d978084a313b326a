"""Tells people of runs that failed or were stopped: with the failed chunk, its error code and what to do.

Dagster's own run status sensors go on behind a run whose message failed, and would lose it. So this one reads the same
events with a cursor of its own, which only moves with what was kept or sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

from dagster import (
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
    DefaultSensorStatus,
    RunsFilter,
    RunStatusChangeRecordsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)
from dagster._core.event_api import RunStatusChangeEventType
from dagster._core.storage.tags import WILL_RETRY_TAG
from pydantic import TypeAdapter, ValidationError

from dpone_dagster.campaign.alerts import Alert, Watch
from dpone_dagster.campaign.errors import DponeError, next_step_of
from dpone_dagster.campaign.jobnames import campaign_job_name, increment_job_name
from dpone_dagster.campaign.ledger import ChunkRecord
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec
from dpone_dagster.engine.inspect import CampaignStatus
from dpone_dagster.engine.notify import notify
from dpone_dagster.engine.watch import statuses
from dpone_dagster.resources.connections import DponeConnections
from dpone_dagster.resources.notifier import DponeNotifier
from dpone_dagster.sensors.ticks import end_tick

RUN_FAILURES_NAME = "dpone_run_failures"
_RUNS_A_TICK = 25
_SHOWN = 3
_LONGEST = 300
_AGAIN = "Re-execute the run in Dagster, or materialize its partitions again."
_WORDS = {DagsterEventType.RUN_FAILURE: "run_failed", DagsterEventType.RUN_CANCELED: "run_canceled"}


@dataclass(frozen=True)
class _Position:
    """The cursor: up to which event of each kind was read, and what is unsent."""

    after: Mapping[str, int] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)


_CURSOR = TypeAdapter(_Position)


def run_failures_sensor(specs: Sequence[RouteSpec]) -> SensorDefinition:
    """One alert a run of this project's campaigns and increments that failed or was stopped.

    Args:
        specs: All manifests of the project.
    """

    @sensor(
        name=RUN_FAILURES_NAME,
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        description="Tells people of failed and stopped runs, with chunk, error code and next step.",
    )
    def failed_runs(
        context: SensorEvaluationContext, dpone_connections: DponeConnections, dpone_notifier: DponeNotifier
    ) -> SkipReason:
        before = _position(context)
        if before is None:
            return SkipReason("runs that end from now on are told of")
        channels, ended, last = dpone_notifier.channels(), list[_Ended](), dict[str, int]()
        for kind, word in _WORDS.items():
            runs, last[kind.value] = _ended(context.instance, kind, before.after[kind.value])
            ours = [(at, run) for at, run in runs if _is_ours(context, run)]
            ended += [_Ended(run, word, at, spec) for at, run in ours for spec in specs if _works_on(run, spec)]
        seen = statuses(_loads_of(ended), dpone_connections.connector)
        alerts = [_alert(context.instance, each, seen.get(each.spec.dataset)) for each in ended]
        watch, unsent = notify(before.watch.telling(alerts, [channel.name for channel in channels]), channels)
        after = _Position(last, watch)
        return end_tick(context, watch, _CURSOR.dump_json(after).decode(), moved=after != before, unsent=unsent)

    return failed_runs


def _position(context: SensorEvaluationContext) -> _Position | None:
    """Where the tick before stopped; None at the first one, which only takes its place behind all there is."""
    if context.cursor is not None:
        try:
            return _CURSOR.validate_json(context.cursor)
        except ValidationError:
            context.log.warning("the cursor cannot be read; starting anew")
    last: dict[str, int] = {}
    for kind in _WORDS:
        newest = context.instance.fetch_run_status_changes(kind, limit=1).records
        last[kind.value] = newest[0].storage_id if newest else 0
    context.update_cursor(_CURSOR.dump_json(_Position(last)).decode())
    return None


def _ended(
    instance: DagsterInstance, kind: DagsterEventType, after: int
) -> tuple[list[tuple[datetime, DagsterRun]], int]:
    """Runs that ended this way, oldest first; and the last event that was read."""
    asked = RunStatusChangeRecordsFilter(cast("RunStatusChangeEventType", kind), after_storage_id=after)
    records = instance.fetch_run_status_changes(asked, limit=_RUNS_A_TICK, ascending=True).records
    ids = [record.event_log_entry.run_id for record in records]
    runs = {run.run_id: run for run in instance.get_runs(RunsFilter(run_ids=ids))} if ids else {}
    found = [
        (datetime.fromtimestamp(record.timestamp, UTC), runs[record.event_log_entry.run_id])
        for record in records
        if record.event_log_entry.run_id in runs
    ]
    return found, records[-1].storage_id if records else after


@dataclass(frozen=True)
class _Ended:
    """A run that ended badly, and one of the manifests that it works on."""

    run: DagsterRun
    word: str
    at: datetime
    spec: RouteSpec

    @property
    def load(self) -> CampaignSpec | None:
        """The manifest's campaign, if it is that which the run works on."""
        of_increment = self.run.job_name == increment_job_name(self.spec)
        return self.spec if isinstance(self.spec, CampaignSpec) and not of_increment else None


def _loads_of(ended: Sequence[_Ended]) -> list[CampaignSpec]:
    """Each campaign once."""
    loads = (each.load for each in ended)
    return list({load.dataset: load for load in loads if load is not None and load.interval is None}.values())


def _alert(instance: DagsterInstance, ended: _Ended, seen: CampaignStatus | DponeError | None) -> Alert:
    problem, next_step = _told(instance, ended, seen)
    run, at = ended.run, ended.at
    return Alert(
        "reported", run.run_id, ended.spec.dataset, ended.word, problem, next_step, "docs/runbook.md", since=at, at=at
    )


def _told(instance: DagsterInstance, ended: _Ended, seen: CampaignStatus | DponeError | None) -> tuple[str, str]:
    """What happened and what to do."""
    run = ended.run
    what = f"{run.job_name} run {run.run_id} {'failed' if ended.word == 'run_failed' else 'was stopped'}"
    if run.tags.get(WILL_RETRY_TAG) == "true":
        what += " and is started again by Dagster"
    if seen is None:
        found, codes = _steps(instance, run)
        doctor = "Doctor says: `dpone increment status MANIFEST`"
        return _joined(what, found), _advice(codes, doctor if ended.load is None else _AGAIN)
    if isinstance(seen, DponeError):  # that a run failed is told all the same
        found, codes = _steps(instance, run)
        found.append(f"the ledger cannot be read: {seen.code}: {seen.message}")
        return _joined(what, found), _advice(codes, "Doctor says: `dpone backfill doctor MANIFEST`")
    failed = [chunk for chunk in seen.failed if chunk.failed_run_id == run.run_id]
    doctor = f"Doctor says: {seen.recommended_action}"
    if failed:
        return _joined(what, _chunks(failed)), f"{seen.advice_on(failed[0])} {doctor}"
    found, codes = _steps(instance, run)
    return _joined(what, found), _advice(codes, doctor)


def _is_ours(context: SensorEvaluationContext, run: DagsterRun) -> bool:
    """Whether the run is of this sensor's own code location."""
    origin = run.remote_job_origin.repository_origin if run.remote_job_origin else None
    if origin is None or context.code_location_origin is None:
        return origin is None and context.code_location_origin is None
    location = origin.code_location_origin.location_name
    return (location, origin.repository_name) == (context.code_location_origin.location_name, context.repository_name)


def _works_on(run: DagsterRun, spec: RouteSpec) -> bool:
    """By its job, or, for what the UI's *Materialize* and backfills start, by its assets."""
    if run.asset_selection:
        return any(key.path[0] == spec.dataset for key in run.asset_selection)
    jobs = [increment_job_name(spec)]
    if isinstance(spec, CampaignSpec):
        jobs.append(campaign_job_name(spec))
    return run.job_name in jobs


def _chunks(failed: Sequence[ChunkRecord]) -> list[str]:
    """What happened to each of the first chunks."""
    found = [f"chunk {c.index}: {c.error_code}: {_short(c.error or '')}" for c in failed[:_SHOWN]]
    if len(failed) > _SHOWN:
        found.append(f"and {len(failed) - _SHOWN} more chunks")
    return found


def _steps(instance: DagsterInstance, run: DagsterRun) -> tuple[list[str], list[str]]:
    """What each of the first failed steps says; and their error codes. Never an unknown error's own text."""
    found: list[str] = []
    codes: list[str] = []
    for entry in instance.all_logs(run.run_id, of_type=DagsterEventType.STEP_FAILURE):
        data = entry.dagster_event.step_failure_data if entry.dagster_event else None
        if data is None:
            continue
        shown = data.user_failure_data
        code = str(shown.metadata["code"].value) if shown and "code" in shown.metadata else ""
        words = _short(shown.description or "") if shown and code else ""
        found.append(f"step {entry.step_key}: {words or (data.error.cls_name if data.error else 'failed')}")
        codes += [code] if code else []
    return found[:_SHOWN], codes


def _advice(codes: Sequence[str], last: str) -> str:
    """What the first error's kind wants, and a last word."""
    steps = (step for code in codes if (step := next_step_of(code)) is not None)
    return " ".join([*(first for first in [next(steps, None)] if first), last])


def _joined(what: str, found: Sequence[str]) -> str:
    return f"{what}: {'; '.join(found)}" if found else what


def _short(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
