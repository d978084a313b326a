"""A campaign and its increments in manifests of their own, in one project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster import AssetKey, build_schedule_context

from dpone_dagster.campaign.errors import HandoffMissing, HandoffRefused, ManifestInvalid, PlanDrift
from dpone_dagster.campaign.manifests import parse_any
from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.connections import Connections
from dpone_dagster.definitions import build_defs
from dpone_dagster.engine.increment import increment_gate, run_increment
from dpone_dagster.ports.target import Connector
from dpone_dagster.resources.connections import RESOURCE_NAME, DponeConnections
from dpone_dagster.wiring import open_connector
from tests.dagster.project import Project, run_job
from tests.engine.campaign import finish, load
from tests.orders import Orders


def increments_of(orders: Orders) -> dict[str, Any]:
    """The manifest of the orders' increments, to be changed by a test."""
    campaign = orders.manifest
    return {
        "name": "orders_changes",
        "source": {
            **campaign["source"],
            "options": {
                "incremental_strategy": "xmin",
                "xmin_execution": {"mode": "incremental", "handoff_id": "orders_v1"},
            },
        },
        "sink": {**campaign["sink"], "strategy": {"mode": "incremental_merge", "unique_key": ["id"]}},
        "state": {**campaign["state"], "schema": "system"},
        "dagster": {"incremental": {"cron": "30 5 * * *"}},
    }


def opened(orders: Orders, manifest: dict[str, Any]) -> tuple[RouteSpec, Connector]:
    spec = parse_any(manifest).to_spec()
    return spec, open_connector(spec, Connections.from_environment(orders.environment))


@pytest.fixture
def folder(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's manifests: the campaign's and the increments'."""
    folder = project.manifest.parent
    (folder / "changes.yaml").write_text(yaml.safe_dump(increments_of(project.orders)))
    monkeypatch.chdir(folder.parent)
    return folder


def test_the_increments_leave_the_campaign_and_follow_its_handoff(folder: Path) -> None:
    defs = build_defs({}, folder.parent)
    graph = defs.get_repository_def().asset_graph
    campaign = {AssetKey(["orders", n]) for n in ("shadow", "validated_shadow", "published_target", "xmin_handoff")}
    changes = AssetKey(["orders_changes", "incremental"])
    assert graph.get_all_asset_keys() == {*campaign, changes}
    assert graph.get(changes).parent_keys == {AssetKey(["orders", "xmin_handoff"])}
    assert graph.get(changes).code_version == "orders_v1"
    jobs = {job.name for job in defs.resolve_all_job_defs() if not job.name.startswith("__")}
    assert jobs == {"orders_campaign", "orders_changes_increment"}
    assert [schedule.name for schedule in defs.schedules or ()] == ["orders_changes_increment_schedule"]


def test_without_the_campaign_in_the_project_the_increments_stand_alone(folder: Path) -> None:
    defs = build_defs({"DPONE_MANIFESTS": str(folder / "changes.yaml")}, folder.parent)
    graph = defs.get_repository_def().asset_graph
    assert graph.get_all_asset_keys() == {AssetKey(["orders_changes", "incremental"])}
    assert graph.get(AssetKey(["orders_changes", "incremental"])).parent_keys == set()


def test_a_second_use_for_another_pair_fails_the_whole_location(folder: Path, project: Project) -> None:
    other = increments_of(project.orders)
    other["name"], other["source"] = "other", {**other["source"], "table": {"schema": "public", "name": "other"}}
    (folder / "other.yaml").write_text(yaml.safe_dump(other))
    with pytest.raises(ManifestInvalid) as caught:
        build_defs({}, folder.parent)
    assert any("other.yaml" in f.path and "handoff_id" in f.path for f in caught.value.findings)


def test_the_database_refuses_another_source_another_key_and_another_handoff(orders: Orders) -> None:
    spec, connector = opened(orders, increments_of(orders))
    assert increment_gate(spec, connector) == "no campaign was started yet"
    load(orders)
    finish(orders)
    orders.on_source("CREATE TABLE public.other (LIKE public.orders INCLUDING ALL)")
    wrong = increments_of(orders)
    wrong["source"] = {**wrong["source"], "table": {"schema": "public", "name": "other"}}
    before = orders.target_rows()
    with pytest.raises(HandoffRefused, match=r"public\.orders → landing\.orders"):
        run_increment(*opened(orders, wrong), "inc-1")
    wrong = increments_of(orders)
    wrong["sink"]["strategy"]["unique_key"] = ["id", "placed_at"]
    with pytest.raises(PlanDrift, match="unique_key"):
        run_increment(*opened(orders, wrong), "inc-1")
    wrong = increments_of(orders)
    wrong["source"]["options"]["xmin_execution"]["handoff_id"] = "orders_v2"
    with pytest.raises(HandoffMissing, match="belongs to handoff `orders_v1`"):
        run_increment(*opened(orders, wrong), "inc-1")
    assert orders.target_rows() == before
    assert increment_gate(spec, connector) is None


@pytest.mark.slow
def test_both_manifests_run_end_to_end(folder: Path, project: Project) -> None:
    orders = project.orders
    manifests = os.pathsep.join([str(project.manifest), str(folder / "changes.yaml")])
    (schedule,) = build_defs({}, folder.parent).schedules or ()

    def due() -> str | None:
        with build_schedule_context(project.instance, resources={RESOURCE_NAME: DponeConnections()}) as context:
            data = schedule.evaluate_tick(context)
        return data.skip_message if not data.run_requests else None

    assert due() == "no campaign was started yet"
    with run_job(project.instance, Path(manifests), "orders_campaign") as result:
        assert result.success, project.failures(result)
    assert due() is None
    orders.on_source("DELETE FROM public.orders WHERE id IN (SELECT id FROM public.orders ORDER BY id LIMIT 10)")
    orders.on_source("UPDATE public.orders SET note = 'changed' WHERE paid")
    with run_job(project.instance, Path(manifests), "orders_changes_increment") as result:
        assert result.success, project.failures(result)
    assert orders.target_rows() == orders.source_rows()
    loads = "SELECT DISTINCT dataset, kind FROM system.__dpone__loads ORDER BY 1"
    assert orders.on_target(loads) == [("orders", "campaign"), ("orders_changes", "increment")]
