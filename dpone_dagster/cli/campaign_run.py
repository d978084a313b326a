"""`dpone backfill run --execute` and `resume`: prepare here, so that refusals come out clean; then the Dagster job."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpone_dagster.campaign.errors import ChunkFailed, Interrupted, StoppedByPeer, ValidationBlocked
from dpone_dagster.campaign.ledger import CampaignRecord, Phase
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.cli.failures import Failure, advice_of
from dpone_dagster.cli.looking import headline, open_campaign, operator, report_of, window_notes
from dpone_dagster.cli.report import Report, Table, command, pasteable
from dpone_dagster.engine import inspect
from dpone_dagster.engine.inspect import CampaignStatus
from dpone_dagster.engine.prepare import prepare

Intent = Literal["run", "resume"]
_FOLLOWS_FROM_A_CHUNK = (ChunkFailed.code, StoppedByPeer.code)


@dataclass(frozen=True)
class RunOutcome:
    """What a run came to.

    Attributes:
        success: Whether everything that was asked for is done.
        run_id: The Dagster run; None if there was nothing left to do.
        log: Where Dagster's own output is; None likewise.
        seconds: From the command to the end.
        status: The campaign afterwards.
        failures: What went wrong.
    """

    success: bool
    run_id: str | None
    log: Path | None
    seconds: float
    status: CampaignStatus
    failures: tuple[Failure, ...] = ()


def run_campaign(manifest: Path, intent: Intent) -> RunOutcome:
    """Take a campaign from where it is to its end, as one Dagster run of this process and its lanes.

    Args:
        manifest: The manifest's file.
        intent: `run` starts or continues; `resume` also takes up a cancelled campaign.

    Raises:
        Refused: One of its kinds; nothing was touched.
        CampaignActive: Another run holds the campaign.
        Interrupted: SIGINT or SIGTERM; the lanes have given their chunks back.
    """
    started = time.monotonic()
    spec, connector = open_campaign(manifest)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # a shell may have passed on an ignored SIGINT
    record = prepare(spec, connector, intent=intent, run_id=operator())
    if _finished(spec, record):
        return RunOutcome(True, None, None, time.monotonic() - started, inspect.status(spec, connector))

    from dpone_dagster.cli.dagster_run import JobRequest, run_job
    from dpone_dagster.cli.display import show_on, watching
    from dpone_dagster.cli.terminal import own_stderr

    with own_stderr() as terminal, watching(spec, connector, show_on(spec, terminal)):
        end = run_job(JobRequest(manifest.resolve(), f"{spec.dataset}_campaign", intent))
    if end.interrupted:
        raise Interrupted(f"run {end.run_id} of {spec.dataset} was told to stop; what is committed stays committed")
    status = inspect.status(spec, connector)
    failures = () if end.success else _failures(status, end.failures)
    return RunOutcome(end.success, end.run_id, end.log, time.monotonic() - started, status, failures)


def _finished(spec: CampaignSpec, record: CampaignRecord) -> bool:
    return record.phase is Phase.HANDOFF_COMMITTED or (record.phase is Phase.PUBLISHED and spec.handoff_id is None)


def _failures(status: CampaignStatus, steps: tuple[Failure, ...]) -> tuple[Failure, ...]:
    """Chunks and checks from the ledger, which knows each one's cause; then the steps that say something else."""
    chunks = tuple(
        Failure(f"chunk {c.index}", c.error_code or "", c.error or str(c.effective_state), advice_of(c.error_code))
        for c in status.failed
    )
    checks = tuple(Failure(f.path, ValidationBlocked.code, f.problem, f.advice) for f in status.blocking)
    known = (*(_FOLLOWS_FROM_A_CHUNK if chunks else ()), *((ValidationBlocked.code,) if checks else ()))
    return (*chunks, *checks, *(step for step in steps if step.code not in known))


def run_report(manifest: Path, intent: Intent) -> Report:
    """Run a campaign and report what it came to."""
    outcome = run_campaign(manifest, intent)
    return outcome_report(outcome, manifest)


def outcome_report(outcome: RunOutcome, manifest: Path) -> Report:
    """An outcome as a report."""
    status = report_of(outcome.status, manifest)
    failures = [{**f.as_dict(), "next_step": pasteable(f.advice, manifest)} for f in outcome.failures]
    run: Mapping[str, object] = {
        "outcome": "done" if outcome.success else "failed",
        "run_id": outcome.run_id,
        "log": str(outcome.log) if outcome.log else None,
        "seconds": round(outcome.seconds, 1),
        "failures": failures,
    }
    tables = status.tables[:1]
    if failures:
        rows = tuple((f["place"], f["code"], f["message"], f["next_step"]) for f in failures)
        tables = (Table(("where", "code", "what", "advice"), rows),)
    next_commands = (command("backfill", "status", manifest),) if outcome.success else status.next_commands
    return Report(
        headline=_outcome_line(outcome),
        data={**run, **status.data},
        tables=tables,
        notes=(
            *window_notes(outcome.status.spec, manifest),
            *((f"Dagster's log: {outcome.log}",) if outcome.log else ()),
        ),
        next_commands=next_commands,
        exit_code=0 if outcome.success else 1,
    )


def _outcome_line(outcome: RunOutcome) -> str:
    line = headline(outcome.status)
    if outcome.run_id is None:
        return f"nothing to do, the campaign is finished: {line}"
    return f"{line} ({'done' if outcome.success else 'FAILED'} in {outcome.seconds:.1f} s)"
