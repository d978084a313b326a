"""Partition backfills as the UI launches them and the daemon carries them out, with the shipped workspace.yaml."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dagster import DagsterRunStatus
from dagster._core.execution.backfill import BulkActionStatus

from tests.dagster.daemon import Daemon, running_daemon
from tests.dagster.project import Project

pytestmark = [
    pytest.mark.slow,
    # Dagster 1.13.27 calls it itself.
    pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources` is deprecated:DeprecationWarning"),
]

ALL = ("shadow", "validated_shadow", "published_target", "xmin_handoff")


@pytest.fixture
def daemon(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.setenv("DPONE_MANIFESTS", str(project.manifest))
    with running_daemon(project.instance) as daemon:
        yield daemon


def test_some_partitions_then_the_missing_ones_with_everything_after_them(project: Project, daemon: Daemon) -> None:
    chosen = [project.keys[i] for i in (0, 1, 4, 5, 6, 7)]
    assert daemon.backfill("orders", ("shadow",), chosen) is BulkActionStatus.COMPLETED_SUCCESS
    # A subset with a hole is one run a contiguous range, side by side.
    assert len(project.instance.get_runs()) == 2
    assert project.statuses() == dict.fromkeys(chosen, "MATERIALIZED")

    missing = [key for key in project.keys if key not in chosen]
    assert daemon.backfill("orders", ALL, missing) is BulkActionStatus.COMPLETED_SUCCESS
    assert {run.status for run in project.instance.get_runs()} == {DagsterRunStatus.SUCCESS}
    assert set(project.statuses().values()) == {"MATERIALIZED"}
    orders = project.orders
    assert orders.target_rows() == orders.source_rows()
    # Every chunk was read once, whichever run it belonged to.
    assert orders.on_target("SELECT DISTINCT tries FROM system.__dpone__backfill_chunks") == [(1,)]
    assert orders.on_target("SELECT phase FROM system.__dpone__backfill_campaigns") == [("handoff_committed",)]
