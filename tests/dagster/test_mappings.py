"""All three mappings from the launch dialog: what is run, what is skipped, what is red, what follows by itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from dagster import DagsterInstance
from dagster._core.execution.backfill import BulkActionStatus

from demo.embedded import Embedded
from dpone_dagster.campaign.mapping import MappingMode
from tests.dagster.conftest import SETTINGS
from tests.dagster.daemon import Daemon, running_daemon
from tests.dagster.project import Project
from tests.dagster.test_partial_failure import mend, spoil
from tests.orders import Orders, make_orders

pytestmark = [
    pytest.mark.slow,
    # Dagster 1.13.27 calls them itself.
    pytest.mark.filterwarnings("ignore:Function `AssetSelection.(sources|keys)` is deprecated:DeprecationWarning"),
]

POOL = "dpone_mappings"
# Chunks of each mode; a mapped run costs some seconds, whatever it loads.
CHUNKS: dict[MappingMode, int] = {"internal": 20, "summary": 20, "visible": 3}
MAPPINGS: dict[MappingMode, dict[str, object]] = {
    "internal": {"mode": "internal"},
    "summary": {"mode": "summary", "max_items": 2, "max_active": 2, "pool": POOL},
    "visible": {"mode": "visible", "max_active": 2, "pool": POOL},
}
TRIES = "SELECT chunk_index, tries FROM system.__dpone__backfill_chunks"
RUNNING = "SELECT count(*) FROM system.__dpone__backfill_chunks WHERE state = 'running'"


@dataclass
class Ground:
    """One campaign a mode, and one daemon for all of them."""

    projects: dict[MappingMode, Project]
    daemon: Daemon


def orders_of(server: Embedded, mode: MappingMode) -> Orders:
    source, target = f"{mode}_oltp", f"{mode}_dwh"
    orders = make_orders(server.recreate(source), server.recreate(target), rows=400, chunks=CHUNKS[mode], lanes=1)
    manifest = orders.manifest
    manifest["name"] = f"{mode}_orders"
    manifest["source"]["connection_ref"] = source
    manifest["source"]["options"]["xmin_execution"]["handoff_id"] = f"{mode}_v1"
    manifest["sink"]["connection_ref"] = manifest["state"]["connection_ref"] = target
    orders.backfill["on_chunk_failure"] = "continue"
    manifest["dagster"] = {"mapping": MAPPINGS[mode], "automate": mode == "summary"}
    return orders


@pytest.fixture(scope="module")
def ground(postgres: Embedded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    home, folders = tmp_path_factory.mktemp("dagster"), {mode: tmp_path_factory.mktemp(mode) for mode in CHUNKS}
    shutil.copy(SETTINGS, home)
    all_orders = {mode: orders_of(postgres, mode) for mode in CHUNKS}
    manifests = {mode: orders.write(folders[mode]) for mode, orders in all_orders.items()}
    with pytest.MonkeyPatch.context() as patch:
        for orders in all_orders.values():
            for name, value in orders.environment.items():
                patch.setenv(name, value)
        patch.setenv("DAGSTER_HOME", str(home))
        patch.setenv("DPONE_MANIFESTS", ":".join(map(str, manifests.values())))
        with DagsterInstance.get() as instance, running_daemon(instance) as daemon:
            yield Ground({mode: Project(all_orders[mode], manifests[mode], instance) for mode in CHUNKS}, daemon)
    for mode in CHUNKS:
        postgres.drop(f"{mode}_oltp")
        postgres.drop(f"{mode}_dwh")


def runs_of(ground: Ground, project: Project) -> int:
    """How many runs there were of the campaign's shadow."""
    runs = ground.daemon.instance.get_runs()
    return sum(any(key.path == [project.dataset, "shadow"] for key in run.asset_selection or ()) for run in runs)


def tries_of(project: Project) -> dict[int, int]:
    return dict(project.orders.on_target(TRIES))


@pytest.mark.parametrize(
    ("mode", "runs_of_two", "runs_of_all"), [("internal", 1, 1), ("summary", 1, 2), ("visible", 2, 3)]
)
def test_a_range_then_all_with_one_bad_chunk_then_what_is_missing(
    ground: Ground, mode: MappingMode, runs_of_two: int, runs_of_all: int
) -> None:
    project, daemon = ground.projects[mode], ground.daemon
    keys, name = project.keys, project.dataset
    bad = spoil(project, 2)
    assert daemon.backfill(name, ("shadow",), keys[:2]) is BulkActionStatus.COMPLETED_SUCCESS
    assert project.statuses() == dict.fromkeys(keys[:2], "MATERIALIZED")
    assert runs_of(ground, project) == runs_of_two

    assert daemon.backfill(name, ("shadow",), keys) is BulkActionStatus.COMPLETED_FAILED
    assert runs_of(ground, project) == runs_of_two + runs_of_all
    shown = project.statuses()
    assert shown == dict.fromkeys(keys, "MATERIALIZED") | {keys[2]: "FAILED"}
    # What was loaded before is skipped by its receipt, and the bad chunk took no other with it.
    assert set(tries_of(project).values()) == {1}
    if mode == "summary":  # only it is automated; a tick for another mode would carry it on, once it is whole
        assert daemon.automate() == []

    mend(project, bad)
    missing = [key for key in keys if shown.get(key) != "MATERIALIZED"]
    assert daemon.backfill(name, ("shadow",), missing) is BulkActionStatus.COMPLETED_SUCCESS
    assert runs_of(ground, project) == runs_of_two + runs_of_all + 1
    assert set(project.statuses().values()) == {"MATERIALIZED"}
    assert tries_of(project) == {index: 1 + (index == 2) for index in range(len(keys))}
    receipts = "SELECT count(*), count(DISTINCT chunk_index) FROM system.__dpone__chunk_receipts"
    assert project.orders.on_target(receipts) == [(len(keys), len(keys))]
    mapping = project.last_materializations()[keys[2]].get("backfill.mapping")
    if mode == "internal":
        assert mapping is None
    else:
        assert (mapping["mode"], mapping["first_chunk"], mapping["last_chunk"], mapping["chunks"]) == (mode, 2, 2, 1)
        assert (mapping["runs_of_all"], mapping["max_active"], mapping["pool"]) == (runs_of_all, 2, POOL)
        assert mapping["plan_digest"] == project.orders.spec.plan_digest[:32]


def test_the_rest_follows_by_itself_after_the_last_partition(ground: Ground) -> None:
    project, daemon = ground.projects["summary"], ground.daemon
    assert set(project.statuses().values()) == {"MATERIALIZED"}, "the test before has loaded it"
    started = daemon.automate()
    assert started == ["published_target", "validated_shadow", "xmin_handoff"]
    daemon.drain()
    assert daemon.automate() == []
    orders = project.orders
    assert orders.target_rows() == orders.source_rows()
    assert orders.on_target("SELECT phase FROM system.__dpone__backfill_campaigns") == [("handoff_committed",)]
