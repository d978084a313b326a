"""When the schedule of the increments starts one, and the reason it gives when it does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dagster import DagsterInstance, DagsterRunStatus, build_schedule_context

from dpone_dagster.campaign_definitions import build_campaign
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.ports.target import Target
from dpone_dagster.resources.connections import RESOURCE_NAME, DponeConnections
from tests.dagster.project import Project
from tests.engine.campaign import finish, load


def due(project: Project) -> str | None:
    """Why the schedule starts nothing at this moment; None if it starts an increment."""
    (schedule,) = build_campaign(project.orders.spec, project.manifest).schedules
    with build_schedule_context(instance=project.instance, resources={RESOURCE_NAME: DponeConnections()}) as context:
        data = schedule.evaluate_tick(context)
    assert bool(data.run_requests) != bool(data.skip_message)
    return data.skip_message


def run_with(instance: DagsterInstance, project: Project, status: DagsterRunStatus) -> str:
    job = build_campaign(project.orders.spec, project.manifest).resolve_job_def("orders_increment")
    return instance.create_run_for_job(job, status=status).run_id


@pytest.fixture
def scheduled(project: Project) -> Project:
    """Orders with a cron for their increments."""
    project.orders.manifest["dagster"] = {"incremental": {"cron": "30 5 * * *", "timezone": "Europe/Berlin"}}
    project.write()
    return project


@pytest.fixture
def lane(scheduled: Project) -> Iterator[Target]:
    """A session as a lane has it."""
    opened = scheduled.orders.connector.target("lane 0 of run-2")
    yield opened
    opened.close()


def test_it_waits_for_the_handoff_and_says_so(scheduled: Project) -> None:
    assert due(scheduled) == "no campaign was started yet"
    load(scheduled.orders)
    assert due(scheduled) == "landing.orders was not published by a campaign yet"
    finish(scheduled.orders)
    assert due(scheduled) is None


def test_it_waits_while_a_campaign_of_the_same_target_is_at_work(scheduled: Project, lane: Target) -> None:
    orders = scheduled.orders
    load(orders)
    finish(orders)
    orders.backfill["backfill_id"] = "orders_2"
    prepare(orders.spec, orders.connector, intent="run", run_id="run-2")
    assert lane.fence.lock_campaign(orders.spec.run_key, "shared", 0)
    assert "of landing.orders is at work" in str(due(scheduled))
    lane.fence.unlock_campaign(orders.spec.run_key, "shared")
    assert due(scheduled) is None


def test_it_starts_none_beside_one_that_is_not_finished_whoever_started_that(scheduled: Project) -> None:
    load(scheduled.orders)
    finish(scheduled.orders)
    for status in (DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED):
        run_id = run_with(scheduled.instance, scheduled, status)
        assert due(scheduled) == f"the increment before is not finished: run {run_id}"
        run = scheduled.instance.get_run_by_id(run_id)
        assert run is not None
        scheduled.instance.report_run_failed(run)
    assert due(scheduled) is None
