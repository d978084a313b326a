"""Dagster's daemons as a process that can be killed: take up the backfill in flight, or launch one of everything.

    python -m tests.chaos.daemon MANIFEST SOCKET

The code location is a server of its own, as in every deployment; it outlives them, and so do the runs it executes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dagster import DagsterInstance
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES, BulkActionStatus
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import GrpcServerTarget
from dagster._grpc.client import DagsterGrpcClient

from dpone_dagster.assets.names import partitions_of
from dpone_dagster.cli.looking import open_campaign
from tests.dagster.daemon import Daemon
from tests.waiting import PATIENCE_SECONDS, within

ASSETS = ("shadow", "validated_shadow", "published_target", "xmin_handoff")


def code_server(socket: Path) -> list[str]:
    """The command of the code location's server.

    Args:
        socket: Where it listens; its path must be short.
    """
    return ["dagster", "api", "grpc", "--module-name", "dpone_dagster.definitions", "--socket", str(socket)]


def is_up(socket: str) -> bool:
    """Whether the code location's server answers there.

    Args:
        socket: Its socket.
    """
    try:
        DagsterGrpcClient(socket=socket).ping("")
    except DagsterUserCodeUnreachableError:
        return False
    return True


def main() -> int:
    manifest, socket = Path(sys.argv[1]), sys.argv[2]
    spec, _ = open_campaign(manifest)
    assert within(PATIENCE_SECONDS, lambda: is_up(socket))
    target = GrpcServerTarget(host="localhost", port=None, socket=socket, location_name="chaos")
    with DagsterInstance.get() as instance, WorkspaceProcessContext(instance, target) as workspace:
        daemon = Daemon(workspace)
        in_flight = [b for b in instance.get_backfills() if b.status not in BULK_ACTION_TERMINAL_STATUSES]
        backfill_id = (
            in_flight[0].backfill_id if in_flight else daemon.launch(spec.dataset, ASSETS, partitions_of(spec).keys())
        )
        print(f"backfill {backfill_id}", flush=True)
        return 0 if daemon.finish(backfill_id) is BulkActionStatus.COMPLETED_SUCCESS else 1


if __name__ == "__main__":
    sys.exit(main())
