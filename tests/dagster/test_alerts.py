"""The alert sensor against real ledgers: one alert until it is over, whatever fails meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from dagster import DagsterInstance, DefaultSensorStatus

from dpone_dagster.campaign.alerts import Watch
from dpone_dagster.campaign.errors import NotificationFailed, WatchFailed
from dpone_dagster.campaign.ledger import Worker
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec, IntervalPolicy
from dpone_dagster.definitions import build_defs
from dpone_dagster.engine.handoff import commit_handoff
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.validate import validate
from dpone_dagster.resources.connections import DponeConnections
from dpone_dagster.sensors.alerts import ALERTS_NAME
from tests.contract.samples import campaign, plan
from tests.dagster.alerting import Ticks, connections_of, heard
from tests.engine.campaign import Seen, lane, load
from tests.mssql_orders import make_either_orders
from tests.orders import Orders, make_orders
from tests.servers.receivers import Hook, closed_port, web_hook


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    """Where alerts go besides the log."""
    with web_hook() as running:
        monkeypatch.setenv("DPONE_NOTIFY_WEBHOOK_URL", running.url)
        yield running


@pytest.fixture(params=["postgres", "mssql"])
def either(request: pytest.FixtureRequest) -> Orders:
    return make_either_orders(request, rows=200, chunks=4)


@pytest.fixture
def ticks(orders: Orders, instance: DagsterInstance) -> Ticks:
    return Ticks(instance, ALERTS_NAME, [orders.spec], connections_of(orders))


def later(orders: Orders, minutes: int, *columns: str, table: str = "backfill_chunks") -> None:
    """As if so much time had passed since these."""
    mssql = orders.spec.sink_type == "mssql"
    for column in columns:
        past = f"DATEADD(minute, {-minutes}, {column})" if mssql else f"{column} - interval '{minutes} minutes'"
        orders.on_target(f"UPDATE system.__dpone__{table} SET {column} = {past} WHERE {column} IS NOT NULL")


def create(orders: Orders, specs: Sequence[CampaignSpec]) -> None:
    """Campaigns of four chunks that are prepared in the ledger only."""
    target = orders.connector.target("test")
    try:
        target.ledger.provision()
        with target.transaction():
            for spec in specs:
                made = campaign(4, run_key=spec.run_key, dataset=spec.dataset, target=spec.target)
                target.ledger.create(made, plan(4))
    finally:
        target.close()


def claim_one(orders: Orders) -> None:
    """A lane that claims a chunk and is not heard of again."""
    target = orders.connector.target("lane 0 of run-1")
    try:
        worker = Worker("run-1", 0, "gone", os.getpid())
        (seen, *_) = target.ledger.chunks(orders.spec.run_key, ChunkSelection.all(orders.spec.plan.count))
        assert target.fence.try_lock_chunk(orders.spec.run_key, seen.index)
        assert target.ledger.claim(orders.spec.run_key, seen, worker)
    finally:
        target.close()


def test_before_there_is_anything_nothing_is_told(ticks: Ticks, hook: Hook) -> None:
    assert ticks.tick() == "incidents open: 0; alerts to be sent: 0"
    assert heard(hook) == []


def test_a_lane_that_vanished_is_told_until_it_is_heard_of_again(
    either: Orders, instance: DagsterInstance, hook: Hook
) -> None:
    ticks = Ticks(instance, ALERTS_NAME, [either.spec], connections_of(either))
    create(either, [either.spec])
    claim_one(either)
    later(either, 9, "started_at")
    ticks.tick()
    assert heard(hook) == []
    later(either, 1, "started_at")
    ticks.tick()
    assert heard(hook) == [("raised", "orders", "stalled")]
    later(either, 2, "lease_expires_at")
    assert ticks.tick() == "incidents open: 1; alerts to be sent: 0"
    assert heard(hook) == [("cleared", "orders", "stalled"), ("raised", "orders", "lease_expired")]
    ticks.tick()
    assert heard(hook) == []
    later(either, -60, "started_at", "lease_expires_at")
    ticks.tick()
    assert heard(hook) == [("cleared", "orders", "lease_expired")]


def test_a_blocked_validation_is_told_with_its_check_and_is_over_when_it_passes(
    ticks: Ticks, orders: Orders, hook: Hook
) -> None:
    load(orders)
    shadow = orders.spec.shadow
    table = f'"{shadow.schema}"."{shadow.name}"'
    orders.on_target(f"INSERT INTO {table} SELECT * FROM landing.orders")
    assert not validate(orders.spec, orders.connector, "run-1").passed
    ticks.tick()
    (posted,) = hook.posted
    assert "row_count" in posted.body["problem"]
    assert posted.body["next_step"]
    assert posted.body["runbook"] == "docs/runbook.md#a-blocked-validation"
    assert heard(hook) == [("raised", "orders", "validation_blocked")]
    orders.on_target(f"DELETE FROM {table} WHERE id IN (SELECT id FROM landing.orders)")
    assert validate(orders.spec, orders.connector, "run-2").passed
    ticks.tick()
    assert heard(hook) == [("cleared", "orders", "validation_blocked")]


def test_a_refused_publication_an_owed_handoff_and_a_late_increment(ticks: Ticks, orders: Orders, hook: Hook) -> None:
    orders.manifest["dagster"] = {"incremental": {"cron": "0 * * * *", "timezone": "Europe/Berlin"}}
    ticks.specs = [orders.spec]
    load(orders)
    assert validate(orders.spec, orders.connector, "run-1").passed
    orders.on_target("CREATE INDEX extra ON landing.orders (paid)")
    with pytest.raises(Exception, match="CATALOG_DRIFT"):
        publish(orders.spec, orders.connector, "run-1")
    ticks.tick()
    assert heard(hook) == [], "it might still be trying"
    later(orders, 1, "updated_at", table="backfill_campaigns")
    later(orders, 1, "recorded_at", table="load_steps")
    ticks.tick()
    assert heard(hook) == [("raised", "orders", "publication_blocked")]

    orders.on_target("DROP INDEX landing.extra")
    publish(orders.spec, orders.connector, "run-2")
    ticks.tick()
    assert heard(hook) == [("cleared", "orders", "publication_blocked")]
    later(orders, 10, "published_at", table="publications")
    ticks.tick()
    assert heard(hook) == [("raised", "orders", "handoff_pending")]
    commit_handoff(orders.spec, orders.connector, "run-2")
    ticks.tick()
    assert heard(hook) == [("cleared", "orders", "handoff_pending")]

    later(orders, 60, "updated_at", table="xmin_checkpoints")
    ticks.tick()
    assert heard(hook) == [], "it was due less than an hour ago"
    later(orders, 60, "updated_at", table="xmin_checkpoints")
    ticks.tick()
    assert heard(hook) == [("raised", "orders", "increment_late")]


def test_a_load_that_will_be_late_is_told_by_the_objective_of_the_manifest(
    ticks: Ticks, orders: Orders, hook: Hook
) -> None:
    orders.manifest["dagster"] = {"alerts": {"load_within_hours": 1.5}}
    ticks.specs = [orders.spec]
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    claim_one(orders)
    later(orders, 80, "started_at")
    ticks.tick()
    assert ("raised", "orders", "load_late") not in heard(hook)
    later(orders, 20, "started_at")
    ticks.tick()
    assert heard(hook) == [("raised", "orders", "load_late")]


# ---------------------------------------------------------------- channels that fail


@pytest.fixture
def loading(orders: Orders) -> Orders:
    """A campaign whose one lane has vanished."""
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    claim_one(orders)
    later(orders, 2, "lease_expires_at")
    return orders


@pytest.fixture
def loading_ticks(loading: Orders, instance: DagsterInstance) -> Ticks:
    return Ticks(instance, ALERTS_NAME, [loading.spec], connections_of(loading))


def test_a_channel_that_fails_is_seen_and_everything_is_told_afterwards(
    loading_ticks: Ticks, loading: Orders, hook: Hook
) -> None:
    hook.status = 500
    said = loading_ticks.tick()
    assert "alerts to be sent: 1" in said
    assert "channel webhook: 127.0.0.1 answered 500" in said
    kept = loading_ticks.cursor
    for _ in range(2):
        with pytest.raises(NotificationFailed, match=r"127\.0\.0\.1 answered 500"):
            loading_ticks.tick()
        assert loading_ticks.cursor == kept
    lane(loading, Seen(), run_id="run-2")
    assert "alerts to be sent: 2" in loading_ticks.tick(), "what was over meanwhile is told too"
    hook.posted.clear()
    hook.status = 200
    assert loading_ticks.tick() == "incidents open: 0; alerts to be sent: 0"
    assert heard(hook) == [("raised", "orders", "lease_expired"), ("cleared", "orders", "lease_expired")]
    loading_ticks.tick()
    assert heard(hook) == []


def test_a_channel_that_works_hears_everything_once_whatever_another_one_does(
    loading_ticks: Ticks, loading: Orders, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_hook() as slack:
        monkeypatch.setenv("DPONE_NOTIFY_SLACK_URL", slack.url)
        monkeypatch.setenv("DPONE_NOTIFY_SMTP_URL", f"smtp://127.0.0.1:{closed_port()}?tls=off")
        monkeypatch.setenv("DPONE_NOTIFY_EMAIL_TO", "ada@example.org")
        hook.status = 503
        assert "channel email: 127.0.0.1:" in loading_ticks.tick()
        for _ in range(3):
            with pytest.raises(NotificationFailed) as caught:
                loading_ticks.tick()
            assert {finding.path for finding in caught.value.findings} == {"channel webhook", "channel email"}
        assert len(slack.posted) == 1
        hook.posted.clear()
        hook.status = 200
        loading_ticks.tick()
        assert len(slack.posted) == 1
    assert heard(hook) == [("raised", "orders", "lease_expired")]


def test_a_channel_that_is_misconfigured_is_seen_before_it_is_needed(
    orders: Orders, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPONE_NOTIFY_SLACK_URL", "hooks.slack.com/s3cret")
    ticks = Ticks(instance, ALERTS_NAME, [orders.spec], connections_of(orders))
    with pytest.raises(NotificationFailed, match="DPONE_NOTIFY_SLACK_URL is no URL") as caught:
        ticks.tick()
    assert "s3cret" not in str(caught.value)


# ---------------------------------------------------------------- many, and some out of reach


def test_a_database_that_is_out_of_reach_keeps_nobody_else_waiting(
    loading: Orders, new_database: Any, instance: DagsterInstance, hook: Hook
) -> None:
    other = make_orders(new_database("oltp"), new_database("dwh"), rows=0)
    other.manifest["name"] = "customers"
    other.manifest["sink"]["connection_ref"] = other.manifest["state"]["connection_ref"] = "pg_other"
    there, gone = other.target_url, f"postgresql://loader:s3cret@127.0.0.1:{closed_port()}/dwh"
    prepare_other = {"DPONE_CONNECTION_PG_OLTP": other.source_url, "DPONE_CONNECTION_PG_OTHER": there}
    reachable = environment(other, prepare_other)
    prepare(reachable.spec, reachable.connector, intent="run", run_id="run-1")
    claim_one(reachable)
    later(reachable, 2, "lease_expires_at")
    ticks = Ticks(instance, ALERTS_NAME, [reachable.spec, loading.spec], connections_of(reachable, loading))
    ticks.tick()
    assert sorted(heard(hook)) == [("raised", "customers", "lease_expired"), ("raised", "orders", "lease_expired")]

    away = environment(other, prepare_other | {"DPONE_CONNECTION_PG_OTHER": gone})
    ticks.connections = connections_of(away, loading)
    lane(loading, Seen(), run_id="run-2")
    said = ticks.tick()
    assert "connection pg_other: SERVER_UNREACHABLE" in said
    assert heard(hook) == [("cleared", "orders", "lease_expired")]
    with pytest.raises(WatchFailed, match="connection pg_other: SERVER_UNREACHABLE") as caught:
        ticks.tick()
    assert "s3cret" not in str(caught.value)
    assert [each.incident.dataset for each in Watch.from_json(ticks.cursor).open] == ["customers"]
    ticks.connections = connections_of(reachable, loading)
    ticks.tick()
    assert heard(hook) == [], "it is the same incident as before"


def environment(orders: Orders, environ: dict[str, str]) -> Orders:
    """These orders with other URLs."""

    class Elsewhere(Orders):
        @property
        def environment(self) -> dict[str, str]:
            return environ

    return Elsewhere(orders.source_url, orders.target_url, orders.manifest)


def test_a_hundred_campaigns_cost_as_many_statements_as_one(
    orders: Orders, instance: DagsterInstance, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [replace(orders.spec, dataset=f"orders_{number}") for number in range(100)]
    create(orders, specs)
    orders.on_target(
        "UPDATE system.__dpone__backfill_campaigns SET phase = 'blocked', updated_at = now() - interval '1 minute'"
    )

    class Opened(type(connections_of(orders))):  # type: ignore[misc]
        def connector(self, spec: Any) -> Any:
            return orders.connector

    sent: list[str] = []
    real = psycopg.Cursor.execute

    def recorded(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(query if isinstance(query, str) else str(query))
        return real(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", recorded)
    counts = []
    for some in (specs[:1], specs):
        sent.clear()
        Ticks(instance, ALERTS_NAME, some, Opened()).tick()
        assert sum("dpone:vitals" in statement for statement in sent) == 1
        counts.append(len(sent))
    assert counts[0] == counts[1]
    assert len(heard(hook)) == 101


def test_a_manifest_whose_runs_are_its_campaigns_is_not_looked_at(orders: Orders, instance: DagsterInstance) -> None:
    asked: list[str] = []

    class Asked(DponeConnections):
        def connector(self, spec: Any) -> Any:
            asked.append(spec.dataset)
            return orders.connector

    by_interval = replace(orders.spec, dataset="days", interval=IntervalPolicy("2024-01-01"))
    Ticks(instance, ALERTS_NAME, [by_interval, orders.spec], Asked()).tick()
    assert asked == ["orders"]


def test_the_project_has_its_sensors_and_they_are_on(orders: Orders, tmp_path: Any) -> None:
    folder = tmp_path / "campaigns"
    folder.mkdir()
    assert not build_defs({}, tmp_path).sensors
    orders.write(folder)
    defs = build_defs({}, tmp_path)
    found = {each.name: each.default_status for each in defs.sensors or ()}
    assert found == {"dpone_alerts": DefaultSensorStatus.RUNNING, "dpone_run_failures": DefaultSensorStatus.RUNNING}
