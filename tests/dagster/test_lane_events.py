"""The event log may fail; a lane may not fail with it. And a lane whose run is gone knows it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any

import pytest
from dagster import AssetMaterialization, AssetObservation, DagsterExecutionInterruptedError

from dpone_dagster.assets import lane_events
from dpone_dagster.assets.lane_events import LaneEvents
from dpone_dagster.assets.watchdog import run_is_alive
from dpone_dagster.campaign.errors import CountMismatch
from dpone_dagster.campaign.ledger import ChunkRecord, ChunkState, Phase, Worker
from dpone_dagster.campaign.manifest import parse_manifest
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.engine.card import CampaignCard
from tests.dagster.manifests import manifest_of
from tests.engine.campaign import load
from tests.orders import Orders
from tests.waiting import PATIENCE_SECONDS, within

SPEC = parse_manifest(manifest_of(chunks=8, lanes=2)).to_spec()
RECEIPT = ChunkReceipt(SPEC.run_key, 3, "receipt-3", "plan", "contract", "binding", epoch=1, rows=250)
PROGRESS = Progress(5, 1, 1, 1, 0, 250, 250, 0.5, 0.5)
SLOW = ChunkRecord(
    3, ChunkState.COMMITTED, 1, 1, Worker("0123456789", 1, "host", 7), rows=250, seconds=0.5, receipt_id="receipt-3"
)
CARD = CampaignCard(
    Phase.LOADING, PROGRESS, "pending", "pending", "chunk 4 | <b>failed</b>", (SLOW,), datetime(2026, 1, 2, tzinfo=UTC)
)


class Context:
    """Stands for a step's context: keeps events, or raises what the event log's storage raised."""

    def __init__(self, trouble: BaseException | None = None, lane: int = 0) -> None:
        self.events: list[AssetMaterialization] = []
        self.cards: list[AssetObservation] = []
        self.log = self
        self._trouble = trouble
        self._lane = lane

    def get_mapping_key(self) -> str:
        return str(self._lane)

    def log_event(self, event: AssetMaterialization | AssetObservation) -> None:
        if isinstance(event, AssetObservation):
            self.cards.append(event)
        else:
            self.info(event)

    def info(self, event: Any) -> None:
        if self._trouble is not None:
            raise self._trouble
        self.events.append(event)

    error = info


def tell_all(context: Any) -> None:
    events = LaneEvents(context, SPEC, connector=None)  # type: ignore[arg-type]  # one chunk a partition: none is opened
    events.committed(SPEC.plan.chunk(3), RECEIPT, 0.5, replayed=False)
    events.failed(SPEC.plan.chunk(4), CountMismatch("one row less"))
    events.progress(CARD)
    events.close()


def test_a_committed_chunk_is_shown_with_its_numbers() -> None:
    context = Context()
    tell_all(context)
    event = context.events[0]
    assert event.partition is not None
    assert event.partition.startswith("c0003-")
    values = {name: value.value for name, value in event.metadata.items()}
    assert (
        values.items()
        >= {
            "rows": 250,
            "seconds": 0.5,
            "rows_per_second": 500,
            "receipt_id": "receipt-3",
            "replayed": False,
            "dagster/partition_row_count": 250,
        }.items()
    )


def test_the_card_is_shown_with_each_chunk_and_alone_where_none_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = Context()
    events = LaneEvents(context, SPEC, connector=None)  # type: ignore[arg-type]
    events.progress(CARD)
    events.progress(CARD)
    assert len(context.cards) == 1  # not again within the minute
    assert context.cards[0].partition is None
    events.committed(SPEC.plan.chunk(3), RECEIPT, 0.5, replayed=False)
    assert within(PATIENCE_SECONDS, lambda: any(isinstance(event, AssetMaterialization) for event in context.events))
    (event,) = (event for event in context.events if isinstance(event, AssetMaterialization))
    assert event.metadata["rows"].value == 250
    assert event.metadata["campaign"] == context.cards[0].metadata["campaign"]
    text = event.metadata["campaign"].value
    assert "**loading** as of 2026-01-02 00:00:00 UTC" in text
    assert "| chunks | 1 committed, 1 running, 5 pending, 1 failed (of 8) |" in text
    assert "| rows/s | 500 |" in text
    assert "| to go | 0:00:04 |" in text
    assert "| validation | pending |" in text
    assert "\\| \\<b\\>failed" in text  # what others wrote is no markup
    assert len(text) < 1_000  # above that the page shows a link instead
    (slow,) = event.metadata["slowest_chunks"].value.records  # type: ignore[union-attr]
    assert slow.data == {
        "chunk": 3,
        "state": "committed",
        "seconds": 0.5,
        "rows": 250,
        "lane": "01234567 lane 1",
    }
    monkeypatch.setattr(lane_events, "_QUIET_SECONDS", 0.0)
    events.progress(CARD)
    assert len(context.cards) == 2
    other: Any = Context(lane=1)
    LaneEvents(other, SPEC, connector=None).progress(CARD)  # type: ignore[arg-type]
    assert other.cards == []


def test_an_event_is_written_while_the_next_chunk_is_worked_on_and_no_more_than_one_is_behind() -> None:
    writing = threading.Event()

    class Slow(Context):
        def log_event(self, event: AssetMaterialization | AssetObservation) -> None:
            writing.wait(PATIENCE_SECONDS)
            super().log_event(event)

    context: Any = Slow()
    events = LaneEvents(context, SPEC, connector=None)  # type: ignore[arg-type]
    events.committed(SPEC.plan.chunk(3), RECEIPT, 0.5, replayed=False)
    assert context.events == []
    writing.set()
    events.committed(SPEC.plan.chunk(4), RECEIPT, 0.5, replayed=False)
    assert context.events
    events.close()
    assert [event.partition[:5] for event in context.events] == ["c0003", "c0004"]


def test_a_failing_event_log_does_not_fail_the_lane() -> None:
    tell_all(Context(OSError("database is locked")))


def test_an_interrupt_of_dagster_is_not_swallowed() -> None:
    with pytest.raises(DagsterExecutionInterruptedError):
        tell_all(Context(DagsterExecutionInterruptedError()))


def lane(told: Connection) -> None:
    """What a lane does between chunks."""
    told.send(("alive", run_is_alive()))
    within(PATIENCE_SECONDS, lambda: not run_is_alive())
    told.send(("alive", run_is_alive()))


def run_worker(told: Connection) -> None:
    """A run's process: starts a lane as the multiprocess executor does."""
    child = multiprocessing.get_context("forkserver").Process(target=lane, args=(told,))
    child.start()
    child.join()


def test_a_lane_knows_that_its_run_was_killed() -> None:
    assert run_is_alive()
    here, there = multiprocessing.Pipe()
    worker = multiprocessing.get_context("spawn").Process(target=run_worker, args=(there,))
    worker.start()
    assert here.poll(PATIENCE_SECONDS)
    assert here.recv() == ("alive", True)
    os.kill(worker.pid or 0, signal.SIGKILL)
    worker.join()
    assert here.poll(PATIENCE_SECONDS)
    assert here.recv() == ("alive", False)


def test_a_group_is_shown_again_after_its_connection_was_lost(orders: Orders) -> None:
    orders.manifest["dagster"] = {"max_partitions": 2}
    load(orders)
    context: Any = Context()
    events = LaneEvents(context, orders.spec, orders.connector)
    mine = "pg_stat_activity WHERE application_name = 'dpone orders events' AND datname = current_database()"

    def shown(number: int) -> bool:
        return within(PATIENCE_SECONDS, lambda: len(context.events) == number)

    for place in range(3):
        events.committed(orders.spec.plan.chunk(7), RECEIPT, 0.5, replayed=False)
        assert shown((1, 1, 2)[place])
        if place == 0:
            orders.on_target(f"SELECT pg_terminate_backend(pid, 10000) FROM {mine}")
    events.close()
    assert orders.on_target(f"SELECT count(*) FROM {mine}") == [(0,)]
