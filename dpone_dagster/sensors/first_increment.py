"""Starts the first increment as soon as the handoff is materialized, instead of at the next tick of the cron."""

from __future__ import annotations

from dagster import (
    AssetKey,
    DefaultSensorStatus,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from dpone_dagster.campaign.jobnames import increment_job_name
from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.resources.connections import DponeConnections
from dpone_dagster.schedules import held_up


def first_increment_sensor(spec: RouteSpec, handoff: AssetKey, job: UnresolvedAssetJobDefinition) -> SensorDefinition:
    """One run for each generation whose handoff this instance has materialized. The cursor is the last generation.

    Args:
        spec: The campaign, or its increments.
        handoff: The campaign's `xmin_handoff`.
        job: One increment.
    """

    @sensor(
        job=job,
        name=f"{increment_job_name(spec)}_after_handoff",
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"The first increment of `{spec.target}`, as soon as the handoff is there.",
    )
    def handed_over(context: SensorEvaluationContext, dpone_connections: DponeConnections) -> SkipReason | RunRequest:
        event = context.instance.get_latest_materialization_event(handoff)
        shown = event.asset_materialization if event else None
        if shown is None:
            return SkipReason("the handoff is not materialized yet")
        generation = str(shown.metadata["generation"].value)
        if generation == context.cursor:
            return SkipReason(f"the first increment of generation {generation} was started")
        if reason := held_up(context.instance, spec, dpone_connections.connector(spec)):
            return SkipReason(reason)
        context.update_cursor(generation)
        return RunRequest(run_key=generation)

    return handed_over
