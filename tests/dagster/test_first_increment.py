"""The sensor that starts the first increment, and the ticks that also reconcile."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from dagster import (
    AssetKey,
    AssetMaterialization,
    DagsterRunStatus,
    build_schedule_context,
    build_sensor_context,
    validate_run_config,
)

from dpone_dagster.campaign_definitions import build_campaign
from dpone_dagster.resources.connections import RESOURCE_NAME, DponeConnections
from tests.dagster.project import Project
from tests.engine.campaign import finish, load

RESOURCES = {RESOURCE_NAME: DponeConnections()}
HANDOFF = AssetKey(["orders", "xmin_handoff"])


@pytest.fixture
def eager(project: Project) -> Project:
    """Orders whose first increment follows the handoff."""
    project.orders.manifest["dagster"] = {"incremental": {"start": "after_handoff"}}
    project.write()
    return project


def look(project: Project, cursor: str | None) -> tuple[Any, str | None]:
    """(The run that the sensor asks for, or the reason of its skip; its cursor afterwards)."""
    defs = build_campaign(project.orders.spec, project.manifest)
    assert not defs.schedules
    (sensor,) = defs.sensors or ()
    with build_sensor_context(
        project.instance, cursor=cursor, resources=RESOURCES, repository_def=defs.get_repository_def()
    ) as context:
        data = sensor.evaluate_tick(context)
    return (data.run_requests[0] if data.run_requests else data.skip_message), data.cursor


def materialize(project: Project) -> str:
    """As the step of the handoff does."""
    orders = project.orders
    ((generation,),) = orders.on_target(
        "SELECT generation FROM system.__dpone__publications ORDER BY sequence DESC LIMIT 1"
    )
    project.instance.report_runless_asset_event(AssetMaterialization(HANDOFF, metadata={"generation": generation}))
    return str(generation)


def test_one_run_for_each_generation_as_soon_as_the_database_says_yes(eager: Project) -> None:
    orders = eager.orders
    assert look(eager, None) == ("the handoff is not materialized yet", None)
    load(orders)
    finish(orders)
    first = materialize(eager)
    request, cursor = look(eager, None)
    assert (request.run_key, cursor) == (first, first)
    assert look(eager, cursor)[0] == f"the first increment of generation {first} was started"
    materialize(eager)
    assert look(eager, cursor)[1] == first, "the same handoff, shown again, is no new one"

    orders.backfill["backfill_id"] = "orders_2"
    load(orders, run_id="run-2")
    finish(orders, run_id="run-2")
    second = materialize(eager)
    assert second != first
    orders.on_target("UPDATE system.__dpone__publications SET head = 'pending' WHERE sequence = 2")
    reason, kept = look(eager, cursor)
    assert "waits for its handoff" in reason
    assert kept == first, "what was skipped comes again"
    orders.on_target("UPDATE system.__dpone__publications SET head = 'closed' WHERE sequence = 2")
    assert look(eager, kept)[0].run_key == second


def test_it_starts_none_beside_one_that_is_not_finished(eager: Project) -> None:
    load(eager.orders)
    finish(eager.orders)
    materialize(eager)
    job = build_campaign(eager.orders.spec, eager.manifest).resolve_job_def("orders_increment")
    run = eager.instance.create_run_for_job(job, status=DagsterRunStatus.STARTED)
    assert look(eager, None) == (f"the increment before is not finished: run {run.run_id}", None)


@pytest.mark.parametrize(
    ("crons", "hour", "reconciles"),
    [
        ({"cron": "0 * * * *", "reconcile_cron": "0 3 * * *"}, 2, True),
        ({"cron": "0 * * * *", "reconcile_cron": "0 3 * * *"}, 3, False),
        ({"reconcile_cron": "0 3 * * *"}, 2, True),
        ({"cron": "0 3 * * *"}, 2, False),
    ],
)
def test_a_tick_of_the_reconcile_cron_compares_all_keys(
    project: Project, crons: dict[str, str], hour: int, reconciles: bool
) -> None:
    orders = project.orders
    orders.manifest["dagster"] = {"incremental": {**crons, "timezone": "Europe/Berlin"}}
    project.write()
    load(orders)
    finish(orders)
    defs = build_campaign(orders.spec, project.manifest)
    (schedule,) = defs.schedules or ()
    with build_schedule_context(
        project.instance, scheduled_execution_time=datetime(2026, 1, 15, hour, tzinfo=UTC), resources=RESOURCES
    ) as context:
        (request,) = schedule.evaluate_tick(context).run_requests or ()
    compare = {"ops": {"orders__incremental": {"config": {"compare": "keys"}}}}
    assert request.run_config == (compare if reconciles else {})
    assert validate_run_config(defs.resolve_job_def("orders_increment"), request.run_config)
