"""The same campaign started twice: exactly one effect, and the other is told who holds what."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest
from dagster import DagsterRunStatus

from dpone_dagster.campaign.ledger import Worker
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.load import LaneResult, load_lane
from dpone_dagster.engine.prepare import prepare
from tests.commands import Run
from tests.dagster.project import Project
from tests.dagster.ui import Ui
from tests.engine.campaign import Seen, finish
from tests.orders import Orders
from tests.waiting import PATIENCE_SECONDS, within

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'public.orders'::regclass"
PUBLICATIONS = "SELECT count(*) FROM system.__dpone__publications"


@pytest.mark.slow
def test_the_command_and_the_second_click_beside_the_job_are_told_who_is_at_work(
    project: Project, ui: Ui, tmp_path: Path
) -> None:
    orders = project.orders
    with psycopg.connect(orders.source_url) as holder:
        holder.execute("LOCK TABLE public.orders IN ACCESS EXCLUSIVE MODE")
        job = ui.launch("orders_campaign")
        assert within(PATIENCE_SECONDS, lambda: orders.on_source(WAITING)[0][0] > 0)
        command = Run(orders, tmp_path, "run", "--execute")
        assert command.wait() == 3, command.printed()
        assert "CAMPAIGN_ACTIVE" in command.printed()
        assert "lane" in command.printed()
        second = ui.launch("orders_campaign")
        assert ui.end_of(second) is DagsterRunStatus.FAILURE
        said = ui.failures(second)
        assert "CAMPAIGN_ACTIVE" in said
        assert "lane" in said
    assert ui.end_of(job) is DagsterRunStatus.SUCCESS, ui.failures(job)
    assert orders.target_rows() == orders.source_rows()
    assert orders.on_target(PUBLICATIONS) == [(1,)]
    assert orders.on_target("SELECT DISTINCT tries FROM system.__dpone__backfill_chunks") == [(1,)]


@pytest.mark.slow
def test_two_commands_at_once_publish_once(orders: Orders, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    runs = [Run(orders, folder, "run", "--execute") for folder in folders]
    codes = sorted(run.wait() for run in runs)
    printed = [run.printed() for run in runs]
    assert codes in ([0, 0], [0, 3], [0, 1]), printed
    assert codes == [0, 0] or any("CAMPAIGN_ACTIVE" in text for text in printed), printed
    assert orders.target_rows() == orders.source_rows()
    assert orders.on_target(PUBLICATIONS) == [(1,)]


def test_two_workers_of_the_same_name_never_share_a_chunk(orders: Orders) -> None:
    """Two hosts, or two containers, of the same host name may both have a process 7."""
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    twin = Worker("run-1", 0, "worker", 7)
    everything = ChunkSelection.all(orders.spec.plan.count)
    both = [Seen(), Seen()]
    results: list[LaneResult] = []

    def work(seen: Seen) -> None:
        results.append(load_lane(orders.spec, orders.connector, twin, everything, seen))

    threads = [threading.Thread(target=work, args=(seen,)) for seen in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(result.committed for result in results) == orders.spec.plan.count
    assert sorted(both[0].done + both[1].done) == list(range(orders.spec.plan.count))
    finish(orders)
    assert orders.target_rows() == orders.source_rows()
