"""The sensor that tells of failed and stopped runs: which chunk, which code, what next; each run once, none lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from dagster import AssetKey, DagsterRun, DagsterRunStatus, job, op

from dpone_dagster.campaign.errors import NotificationFailed, ServerUnreachable
from dpone_dagster.campaign.spec import IntervalPolicy, RouteSpec
from dpone_dagster.campaign_definitions import build_campaign
from dpone_dagster.engine import watch
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.resources.connections import DponeConnections
from dpone_dagster.sensors.run_failures import RUN_FAILURES_NAME
from tests.dagster.alerting import Ticks, connections_of, heard
from tests.dagster.project import ASSET_JOB, Project
from tests.dagster.test_partial_failure import spoil
from tests.engine.campaign import Seen, finish, lane, load
from tests.orders import Orders
from tests.servers.receivers import Hook, web_hook


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    with web_hook() as running:
        monkeypatch.setenv("DPONE_NOTIFY_WEBHOOK_URL", running.url)
        yield running


@pytest.fixture
def ticks(project: Project) -> Ticks:
    made = Ticks(project.instance, RUN_FAILURES_NAME, [project.orders.spec], connections_of(project.orders))
    assert made.tick() == "runs that end from now on are told of"
    return made


def started(project: Project, job_name: str = "orders_campaign", **options: Any) -> DagsterRun:
    """A run as Dagster stores it, which no process executes."""
    defs = build_campaign(project.orders.spec, project.manifest)
    return project.instance.create_run_for_job(
        defs.get_repository_def().get_job(job_name), status=DagsterRunStatus.STARTED, **options
    )


def test_a_failed_run_is_told_with_chunk_code_and_advice(project: Project, ticks: Ticks, hook: Hook) -> None:
    orders = project.orders
    spoil(project, 3)
    run = started(project)
    prepare(orders.spec, orders.connector, intent="run", run_id=run.run_id)
    lane(orders, Seen(), run_id=run.run_id)
    project.instance.report_run_failed(run)
    ticks.tick()
    (posted,) = hook.posted
    body = posted.body
    assert (body["state"], body["condition"], body["incident_id"]) == ("reported", "run_failed", run.run_id)
    assert f"orders_campaign run {run.run_id} failed" in body["problem"]
    assert "chunk 3: VALUE_NOT_REPRESENTABLE: " in body["problem"]
    assert "amount" in body["problem"]
    assert body["next_step"].startswith("Correct the source row")
    doctor = status(orders.spec, orders.connector).recommended_action
    assert "mend the failed chunks' cause" in doctor
    assert body["next_step"].endswith(f"Doctor says: {doctor}")
    assert heard(hook) == [("reported", "orders", "run_failed")]
    ticks.tick()
    assert heard(hook) == []


def test_a_stopped_run_is_told_too_and_what_ended_before_is_not(project: Project, hook: Hook) -> None:
    before = started(project)
    project.instance.report_run_failed(before)
    project.instance.report_run_canceled(started(project))
    ticks = Ticks(project.instance, RUN_FAILURES_NAME, [project.orders.spec], connections_of(project.orders))
    ticks.tick()
    ticks.tick()
    assert heard(hook) == []
    run = started(project, tags={"dagster/will_retry": "true"})
    project.instance.report_run_canceled(run)
    ticks.tick()
    (posted,) = hook.posted
    assert posted.body["condition"] == "run_canceled"
    assert f"run {run.run_id} was stopped and is started again by Dagster" in posted.body["problem"]
    assert "dpone backfill run MANIFEST" in posted.body["next_step"]


def test_runs_of_others_and_good_ones_are_not_told(project: Project, ticks: Ticks, hook: Hook) -> None:
    @op
    def nothing() -> None: ...

    @job
    def stranger() -> None:
        nothing()

    instance = project.instance
    instance.report_run_failed(instance.create_run_for_job(stranger, status=DagsterRunStatus.STARTED))
    other = frozenset({AssetKey(["customers", "shadow"])})
    run = started(project)
    instance.add_run(run._replace(run_id="0" * 8 + run.run_id[8:], job_name=ASSET_JOB, asset_selection=other))
    foreign = instance.get_run_by_id("0" * 8 + run.run_id[8:])
    assert foreign is not None
    instance.report_run_failed(foreign)
    ticks.tick()
    assert heard(hook) == []
    ours = run._replace(
        run_id="1" * 8 + run.run_id[8:], job_name=ASSET_JOB, asset_selection=frozenset({AssetKey(["orders", "shadow"])})
    )
    instance.report_run_failed(instance.add_run(ours))
    ticks.tick()
    assert heard(hook) == [("reported", "orders", "run_failed")]


def test_no_run_is_lost_while_nobody_can_be_told(project: Project, ticks: Ticks, hook: Hook) -> None:
    hook.status = 500
    project.instance.report_run_failed(started(project))
    assert "answered 500" in ticks.tick()
    with pytest.raises(NotificationFailed, match="answered 500"):
        ticks.tick()
    project.instance.report_run_failed(started(project))
    assert "alerts to be sent: 2" in ticks.tick()
    hook.posted.clear()
    hook.status = 200
    ticks.tick()
    assert heard(hook) == [("reported", "orders", "run_failed")] * 2
    ticks.tick()
    assert heard(hook) == []


def test_a_run_is_told_of_though_the_database_is_out_of_reach(project: Project, ticks: Ticks, hook: Hook) -> None:
    class Gone(Orders):
        environment = {  # noqa: RUF012
            "DPONE_CONNECTION_PG_OLTP": project.orders.source_url,
            "DPONE_CONNECTION_PG_DWH": "postgresql://loader:s3cret@127.0.0.1:1/dwh",
        }

    ticks.connections = connections_of(Gone("", "", project.orders.manifest))
    for _ in range(2):
        project.instance.report_run_failed(started(project))
    ticks.tick()
    assert len(hook.posted) == 2
    assert "the ledger cannot be read: SERVER_UNREACHABLE" in hook.posted[0].body["problem"]
    assert not any("s3cret" in str(posted.body) for posted in hook.posted)


class Unwilling(DponeConnections):
    """A server that many campaigns are on and that lets nobody in."""

    def connector(self, spec: RouteSpec) -> Any:
        return self

    def target(self, purpose: str) -> Any:
        self.asked.append(purpose)
        if self.silent:
            self.let_go.wait(5)
        raise ServerUnreachable("no answer")

    asked: ClassVar[list[str]] = []
    silent: ClassVar[bool] = False
    let_go: ClassVar[threading.Event] = threading.Event()


def test_a_server_that_lets_nobody_in_is_asked_once_for_all_its_campaigns(
    project: Project, ticks: Ticks, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unwilling, "asked", [])
    many_failed(project, ticks, 3)
    ticks.tick()
    assert sorted(posted.body["dataset"] for posted in hook.posted) == ["orders_0", "orders_1", "orders_2"]
    assert all("SERVER_UNREACHABLE" in posted.body["problem"] for posted in hook.posted)
    assert len(Unwilling.asked) == 3, "three tries are one question"


def test_a_server_that_never_answers_keeps_no_run_untold(
    project: Project, ticks: Ticks, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unwilling, "silent", True)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.2, raising=False)
    many_failed(project, ticks, 1)
    ticks.tick()
    (posted,) = hook.posted
    assert "the ledger cannot be read: SERVER_UNREACHABLE: not seen within the 0.2 s" in posted.body["problem"]
    Unwilling.let_go.set()


def test_a_run_of_an_interval_is_told_without_a_campaign_that_nobody_made(
    project: Project, ticks: Ticks, hook: Hook
) -> None:
    ticks.specs = [replace(project.orders.spec, interval=IntervalPolicy("2024-01-01"))]
    project.instance.report_run_failed(started(project))
    ticks.tick()
    (posted,) = hook.posted
    assert posted.body["next_step"] == "Re-execute the run in Dagster, or materialize its partitions again."


def many_failed(project: Project, ticks: Ticks, datasets: int) -> None:
    """A run that failed and was to load so many campaigns of one server."""
    ticks.specs = [replace(project.orders.spec, dataset=f"orders_{number}") for number in range(datasets)]
    ticks.connections = Unwilling()
    keys = frozenset(AssetKey([spec.dataset, "shadow"]) for spec in ticks.specs)
    run = started(project)._replace(run_id="1" * 36, job_name=ASSET_JOB, asset_selection=keys)
    project.instance.report_run_failed(project.instance.add_run(run))


@pytest.mark.slow
def test_a_failed_increment_says_what_its_step_said(project: Project, ticks: Ticks, hook: Hook) -> None:
    orders = project.orders
    load(orders)
    finish(orders)
    orders.on_source("ALTER TABLE public.orders ADD added integer")
    with project.run("orders_increment") as result:
        assert not result.success
    ticks.tick()
    (posted,) = hook.posted
    assert f"orders_increment run {result.run_id} failed: step orders__incremental: " in posted.body["problem"]
    assert "CATALOG_DRIFT" in posted.body["problem"]
    assert posted.body["next_step"].endswith("Doctor says: `dpone increment status MANIFEST`")


def test_a_cursor_that_cannot_be_read_starts_anew(project: Project, ticks: Ticks, hook: Hook) -> None:
    ticks.cursor = "nonsense"
    assert ticks.tick() == "runs that end from now on are told of"
    project.instance.report_run_failed(started(project))
    ticks.tick()
    assert heard(hook) == [("reported", "orders", "run_failed")]
