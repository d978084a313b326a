"""`dpone backfill run --execute` and `resume`: prepare here, so that refusals come out clean; then the Dagster job."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dpone_dagster.cli.dagster_run import JobRequest

from dpone_dagster.campaign.errors import CampaignActive, ChunkFailed, Interrupted, StoppedByPeer, ValidationBlocked
from dpone_dagster.campaign.jobnames import campaign_job_name
from dpone_dagster.campaign.ledger import FINISHED, CampaignRecord, Phase
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.cli.ahead import prove_home, start_steps
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.evidence import evidence_path, put_evidence
from dpone_dagster.cli.failures import Failure
from dpone_dagster.cli.looking import (
    backfill_dict,
    headline,
    open_campaign,
    operator,
    report_of,
    window_notes,
)
from dpone_dagster.cli.report import Report, Table, command, pasteable
from dpone_dagster.cli.terminal import let_signals_interrupt, own_stderr
from dpone_dagster.engine import inspect
from dpone_dagster.engine.inspect import CampaignStatus
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.ports.target import Connector
from dpone_dagster.settings import load_route

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
        selected: How many chunks were asked for.
        failures: What went wrong.
    """

    success: bool
    run_id: str | None
    log: Path | None
    seconds: float
    status: CampaignStatus
    selected: int
    failures: tuple[Failure, ...] = ()

    @property
    def word(self) -> str:
        """The outcome of the operation, which is not that of the campaign."""
        if self.run_id is None:
            return "nothing_to_do"
        return "succeeded" if self.success else "failed"

    @property
    def exit_code(self) -> int:
        """3 where nothing of its own is wrong and somebody else was at work: it may come after the checks here."""
        if self.success:
            return 0
        held = any(failure.code == CampaignActive.code for failure in self.failures)
        broken = any(chunk.failed_run_id == self.run_id for chunk in self.status.failed)
        return CampaignActive.exit_code if held and not broken else 1


def run_campaign(manifest: Asked, intent: Intent) -> RunOutcome:
    """Take a campaign from where it is to its end, as one Dagster run of this process and its lanes.

    Args:
        manifest: What is asked for.
        intent: `run` starts or continues; `resume` also takes up a cancelled campaign.

    Raises:
        Refused: One of its kinds; nothing was touched.
        CampaignActive: Another run holds the campaign.
        Interrupted: SIGINT or SIGTERM; the lanes have given their chunks back.
    """
    started = time.monotonic()
    spec, connector = open_campaign(manifest)
    let_signals_interrupt()
    prove_home()
    record = prepare(spec, connector, intent=intent, run_id=operator())
    if _finished(spec, record):
        status = inspect.status(spec, connector)
        return RunOutcome(True, None, None, time.monotonic() - started, status, spec.plan.count)

    job = campaign_job_name(spec)
    log = start_steps(job)
    from dpone_dagster.cli.dagster_run import JobRequest

    request = JobRequest(manifest.path.resolve(), job, intent, log, options=manifest.options)
    return run_shown(spec, connector, request, spec.plan.count)


def run_shown(spec: CampaignSpec, connector: Connector, request: JobRequest, selected: int) -> RunOutcome:
    """Execute a job of the campaign and show its progress meanwhile.

    Args:
        spec: The campaign.
        connector: Opens its connections.
        request: The job.
        selected: How many chunks it is to load.

    Raises:
        Interrupted: SIGINT or SIGTERM; the lanes have given their chunks back.
    """
    from dpone_dagster.cli.dagster_run import run_job
    from dpone_dagster.cli.display import show_on, watching

    started = time.monotonic()
    with own_stderr() as terminal, watching(spec, connector, show_on(spec, terminal)) as seen:
        end = run_job(request)
    if end.interrupted:
        raise Interrupted(f"run {end.run_id} of {spec.dataset} was told to stop; what is committed stays committed")
    status = seen() or inspect.status(spec, connector)
    failures = () if end.success else _failures(status, end.failures)
    return RunOutcome(end.success, end.run_id, end.log, time.monotonic() - started, status, selected, failures)


def _finished(spec: CampaignSpec, record: CampaignRecord) -> bool:
    return record.phase is Phase.HANDOFF_COMMITTED or (record.phase is Phase.PUBLISHED and spec.handoff_id is None)


def _failures(status: CampaignStatus, steps: tuple[Failure, ...]) -> tuple[Failure, ...]:
    """Chunks and checks from the ledger, which knows each one's cause; then the steps that say something else."""
    chunks = tuple(
        Failure(f"chunk {c.index}", c.error_code or "", c.error or str(c.effective_state), status.advice_on(c))
        for c in status.failed
    )
    checks = tuple(Failure(f.path, ValidationBlocked.code, f.problem, f.advice) for f in status.blocking)
    known = (*(_FOLLOWS_FROM_A_CHUNK if chunks else ()), *((ValidationBlocked.code,) if checks else ()))
    return (*chunks, *checks, *(step for step in steps if step.code not in known))


def run_anything(manifest: Asked) -> Report:
    """Do what the manifest is for: its campaign, or one increment."""
    if isinstance(load_route(manifest.path, manifest.options), CampaignSpec):
        return run_report(manifest, "run")
    from dpone_dagster.cli.increment_run import increment_report

    return increment_report(manifest, "policy")


def run_report(manifest: Asked, intent: Intent) -> Report:
    """Run a campaign and report what it came to."""
    return outcome_report(run_campaign(manifest, intent), manifest)


def outcome_report(outcome: RunOutcome, manifest: Asked) -> Report:
    """An outcome as a report, which is also left as evidence."""
    status = report_of(outcome.status, manifest)
    failures = [{**f.as_dict(), "next_step": pasteable(f.advice, manifest)} for f in outcome.failures]
    evidence = evidence_path(manifest, outcome.status.spec)
    run: dict[str, object] = {
        "outcome": "done" if outcome.success else "failed",
        "run_id": outcome.run_id,
        "log": str(outcome.log) if outcome.log else None,
        "evidence": str(evidence) if outcome.run_id else None,
        "seconds": round(outcome.seconds, 1),
        "failures": failures,
        **status.data,
    }
    operation = {"operation_status": outcome.word, "selected_chunks": outcome.selected}
    run["backfill"] = {**backfill_dict(outcome.status, manifest), **operation}
    tables = status.tables[:1]
    if failures:
        rows = tuple((f["place"], f["code"], f["message"], f["next_step"]) for f in failures)
        tables = (Table(("where", "code", "what", "advice"), rows),)
    return Report(
        headline=_outcome_line(outcome),
        heartbeat=status.heartbeat,
        data=run,
        tables=tables,
        notes=(*window_notes(outcome.status.spec, manifest), *_files(outcome, evidence, run)),
        next_commands=_next_commands(outcome, status, manifest),
        exit_code=outcome.exit_code,
    )


def _files(outcome: RunOutcome, evidence: Path, facts: Mapping[str, object]) -> tuple[str, ...]:
    """Where log and evidence are; a run that is done stays done where its evidence cannot be written."""
    if outcome.run_id is None:
        return ()
    try:
        put_evidence(evidence, facts)
        left = f"Evidence: {evidence}"
    except OSError as error:
        left = f"The evidence could not be written to {evidence}: {error.strerror}"
    return f"Dagster's log: {outcome.log}", left


def _next_commands(outcome: RunOutcome, status: Report, manifest: Asked) -> tuple[str, ...]:
    if outcome.success and outcome.status.phase in FINISHED:
        return (command("backfill", "status", manifest),)
    # The advice may be a sentence, which stands among the notes; a failure ends with a command all the same.
    return status.next_commands or (command("backfill", "doctor", manifest),)


def _outcome_line(outcome: RunOutcome) -> str:
    line = headline(outcome.status)
    if outcome.run_id is None:
        return f"nothing to do, the campaign is finished: {line}"
    return f"{line} ({'done' if outcome.success else 'FAILED'} in {outcome.seconds:.1f} s)"
