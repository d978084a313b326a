"""One manifest → Dagster definitions: the assets of the campaign, its jobs, its schedule and its sensor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dagster import AssetKey, AssetsDefinition, Definitions, build_schedule_from_partitioned_job

from dpone_dagster.assets.automation import automation_sensor
from dpone_dagster.assets.incremental import build_incremental
from dpone_dagster.assets.interval import IntervalLoad, build_interval_target, partitions_by
from dpone_dagster.assets.names import asset_key
from dpone_dagster.assets.publication import build_published_target, build_validated_shadow, build_xmin_handoff
from dpone_dagster.assets.shadow import build_shadow
from dpone_dagster.campaign.spec import CampaignSpec, IncrementPolicy, IntervalPolicy, RouteSpec
from dpone_dagster.jobs import campaign_job, executor_for, increment_job, interval_job
from dpone_dagster.resources.connections import RESOURCE_NAME, DponeConnections
from dpone_dagster.resources.notifier import NOTIFIER_NAME, DponeNotifier
from dpone_dagster.schedules import increment_schedule
from dpone_dagster.sensors.alerts import alerts_sensor
from dpone_dagster.sensors.first_increment import first_increment_sensor
from dpone_dagster.sensors.run_failures import run_failures_sensor

_CONNECTIONS = DponeConnections()
_NOTIFIER = DponeNotifier()


def build_manifest(spec: RouteSpec, manifest_path: Path, connections: DponeConnections = _CONNECTIONS) -> Definitions:
    """Everything that Dagster shows of one manifest of either kind, whatever others the project has.

    Args:
        spec: The campaign, or its increments.
        manifest_path: Where it was read from.
        connections: Opens its connections when a step runs.
    """
    if isinstance(spec, CampaignSpec):
        return build_campaign(spec, manifest_path, connections)
    return build_increments(spec, None, connections)


def build_campaign(
    spec: CampaignSpec, manifest_path: Path, connections: DponeConnections = _CONNECTIONS
) -> Definitions:
    """A campaign with its increments, where it has a handoff. Opens no connection.

    Args:
        spec: The campaign.
        manifest_path: Where it was read from; shown with the shadow.
        connections: Opens its connections when a step runs.
    """
    initial = build_initial_load(spec, manifest_path, connections)
    if spec.handoff_id is None:
        return initial
    return Definitions.merge(initial, build_increments(spec, asset_key(spec, "xmin_handoff"), connections))


def build_initial_load(spec: CampaignSpec, manifest_path: Path, connections: DponeConnections) -> Definitions:
    """A campaign up to its handoff; its increments have a manifest of their own, or there are none.

    Args:
        spec: The campaign.
        manifest_path: Where it was read from; shown with the shadow.
        connections: Opens its connections when a step runs.
    """
    assets: list[AssetsDefinition] = [build_shadow(spec, manifest_path)]
    if not spec.direct:
        assets += [build_validated_shadow(spec), build_published_target(spec)]
    if spec.handoff_id is not None:
        assets.append(build_xmin_handoff(spec))
    after_shadow = [one.key for one in assets[1:]]
    return Definitions(
        assets=assets,
        jobs=[campaign_job(spec, executor_for([spec], os.environ))],
        sensors=[automation_sensor(spec, after_shadow)] if spec.automate and after_shadow else [],
        resources={RESOURCE_NAME: connections},
    )


def build_intervals(
    spec: CampaignSpec, policy: IntervalPolicy, manifest_path: Path, connections: DponeConnections = _CONNECTIONS
) -> Definitions:
    """A manifest that is loaded by intervals: one asset, its job, and a schedule that is off until somebody wants it.

    Args:
        spec: Read for any interval.
        policy: Which intervals there are.
        manifest_path: Where it was read from; each run reads it for its own interval.
        connections: Opens its connections when a step runs.
    """
    load = IntervalLoad(spec, manifest_path, partitions_by(policy))
    job = interval_job(spec, executor_for([spec], os.environ))
    return Definitions(
        assets=[build_interval_target(load)],
        jobs=[job],
        schedules=[build_schedule_from_partitioned_job(job)],
        resources={RESOURCE_NAME: connections},
    )


def build_increments(spec: RouteSpec, handoff: AssetKey | None, connections: DponeConnections) -> Definitions:
    """The increments of one handoff: asset, job, schedule and sensor.

    Args:
        spec: The campaign, or its increments; the `handoff_id` is set.
        handoff: The campaign's `xmin_handoff`, where this project has it.
        connections: Opens its connections when a step runs.
    """
    job = increment_job(spec, executor_for([spec], os.environ))
    due = increment_schedule(spec, job)
    after = handoff if spec.increment.start == "after_handoff" else None
    return Definitions(
        assets=[build_incremental(spec, handoff)],
        jobs=[job],
        schedules=[due] if due else [],
        sensors=[first_increment_sensor(spec, after, job)] if after else [],
        resources={RESOURCE_NAME: connections},
    )


def build_alerts(
    specs: Sequence[RouteSpec],
    connections: DponeConnections = _CONNECTIONS,
    notifier: DponeNotifier = _NOTIFIER,
) -> Definitions:
    """The sensors that tell people, once a project; none without manifests.

    Args:
        specs: All manifests of the project.
        connections: Opens connections when a sensor looks.
        notifier: Tells people.
    """
    apart = {spec.handoff_id for spec in specs if not isinstance(spec, CampaignSpec)}
    scheduled = [
        replace(spec, increment=IncrementPolicy())
        if isinstance(spec, CampaignSpec) and (spec.handoff_id is None or spec.handoff_id in apart)
        else spec
        for spec in specs
    ]
    return Definitions(
        sensors=[alerts_sensor(scheduled), run_failures_sensor(specs)] if specs else [],
        resources={RESOURCE_NAME: connections, NOTIFIER_NAME: notifier},
    )
