"""Tells people of campaigns that stall, block or are late: one sensor a project, one query a connection."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from dagster import DefaultSensorStatus, SensorDefinition, SensorEvaluationContext, SkipReason, sensor
from dagster._utils.schedules import schedule_execution_time_iterator

from dpone_dagster.campaign.alerts import Watch
from dpone_dagster.campaign.errors import DponeError, Finding
from dpone_dagster.campaign.incidents import Look
from dpone_dagster.campaign.spec import CampaignSpec, IncrementPolicy, RouteSpec
from dpone_dagster.engine.notify import notify
from dpone_dagster.engine.watch import by_state, vitals
from dpone_dagster.resources.connections import DponeConnections
from dpone_dagster.resources.notifier import DponeNotifier
from dpone_dagster.sensors.ticks import end_tick

ALERTS_NAME = "dpone_alerts"


def alerts_sensor(specs: Sequence[RouteSpec]) -> SensorDefinition:
    """One alert when a condition begins and one when it is over. The cursor has what is open and what is unsent.

    Args:
        specs: All manifests of the project. Those whose increments are another manifest's have no cron here; those
            that are loaded by intervals are left to the sensor of failed runs.
    """
    watched = [spec for spec in specs if not (isinstance(spec, CampaignSpec) and spec.interval)]

    @sensor(
        name=ALERTS_NAME,
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        description="Tells people of campaigns that stall, block or are late, by the thresholds of `dagster.alerts`.",
    )
    def campaign_alerts(
        context: SensorEvaluationContext, dpone_connections: DponeConnections, dpone_notifier: DponeNotifier
    ) -> SkipReason:
        before, channels = Watch.from_json(context.cursor), dpone_notifier.channels()
        looks, unseen, datasets = _look(by_state(watched), dpone_connections)
        after = before.after(looks, datasets, [channel.name for channel in channels])
        after, unsent = notify(after, channels)
        return end_tick(context, after, after.to_json(), moved=after.moved_since(before), unseen=unseen, unsent=unsent)

    return campaign_alerts


def _look(
    groups: list[list[RouteSpec]], connections: DponeConnections
) -> tuple[list[Look], list[Finding], frozenset[str]]:
    """What was seen; what could not be looked at, and which datasets that leaves out."""
    looks: list[Look] = []
    unseen: list[Finding] = []
    datasets: set[str] = set()
    # At the same time, so that one that does not answer keeps the others waiting no longer than it takes itself.
    with ThreadPoolExecutor(max_workers=len(groups) or 1, thread_name_prefix="dpone-alerts") as pool:
        for group, found in zip(groups, pool.map(lambda group: _look_at(group, connections), groups), strict=True):
            if isinstance(found, Finding):
                unseen.append(found)
                datasets.update(spec.dataset for spec in group)
            else:
                looks += found
    return looks, unseen, frozenset(datasets)


def _look_at(group: list[RouteSpec], connections: DponeConnections) -> list[Look] | Finding:
    first = group[0]
    try:
        seen = vitals(group, connections.connector(first))
    except DponeError as error:
        return Finding(f"connection {first.sink_ref}", f"{error.code}: {error.message}", error.advice)
    return [Look(spec, each, _due_at(spec.increment, each.loaded_at)) for spec, each in zip(group, seen, strict=False)]


def _due_at(policy: IncrementPolicy, loaded_at: datetime | None) -> datetime | None:
    """When the first increment after the last one is due by the crons."""
    crons = [cron for cron in (policy.cron, policy.reconcile_cron) if cron is not None]
    if loaded_at is None or not crons:
        return None
    return next(schedule_execution_time_iterator(loaded_at.timestamp(), crons, policy.timezone))
