"""The schedule of the increments: by the manifest's cron, skipped with the reason until the handoff is there."""

from dagster import (
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

from dpone_dagster.assets.names import increment_job_name
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.increment import increment_gate
from dpone_dagster.resources.connections import DponeConnections


def increment_schedule(spec: CampaignSpec, cron: str, job: UnresolvedAssetJobDefinition) -> ScheduleDefinition:
    """When increments run. On from the start: until the handoff is there each tick says why it was skipped.

    Args:
        spec: The campaign.
        cron: Five fields.
        job: One increment; its body proves the gate again.
    """

    @schedule(
        job=job,
        name=f"{increment_job_name(spec)}_schedule",
        cron_schedule=cron,
        execution_timezone=spec.increment.timezone,
        default_status=DefaultScheduleStatus.RUNNING,
        description=f"Increments of `{spec.target}`, once the handoff is committed.",
    )
    def increments_due(
        context: ScheduleEvaluationContext, dpone_connections: DponeConnections
    ) -> SkipReason | RunRequest:
        before = RunsFilter(job_name=increment_job_name(spec), statuses=NOT_FINISHED_STATUSES)
        if running := context.instance.get_run_records(before, limit=1):
            return SkipReason(f"the increment before is not finished: run {running[0].dagster_run.run_id}")
        reason = increment_gate(spec, dpone_connections.connector(spec))
        return SkipReason(reason) if reason else RunRequest()

    return increments_due
