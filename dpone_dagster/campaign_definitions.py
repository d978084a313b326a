"""One manifest → Dagster definitions: the assets of the campaign, its jobs, its schedule and its sensor."""

from __future__ import annotations

import os
from pathlib import Path

from dagster import AssetsDefinition, Definitions

from dpone_dagster.assets.incremental import build_incremental
from dpone_dagster.assets.publication import build_published_target, build_validated_shadow, build_xmin_handoff
from dpone_dagster.assets.shadow import build_shadow
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.jobs import campaign_job, executor_for, increment_job
from dpone_dagster.resources.connections import RESOURCE_NAME, DponeConnections
from dpone_dagster.schedules import increment_schedule
from dpone_dagster.sensors.first_increment import first_increment_sensor

_CONNECTIONS = DponeConnections()


def build_campaign(
    spec: CampaignSpec, manifest_path: Path, connections: DponeConnections = _CONNECTIONS
) -> Definitions:
    """Everything that Dagster shows of one campaign. Opens no connection.

    Args:
        spec: The campaign.
        manifest_path: Where it was read from; shown with the shadow.
        connections: Opens its connections when a step runs.
    """
    executor = executor_for([spec], os.environ)
    assets: list[AssetsDefinition] = [
        build_shadow(spec, manifest_path),
        build_validated_shadow(spec),
        build_published_target(spec),
    ]
    jobs, schedules, sensors = [campaign_job(spec, executor)], [], []
    if spec.handoff_id is not None:
        assets += [build_xmin_handoff(spec), build_incremental(spec)]
        jobs.append(increment_job(spec, executor))
        if due := increment_schedule(spec, jobs[-1]):
            schedules.append(due)
        if spec.increment.start == "after_handoff":
            sensors.append(first_increment_sensor(spec, jobs[-1]))
    return Definitions(
        assets=assets,
        jobs=jobs,
        schedules=schedules,
        sensors=sensors,
        resources={RESOURCE_NAME: connections},
    )
