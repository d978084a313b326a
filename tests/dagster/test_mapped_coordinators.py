"""The same campaign started by a command and by a mapped backfill: one effect, and whoever waits is told for whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from dagster import DagsterRunStatus, RunsFilter
from dagster._core.execution.backfill import BulkActionStatus

from dpone_dagster.engine.prepare import prepare
from tests.commands import Run
from tests.dagster.daemon import Daemon, running_daemon
from tests.dagster.project import Project
from tests.orders import Orders

pytestmark = [
    pytest.mark.slow,
    # Dagster 1.13.27 calls it itself.
    pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources` is deprecated:DeprecationWarning"),
]

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'public.orders'::regclass"
PUBLICATIONS = "SELECT count(*) FROM system.__dpone__publications"
RUNNING = "SELECT count(*) FROM system.__dpone__backfill_chunks WHERE state = 'running'"
POOL = "dpone_coordinators"


@pytest.fixture
def mapped(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Three chunks, one run each, of which two may load at a time; and the UI with its daemon."""
    project.orders.backfill["chunk"]["buckets"] = 3
    project.orders.backfill["parallel_workers"] = 1
    project.orders.manifest["dagster"] = {"mapping": {"mode": "visible", "max_active": 2, "pool": POOL}}
    project.write()
    monkeypatch.setenv("DPONE_MANIFESTS", str(project.manifest))
    with running_daemon(project.instance) as daemon:
        yield daemon


def each_chunk_once(orders: Orders) -> bool:
    """Whether three chunks have a receipt each, and each was tried once."""
    receipts = "SELECT count(*), count(DISTINCT chunk_index) FROM system.__dpone__chunk_receipts"
    tries = "SELECT DISTINCT tries FROM system.__dpone__backfill_chunks"
    return orders.on_target(receipts) == [(3, 3)] and orders.on_target(tries) == [(1,)]


def test_the_command_beside_mapped_runs_is_told_who_is_at_work_and_the_pool_bounds_them(
    project: Project, mapped: Daemon, tmp_path: Path
) -> None:
    orders = project.orders
    prepare(orders.spec, orders.connector, intent="run", run_id="before")
    with psycopg.connect(orders.source_url) as holder:
        holder.execute("LOCK TABLE public.orders IN ACCESS EXCLUSIVE MODE")
        backfill = mapped.launch("orders", ("shadow",), project.keys)
        # Every run's lane is there: two have a slot, and the third waits for one.
        mapped.until(lambda: slots(mapped) == (2, 3))
        mapped.until(lambda: orders.on_source(WAITING) == [(2,)])
        assert orders.on_target(RUNNING) == [(2,)]
        command = Run(orders, tmp_path, "run", "--execute")
        assert command.wait() == 3, command.printed()
        assert "CAMPAIGN_ACTIVE" in command.printed()
        running = {run.run_id[:8] for run in mapped.instance.get_runs() if run.status is DagsterRunStatus.STARTED}
        assert any(f"lane 0 {run}" in command.printed() for run in running), command.printed()
    assert mapped.finish(backfill) is BulkActionStatus.COMPLETED_SUCCESS
    assert each_chunk_once(orders)


def test_mapped_runs_beside_the_command_wait_for_its_lanes_and_find_all_done(
    project: Project, mapped: Daemon, tmp_path: Path
) -> None:
    orders = project.orders
    prepare(orders.spec, orders.connector, intent="run", run_id="before")
    with psycopg.connect(orders.source_url) as holder:
        holder.execute("LOCK TABLE public.orders IN ACCESS EXCLUSIVE MODE")
        command = Run(orders, tmp_path, "run", "--execute")
        command.wait_for(lambda: orders.on_source(WAITING) == [(2,)])  # its two lanes have both slots
        backfill = mapped.launch("orders", ("shadow",), project.keys)
        mapped.until(lambda: mapped.instance.get_runs_count(RunsFilter(statuses=[DagsterRunStatus.QUEUED])) == 3)
        holders = mapped.instance.event_log_storage.get_concurrency_info(POOL).claimed_slots
        assert len({slot.run_id for slot in holders}) == 1  # what the UI shows of the pool: the command's run
    assert command.wait() == 0, command.printed()
    assert mapped.finish(backfill) is BulkActionStatus.COMPLETED_SUCCESS
    assert each_chunk_once(orders)
    assert orders.target_rows() == orders.source_rows()
    assert orders.on_target(PUBLICATIONS) == [(1,)]
    assert set(project.statuses().values()) == {"MATERIALIZED"}


def slots(daemon: Daemon) -> tuple[int, int]:
    """Slots of the pool that are taken, and steps that have asked for one.

    Of two that ask at once Dagster may tell both that they are next, though it gives one slot.
    """
    info = daemon.instance.event_log_storage.get_concurrency_info(POOL)
    return info.active_slot_count, len(info.pending_steps)
