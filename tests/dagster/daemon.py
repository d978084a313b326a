"""Backfills as the UI launches them, and the daemons' iterations that carry them out, one by one."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from dagster import DagsterInstance, RunsFilter
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES, BulkActionStatus
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._daemon import asset_daemon
from dagster._daemon.backfill import execute_backfill_iteration
from dagster._daemon.controller import create_daemon_grpc_server_registry
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster_graphql.client.query import LAUNCH_PARTITION_BACKFILL_MUTATION
from dagster_graphql.test.utils import execute_dagster_graphql

WORKSPACE = Path(__file__).parents[2] / "workspace.yaml"
_WAIT_SECONDS = 300


@dataclass
class Daemon:
    """The code location in a server process of its own, as `dagster dev` has it, and the daemons of its instance."""

    workspace: WorkspaceProcessContext

    @property
    def instance(self) -> DagsterInstance:
        return self.workspace.instance

    def launch(self, dataset: str, assets: Sequence[str], keys: Sequence[str]) -> str:
        """What the launch dialog sends; returns the backfill's id."""
        selection = [{"path": [dataset, name]} for name in assets]
        answer = execute_dagster_graphql(
            self.workspace.create_request_context(),
            LAUNCH_PARTITION_BACKFILL_MUTATION,
            variables={"backfillParams": {"assetSelection": selection, "partitionNames": list(keys)}},
        )
        launched = answer.data["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return str(launched["backfillId"])

    def until(self, reached: Callable[[], bool]) -> None:
        """Let the daemons of backfills and of the queue work until it is reached."""
        logger = logging.getLogger("backfill")
        queue = QueuedRunCoordinatorDaemon(interval_seconds=1)
        deadline = time.monotonic() + _WAIT_SECONDS
        while not reached():
            problems = [p for p in execute_backfill_iteration(self.workspace, logger) if p is not None]
            problems += [p for p in queue.run_iteration(self.workspace) if p is not None]
            assert not problems
            assert time.monotonic() < deadline, [(run.status, dict(run.tags)) for run in self.instance.get_runs()]
            time.sleep(0.5)

    def automate(self) -> list[str]:
        """One tick of every automation sensor, as if its pause were over; returns the assets of the runs it started."""
        before = {run.run_id for run in self.instance.get_runs()}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asset_daemon, "is_under_min_interval", lambda *_, **__: False)
            asset_daemon.AssetDaemon({}, 0)._run_iteration_impl(self.workspace, None, {}, {})
        for sensor in self.instance.all_instigator_state():
            for tick in self.instance.get_ticks(sensor.instigator_origin_id, sensor.selector_id, limit=1):
                assert tick.error is None, tick.error.message
        started = [run for run in self.instance.get_runs() if run.run_id not in before]
        return sorted(key.path[-1] for run in started for key in run.asset_selection or ())

    def drain(self) -> None:
        """Work until every run has ended."""
        self.until(lambda: not self.instance.get_runs_count(RunsFilter(statuses=NOT_FINISHED_STATUSES)))

    def state(self, backfill_id: str) -> BulkActionStatus:
        found = self.instance.get_backfill(backfill_id)
        assert found is not None
        return found.status

    def finish(self, backfill_id: str) -> BulkActionStatus:
        """Work until the backfill is done; returns how it ended."""
        self.until(lambda: self.state(backfill_id) in BULK_ACTION_TERMINAL_STATUSES)
        return self.state(backfill_id)

    def backfill(self, dataset: str, assets: Sequence[str], keys: Sequence[str]) -> BulkActionStatus:
        """Launch, and work until it is done."""
        return self.finish(self.launch(dataset, assets, keys))


@contextlib.contextmanager
def running_daemon(instance: DagsterInstance) -> Iterator[Daemon]:
    """A daemon of the shipped workspace; DPONE_MANIFESTS and the connections are those of the environment."""
    target = WorkspaceFileTarget([str(WORKSPACE)])
    with (
        create_daemon_grpc_server_registry(instance) as servers,
        WorkspaceProcessContext(instance, target, grpc_server_registry=servers) as workspace,
    ):
        yield Daemon(workspace)
    for server in servers._all_processes:  # told to end; one that is left behind fails the test run at its very end
        server.server_process.wait(_WAIT_SECONDS)
