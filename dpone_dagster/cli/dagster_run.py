"""Execute one Dagster job of a manifest in this process, its steps as processes. The only module here with Dagster."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from dagster import (
    DagsterEvent,
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    Definitions,
    JobDefinition,
    RunsFilter,
    build_reconstructable_job,
    execute_job,
)

from dpone_dagster.assets.names import COMMAND_TAG
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.jobnames import retry_job_name
from dpone_dagster.campaign.overrides import AS_WRITTEN, RunOptions
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.campaign_definitions import build_manifest
from dpone_dagster.cli.failures import Failure, advice_of
from dpone_dagster.cli.instance import open_instance
from dpone_dagster.cli.terminal import output_to
from dpone_dagster.jobs import executor_for, retry_job
from dpone_dagster.settings import dagster_home, load_route

_CODED = re.compile(r"([A-Z][A-Z_]+): (.*)")
_HOST_TAG = "dpone/host"
_PID_TAG = "dpone/pid"
# Whoever gave the command sees how it ends, so no daemon is to try it again behind his back.
_TAGS = {"dagster/max_retries": "0"}
_UNFINISHED = [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]


@dataclass(frozen=True)
class JobRequest:
    """What to execute.

    Attributes:
        manifest: Absolute path, for the lanes are other processes.
        job: `<dataset>_campaign`, `<dataset>_retry_failed` or `<dataset>_increment`.
        command: `run`, `resume`, …: why there is a run; shown as a tag of it.
        log: Where everything that it prints goes; `start_steps` has made it.
        run_config: Of its steps.
        options: What the manifest is read with, in the lanes too.
    """

    manifest: Path
    job: str
    command: str
    log: Path
    run_config: Mapping[str, object] | None = None
    options: RunOptions = AS_WRITTEN


@dataclass(frozen=True)
class JobEnd:
    """How it ended.

    Attributes:
        run_id: Dagster's.
        success: Whether every step succeeded.
        interrupted: Whether SIGINT or SIGTERM came.
        log: Where the output is.
        failures: Of its steps.
        facts: Metadata of what the last step materialized.
    """

    run_id: str
    success: bool
    interrupted: bool
    log: Path
    failures: tuple[Failure, ...]
    facts: Mapping[str, object] = field(default_factory=dict)


def run_job(request: JobRequest) -> JobEnd:
    """Execute the job to its end; everything that Dagster and the lanes print goes to the run's log.

    Args:
        request: What to execute.
    """
    _built.cache_clear()  # of a run before, whose manifest may have been another
    mine = {_HOST_TAG: socket.gethostname(), _PID_TAG: str(os.getpid())}
    with output_to(request.log), open_instance(dagster_home()) as instance, _interrupts(instance, mine) as interrupted:
        _close_dead_runs(instance, request.job)
        arguments = {"manifest": str(request.manifest), "job": request.job, "options": request.options.as_dict()}
        job = build_reconstructable_job(__name__, "build_job", reconstructable_kwargs=arguments)
        tags = {**_TAGS, COMMAND_TAG: request.command, **mine}
        result = execute_job(job, instance, tags=tags, run_config=request.run_config)
        failures = () if result.success else _step_failures(instance, result.run_id)
        facts = _last_facts(instance, result.run_id) if result.success else {}
        return JobEnd(result.run_id, result.success, interrupted(), request.log, failures, facts)


def build_job(manifest: str, job: str, options: Mapping[str, Any]) -> JobDefinition:
    """The job of a manifest; every step process builds it anew by this function.

    Args:
        manifest: Path of the manifest.
        job: Its name.
        options: What the manifest is read with.
    """
    return _built(manifest, job, json.dumps(options))


@lru_cache(maxsize=1)
def _built(manifest: str, job: str, options: str) -> JobDefinition:
    """Dagster asks for it several times a run, and twice a step."""
    spec = load_route(Path(manifest), RunOptions.from_dict(json.loads(options)))
    definitions = build_manifest(spec, Path(manifest))
    if isinstance(spec, CampaignSpec) and job == retry_job_name(spec):
        # Not among the project's own jobs: without the flags' retry policy it would load every chunk.
        retry = retry_job(spec, executor_for([spec], os.environ))
        definitions = Definitions.merge(definitions, Definitions(jobs=[retry]))
    return definitions.resolve_job_def(job)


@contextlib.contextmanager
def _interrupts(instance: DagsterInstance, mine: Mapping[str, str]) -> Iterator[Callable[[], bool]]:
    """Tells whether SIGINT or SIGTERM came, whichever handler Dagster has set meanwhile.

    Dagster calls an interrupted run failed unless it knows that the run is being cancelled, so that is said at once.
    """
    told = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(reader, told, instance, mine), name="dpone-interrupts", daemon=True)
    watch.start()
    try:
        yield told.is_set
    finally:
        signal.set_wakeup_fd(before)
        writer.close()
        watch.join()
        reader.close()


def _watch(reader: socket.socket, told: threading.Event, instance: DagsterInstance, mine: Mapping[str, str]) -> None:
    while numbers := reader.recv(4096):
        if not told.is_set() and not {signal.SIGINT, signal.SIGTERM}.isdisjoint(numbers):
            told.set()
            for run in instance.get_runs(RunsFilter(statuses=_UNFINISHED, tags=mine)):
                instance.report_run_canceling(run, "the command was told to stop")


def _last_facts(instance: DagsterInstance, run_id: str) -> Mapping[str, object]:
    """Of the last materialization only: a campaign has one for each of its partitions."""
    kind = DagsterEventType.ASSET_MATERIALIZATION
    records = instance.get_records_for_run(run_id, of_type=kind, limit=1, ascending=False).records
    event = records[0].event_log_entry.get_dagster_event() if records else None
    metadata = event.step_materialization_data.materialization.metadata if event else {}
    return {name: fact.value for name, fact in metadata.items() if not name.startswith("dagster/")}


def _step_failures(instance: DagsterInstance, run_id: str) -> tuple[Failure, ...]:
    records = instance.all_logs(run_id, of_type=DagsterEventType.STEP_FAILURE)
    return tuple(_step_failure(record.get_dagster_event()) for record in records)


def _step_failure(event: DagsterEvent | None) -> Failure:
    if event is None or event.step_key is None:
        return Failure("run", DponeError.code, "a step failed without saying which", DponeError.next_step)
    data = event.step_failure_data
    told = data.user_failure_data
    message = (told.description if told else None) or (data.error.message if data.error else "") or "it gave no reason"
    code, text = _parted(message.strip().splitlines()[0])
    advice = told.metadata.get("next_step") if told else None
    return Failure(event.step_key, code, text, str(advice.value) if advice else advice_of(code))


def _parted(line: str) -> tuple[str, str]:
    """Code and message of an error's first line."""
    match = _CODED.fullmatch(line)
    return (match[1], match[2]) if match else (DponeError.code, line)


# ---------------------------------------------------------------- runs whose process died


def _close_dead_runs(instance: DagsterInstance, job: str) -> None:
    """Runs of this command that were killed would stay "started" for ever, and keep their lanes' slots."""
    mine = RunsFilter(job_name=job, statuses=_UNFINISHED, tags={_HOST_TAG: socket.gethostname()})
    for run in instance.get_runs(mine):
        if _alive(int(run.tags[_PID_TAG])):
            continue
        instance.report_run_failed(run, "the process that executed this run is gone")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
