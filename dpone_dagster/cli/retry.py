"""`dpone backfill retry-failed`: the chunks that have failed, and only those."""

from __future__ import annotations

import time

from dpone_dagster.campaign.jobnames import retry_job_name
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.cli.ahead import prove_home, start_steps
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.campaign_run import RunOutcome, outcome_report, run_shown
from dpone_dagster.cli.looking import backfill_dict, headline, open_campaign, operator, report_of
from dpone_dagster.cli.report import Report, command
from dpone_dagster.cli.terminal import let_signals_interrupt
from dpone_dagster.engine import inspect
from dpone_dagster.engine.inspect import CampaignStatus
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.sessions import prepared_campaign, target_session
from dpone_dagster.ports.target import Connector

_ONLY_FAILED = {"retry_policy": "failed_only"}


def retry_preview(manifest: Asked) -> Report:
    """Which chunks a retry would load. Changes nothing.

    Args:
        manifest: What is asked for.

    Raises:
        CampaignMissing: There is no campaign yet.
        PlanDrift: The manifest, or its flags, are not what it was prepared with.
    """
    only_failed = manifest.having(_ONLY_FAILED)
    spec, connector = open_campaign(only_failed)
    status = _existing(spec, connector)
    seen = report_of(status, only_failed)
    count = status.progress.failed
    operation = {"operation_status": "dry_run", "selected_chunks": count}
    again = (command("backfill", "retry-failed", manifest, "--execute"),) if count else seen.next_commands
    return Report(
        headline=f"dry run, nothing was touched. {_chunks(count)} would be loaded again: {headline(status)}",
        data={"dry_run": True, **seen.data, "backfill": {**backfill_dict(status, only_failed), **operation}},
        tables=seen.tables[1:2] if count else (),
        next_commands=again,
    )


def retry_report(manifest: Asked) -> Report:
    """Load the failed chunks again, as a Dagster run of this process and its lanes.

    Args:
        manifest: What is asked for.

    Raises:
        CampaignMissing: There is no campaign yet.
        PlanDrift: The manifest, or its flags, are not what it was prepared with.
        Refused: As `run`.
        CampaignActive: Another run holds the campaign.
        Interrupted: SIGINT or SIGTERM; the lanes have given their chunks back.
    """
    started = time.monotonic()
    only_failed = manifest.having(_ONLY_FAILED)
    spec, connector = open_campaign(only_failed)
    status = _existing(spec, connector)
    count = status.progress.failed
    if not count:
        return _nothing(RunOutcome(True, None, None, time.monotonic() - started, status, 0), only_failed)
    let_signals_interrupt()
    prove_home()
    prepare(spec, connector, intent="run", run_id=operator())

    job = retry_job_name(spec)
    log = start_steps(job)
    from dpone_dagster.cli.dagster_run import JobRequest

    request = JobRequest(manifest.path.resolve(), job, "retry-failed", log, options=only_failed.options)
    outcome = run_shown(spec, connector, request, count)
    return outcome_report(outcome, only_failed)


def _nothing(outcome: RunOutcome, manifest: Asked) -> Report:
    report = outcome_report(outcome, manifest)
    return Report(
        headline=f"nothing to do, no chunk has failed: {headline(outcome.status)}",
        data=report.data,
        next_commands=report.next_commands,
    )


def _existing(spec: CampaignSpec, connector: Connector) -> CampaignStatus:
    with target_session(connector, "retry") as target:
        prepared_campaign(spec, target)
    return inspect.status(spec, connector)


def _chunks(count: int) -> str:
    return f"{count:,} chunk{'' if count == 1 else 's'}"
