"""The schedule of the increments: by the manifest's crons, skipped with the reason until one may run."""

from __future__ import annotations

from datetime import datetime

from dagster import (
    DagsterInstance,
    DefaultScheduleStatus,
    RunRequest,
    RunsFilter,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    schedule,
)
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._utils.schedules import schedule_execution_time_iterator

from dpone_dagster.assets.incremental import comparing
from dpone_dagster.campaign.jobnames import increment_job_name
from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.engine.increment import increment_gate
from dpone_dagster.ports.target import Connector
from dpone_dagster.resources.connections import DponeConnections


def increment_schedule(spec: RouteSpec, job: UnresolvedAssetJobDefinition) -> ScheduleDefinition | None:
    """When increments run. On from the start: until the handoff is there each tick says why it was skipped.

    Both crons make one schedule, so that a tick of both is one increment, which reconciles.

    Args:
        spec: The campaign.
        job: One increment; its body proves the gate again.

    Returns:
        None where the manifest names no cron.
    """
    policy = spec.increment
    crons = [cron for cron in (policy.cron, policy.reconcile_cron) if cron is not None]
    if not crons:
        return None

    @schedule(
        job=job,
        name=f"{increment_job_name(spec)}_schedule",
        cron_schedule=crons[0] if len(crons) == 1 else crons,
        execution_timezone=policy.timezone,
        default_status=DefaultScheduleStatus.RUNNING,
        description=f"Increments of `{spec.target}`, once the handoff is committed.",
    )
    def increments_due(
        context: ScheduleEvaluationContext, dpone_connections: DponeConnections
    ) -> SkipReason | RunRequest:
        if reason := held_up(context.instance, spec, dpone_connections.connector(spec)):
            return SkipReason(reason)
        if policy.reconcile_cron and _ticks(policy.reconcile_cron, policy.timezone, context.scheduled_execution_time):
            return RunRequest(run_config=comparing(spec, "keys"))
        return RunRequest()

    return increments_due


def held_up(instance: DagsterInstance, spec: RouteSpec, connector: Connector) -> str | None:
    """Why no increment is to be started now; None if one may be.

    Args:
        instance: Knows the runs that are not finished.
        spec: The campaign.
        connector: Opens the connection to the database, which decides.
    """
    before = RunsFilter(job_name=increment_job_name(spec), statuses=NOT_FINISHED_STATUSES)
    if running := instance.get_run_records(before, limit=1):
        return f"the increment before is not finished: run {running[0].dagster_run.run_id}"
    return increment_gate(spec, connector)


def _ticks(cron: str, timezone: str, at: datetime) -> bool:
    return next(schedule_execution_time_iterator(at.timestamp(), cron, timezone)) == at
