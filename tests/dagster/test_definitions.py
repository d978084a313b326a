"""What Dagster is told of the manifests: loaded from files alone, whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster import AssetKey, DagsterInstance, Definitions, OpDefinition, StaticPartitionsDefinition
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph
from dagster._core.storage.tags import MAX_RETRIES_TAG, RETRY_ON_ASSET_OR_OP_FAILURE_TAG

from dpone_dagster.assets.names import partitions_of
from dpone_dagster.campaign.errors import ManifestInvalid
from dpone_dagster.campaign.manifest import parse_manifest
from dpone_dagster.campaign.overrides import AS_WRITTEN
from dpone_dagster.cli.dagster_run import JobRequest, build_job, run_job
from dpone_dagster.definitions import build_defs
from dpone_dagster.jobs import executor_for
from tests.dagster.manifests import manifest_of


@pytest.fixture
def manifest() -> dict[str, Any]:
    """The manifest of the orders campaign."""
    return manifest_of(chunks=8, lanes=2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without any connection: nothing may be opened, or asked for, while definitions load."""
    for name in [name for name in os.environ if name.startswith("DPONE_")]:
        monkeypatch.delenv(name)
    (tmp_path / "campaigns").mkdir()
    return tmp_path


def write(folder: Path, name: str, data: object) -> Path:
    path = folder / "campaigns" / f"{name}.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def renamed(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    copy = deepcopy(manifest)
    copy["name"] = name
    return copy


def graph(defs: Definitions) -> AssetGraph:
    return defs.get_repository_def().asset_graph


def test_a_manifest_becomes_a_chain_of_five_assets_two_jobs_and_a_schedule(
    folder: Path, manifest: dict[str, Any]
) -> None:
    manifest["dagster"] = {"incremental": {"cron": "30 5 * * *", "timezone": "Europe/Berlin"}, "owners": ["team:dwh"]}
    manifest["dagster"]["tags"] = {"dagster/max_retries": "10"}
    path = write(folder, "orders", manifest)
    defs = build_defs({}, folder)
    assets = graph(defs)
    names = ["shadow", "validated_shadow", "published_target", "xmin_handoff", "incremental"]
    assert assets.get_all_asset_keys() == {AssetKey(["orders", name]) for name in names}
    for before, after in pairwise(names):
        assert assets.get(AssetKey(["orders", after])).parent_keys == {AssetKey(["orders", before])}
    spec = parse_manifest(manifest).to_spec()
    shadow = assets.get(AssetKey(["orders", "shadow"]))
    assert shadow.partitions_def == StaticPartitionsDefinition(partitions_of(spec).keys())
    assert shadow.backfill_policy is not None
    assert shadow.backfill_policy.max_partitions_per_run is None
    assert shadow.metadata["manifest"].value == str(path)
    assert shadow.owners == ["team:dwh"]
    assert {key.name for key in assets.asset_check_keys} == {
        *("receipts_complete", "row_count", "unique_key", "catalog", "not_empty", "unique_indexes"),
        *("publication_receipt", "handoff_bound"),
    }
    assert all(assets.get(key).blocking for key in assets.asset_check_keys)
    assert {assets.get(AssetKey(["orders", name])).code_version for name in names[1:]} == {spec.run_key}

    # What a manifest declares of itself is on its assets only.
    assert shadow.tags["dagster/max_retries"] == "10"
    jobs = {job.name: job for job in defs.resolve_all_job_defs() if not job.name.startswith("__")}
    assert set(jobs) == {"orders_campaign", "orders_increment"}
    assert jobs["orders_campaign"].asset_layer.executable_asset_keys == {AssetKey(["orders", n]) for n in names[:4]}
    assert jobs["orders_increment"].asset_layer.executable_asset_keys == {AssetKey(["orders", "incremental"])}
    for job in jobs.values():
        assert (job.run_tags[MAX_RETRIES_TAG], job.run_tags[RETRY_ON_ASSET_OR_OP_FAILURE_TAG]) == ("3", "false")
    (schedule,) = defs.schedules or ()
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("30 5 * * *", "Europe/Berlin")


def test_without_a_handoff_there_are_no_increments(folder: Path, manifest: dict[str, Any]) -> None:
    del manifest["source"]["options"]
    write(folder, "orders", manifest)
    defs = build_defs({}, folder)
    assert {key.path[1] for key in graph(defs).get_all_asset_keys()} == {
        *("shadow", "validated_shadow", "published_target"),
    }
    assert [job.name for job in defs.jobs or ()] == ["orders_campaign"]


@pytest.mark.parametrize(("verification", "there"), [("row_count", False), ("digest", True)])
def test_digests_are_a_blocking_check_where_they_are_asked_for(
    folder: Path, manifest: dict[str, Any], verification: str, there: bool
) -> None:
    manifest["sink"]["strategy"]["backfill"]["verification"] = verification
    write(folder, "orders", manifest)
    seen = graph(build_defs({}, folder))
    checks = [seen.get(key) for key in seen.asset_check_keys if key.name == "digest"]
    assert [(check.key.asset_key.path[-1], check.blocking) for check in checks] == [("validated_shadow", True)] * there


def test_lanes_of_a_campaign_share_one_pool(folder: Path, manifest: dict[str, Any]) -> None:
    write(folder, "orders", manifest)
    job = build_defs({}, folder).resolve_job_def("orders_campaign")
    pools = {node.name: node.pool for node in job.all_node_defs if hasattr(node, "pool")}
    assert pools["orders_lane"] == "dpone_orders"
    assert pools["orders_prepare"] is None


def test_every_step_is_tried_again_three_times_at_most(folder: Path, manifest: dict[str, Any]) -> None:
    manifest["dagster"] = {"incremental": {"cron": "30 5 * * *"}}
    write(folder, "orders", manifest)
    defs = build_defs({}, folder)
    ops = [
        node
        for job in ("orders_campaign", "orders_increment")
        for node in defs.resolve_job_def(job).all_node_defs
        if isinstance(node, OpDefinition)
    ]
    assert len(ops) == 7
    assert {node.retry_policy.max_retries for node in ops if node.retry_policy} == {3}
    assert all(node.retry_policy for node in ops), [node.name for node in ops if not node.retry_policy]


def test_campaigns_stand_side_by_side(folder: Path, manifest: dict[str, Any]) -> None:
    write(folder, "a", manifest)
    write(folder, "b", renamed(manifest, "customers"))
    assert len(graph(build_defs({}, folder)).get_all_asset_keys()) == 10


def test_a_project_without_manifests_loads(folder: Path) -> None:
    assert graph(build_defs({}, folder)).get_all_asset_keys() == set()


def test_everything_that_is_wrong_in_all_manifests_is_said_at_once(folder: Path, manifest: dict[str, Any]) -> None:
    write(folder, "good", manifest)
    bad = renamed(manifest, "bad")
    bad["sink"]["strategy"]["unique_key"] = []
    write(folder, "bad", bad)
    worse = renamed(manifest, "worse")
    worse["sink"]["strategy"]["backfill"]["chunk"]["buckets"] = 600
    worse["sink"]["strategy"]["backfill"]["max_chunks"] = 500
    write(folder, "worse", worse)
    write(folder, "twin", manifest)
    with pytest.raises(ManifestInvalid) as caught:
        build_defs({}, folder)
    places = [finding.path for finding in caught.value.findings]
    assert any("bad.yaml" in place and "unique_key" in place for place in places)
    assert any("worse.yaml" in place for place in places)
    assert any("twin.yaml" in place for place in places)
    assert not any(place.endswith("good.yaml") for place in places)


def test_the_executor_has_room_for_every_lane_and_one_more(manifest: dict[str, Any]) -> None:
    specs = [parse_manifest(manifest_of(chunks=8, lanes=lanes)).to_spec() for lanes in (3, 7)]
    local = executor_for(specs, {})
    assert local.name == "multiprocess"
    assert configuration(local)["max_concurrent"] == 8
    assert "forkserver" in configuration(local)["start_method"]


def test_the_executor_can_be_pods(manifest: dict[str, Any]) -> None:
    spec = parse_manifest(manifest).to_spec()
    assert executor_for([spec], {"DPONE_EXECUTOR": "k8s"}).name == "k8s"
    with pytest.raises(ManifestInvalid, match="DPONE_EXECUTOR"):
        executor_for([spec], {"DPONE_EXECUTOR": "kubernetes"})


# What Dagster does from the fork of a step to its first line, in a process that has what the fork server has.
STEP = """
import gc, importlib, json, os, sys
manifest, *preloaded = sys.argv[1:]
for name in preloaded:
    importlib.import_module(name)
before, threads = set(sys.modules), len(os.listdir("/proc/self/task"))
from dpone_dagster.campaign.overrides import AS_WRITTEN
from dpone_dagster.cli.dagster_run import build_job
from dpone_dagster.cli.instance import open_instance
from dpone_dagster.settings import dagster_home
with open_instance(dagster_home()):
    build_job(manifest, "orders_campaign", AS_WRITTEN.as_dict())
print(json.dumps([threads, sorted(sys.modules.keys() - before), gc.get_freeze_count(), gc.isenabled()]))
"""


def test_a_step_finds_everything_imported_by_a_fork_server_without_threads(
    folder: Path, manifest: dict[str, Any], instance: DagsterInstance
) -> None:
    preloaded = configuration(executor_for([], {}))["start_method"]["forkserver"]["preload_modules"]
    command = [sys.executable, "-c", STEP, str(write(folder, "orders", manifest)), *preloaded]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    threads, left, frozen, collecting = json.loads(done.stdout)
    assert threads == 1  # a fork would copy what another thread holds
    assert left == []
    assert frozen
    assert collecting


def test_the_fork_server_starts_with_the_command_unless_steps_are_pods() -> None:
    program = (
        "import os, sys\n"
        "from multiprocessing.forkserver import _forkserver\n"
        "from dpone_dagster.forking import start_fork_server\n"
        "start_fork_server({'DPONE_EXECUTOR': 'k8s'})\n"
        "assert _forkserver._forkserver_pid is None\n"
        "start_fork_server({})\n"
        "os.kill(_forkserver._forkserver_pid, 0)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_each_run_reads_the_manifest_anew(folder: Path, manifest: dict[str, Any], instance: DagsterInstance) -> None:
    path = write(folder, "orders", manifest)
    job = build_job(str(path), "orders_campaign", AS_WRITTEN.as_dict())
    assert build_job(str(path), "orders_campaign", AS_WRITTEN.as_dict()) is job
    path.write_text("sink: {}")
    with pytest.raises(ManifestInvalid):
        run_job(JobRequest(path, "orders_campaign", "run", folder / "log"))


def configuration(executor: Any) -> dict[str, Any]:
    return dict(executor.apply_config_mapping({"config": {}}).value["config"])


def test_the_packaged_settings_free_the_slots_of_dead_runs(instance: DagsterInstance) -> None:
    assert instance.run_monitoring_enabled
    assert 0 < instance.run_monitoring_settings["free_slots_after_run_end_seconds"] <= 300
    assert instance.run_retries_enabled
    assert not instance.run_retries_retry_on_asset_or_op_failure
    assert not instance.telemetry_enabled
    pools = instance.get_concurrency_config().pool_config
    assert pools.pool_granularity is not None
    assert (pools.pool_granularity.value, pools.default_pool_limit) == ("op", 64)


MAPPING = {"max_items": 3, "max_active": 2, "pool": "dpone_backfill"}


@pytest.mark.parametrize(("mode", "per_run"), [("summary", 3), ("visible", 1)])
def test_a_mapped_backfill_is_several_runs_within_one_pool(
    folder: Path, manifest: dict[str, Any], mode: str, per_run: int
) -> None:
    manifest["sink"]["strategy"]["backfill"]["parallel_workers"] = 1
    manifest["dagster"] = {"mapping": {**MAPPING, "mode": mode, "max_items": 3 if mode == "summary" else 8}}
    write(folder, "orders", manifest)
    defs = build_defs({}, folder)
    policy = graph(defs).get(AssetKey(["orders", "shadow"])).backfill_policy
    assert policy is not None
    assert policy.max_partitions_per_run == per_run
    job = defs.resolve_job_def("orders_campaign")
    pools = {node.name: node.pool for node in job.all_node_defs if hasattr(node, "pool")}
    # A run that finds no slot for its first step waits in the queue.
    assert pools["orders_prepare"] == pools["orders_lane"] == "dpone_backfill"
    # The campaign's own job is one run, and has all lanes.
    assert configuration(job.executor_def)["max_concurrent"] == 3
