"""Partition backfills as the UI launches them and the daemon carries them out, with the shipped workspace.yaml."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterRunStatus
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES, BulkActionStatus
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster_graphql.client.query import LAUNCH_PARTITION_BACKFILL_MUTATION
from dagster_graphql.test.utils import execute_dagster_graphql

from tests.dagster.project import Project

pytestmark = [
    pytest.mark.slow,
    # Dagster 1.13.27 calls it itself.
    pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources` is deprecated:DeprecationWarning"),
]

WORKSPACE = Path(__file__).parents[2] / "workspace.yaml"
ALL = ("shadow", "validated_shadow", "published_target", "xmin_handoff")


@pytest.fixture
def workspace(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspaceProcessContext]:
    """The code location in a server process of its own, as `dagster dev` has it."""
    monkeypatch.setenv("DPONE_MANIFESTS", str(project.manifest))
    target = WorkspaceFileTarget([str(WORKSPACE)])
    with create_test_daemon_workspace_context(target, project.instance) as context:
        yield context


def backfill(workspace: WorkspaceProcessContext, assets: tuple[str, ...], keys: list[str]) -> BulkActionStatus:
    """What the launch dialog sends; then the daemons' iterations until it is done."""
    selection = [{"path": ["orders", name]} for name in assets]
    answer = execute_dagster_graphql(
        workspace.create_request_context(),
        LAUNCH_PARTITION_BACKFILL_MUTATION,
        variables={"backfillParams": {"assetSelection": selection, "partitionNames": keys}},
    )
    launched = answer.data["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched
    instance, logger = workspace.instance, logging.getLogger("backfill")
    queue = QueuedRunCoordinatorDaemon(interval_seconds=1)
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline:
        problems = [p for p in execute_backfill_iteration(workspace, logger) if p is not None]
        problems += [p for p in queue.run_iteration(workspace) if p is not None]
        assert not problems
        state = instance.get_backfill(launched["backfillId"])
        assert state is not None
        if state.status in BULK_ACTION_TERMINAL_STATUSES:
            return state.status
        time.sleep(0.5)
    raise AssertionError([(run.status, dict(run.tags)) for run in instance.get_runs()])


def test_some_partitions_then_the_missing_ones_with_everything_after_them(
    project: Project, workspace: WorkspaceProcessContext
) -> None:
    chosen = [project.keys[i] for i in (0, 1, 4, 5, 6, 7)]
    assert backfill(workspace, ("shadow",), chosen) is BulkActionStatus.COMPLETED_SUCCESS
    # A subset with a hole is one run a contiguous range, side by side.
    assert len(project.instance.get_runs()) == 2
    assert project.statuses() == dict.fromkeys(chosen, "MATERIALIZED")

    missing = [key for key in project.keys if key not in chosen]
    assert backfill(workspace, ALL, missing) is BulkActionStatus.COMPLETED_SUCCESS
    assert {run.status for run in project.instance.get_runs()} == {DagsterRunStatus.SUCCESS}
    assert set(project.statuses().values()) == {"MATERIALIZED"}
    orders = project.orders
    assert orders.target_rows() == orders.source_rows()
    # Every chunk was read once, whichever run it belonged to.
    assert orders.on_target("SELECT DISTINCT tries FROM system.__dpone__backfill_chunks") == [(1,)]
    assert orders.on_target("SELECT phase FROM system.__dpone__backfill_campaigns") == [("handoff_committed",)]
