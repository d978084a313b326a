"""A step that is told to stop says so in the audit rows; and a heartbeat outlives whatever its display raises."""

from __future__ import annotations

import os
import signal
import threading

import psycopg
import pytest

from dpone_dagster.engine import card, heartbeat
from dpone_dagster.engine import load as load_module
from dpone_dagster.engine.card import CampaignCard
from dpone_dagster.engine.heartbeat import Heartbeat
from dpone_dagster.engine.load import chunks_of_each
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.engine.validate import validate
from tests.engine.campaign import load
from tests.orders import Orders
from tests.waiting import PATIENCE_SECONDS, within


class Told(BaseException):
    """As an interrupt of Dagster."""


def test_a_step_that_is_told_to_stop_is_not_left_running(orders: Orders) -> None:
    load(orders)

    def stop(number: int, frame: object) -> None:
        raise Told

    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'"

    def tell() -> None:
        within(PATIENCE_SECONDS, lambda: orders.on_target(waiting) == [(1,)])
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, stop)
    teller = threading.Thread(target=tell)
    with psycopg.connect(orders.target_url) as blocker:
        blocker.execute(f'LOCK TABLE landing."{orders.spec.shadow.name}" IN ACCESS EXCLUSIVE MODE'.encode())
        teller.start()
        with pytest.raises(Told):
            validate(orders.spec, orders.connector, "run-2")
    teller.join()
    signal.signal(signal.SIGUSR1, before)
    loads = "SELECT status, facts ->> 'code' FROM system.__dpone__loads WHERE load_id = 'run-2'"
    assert orders.on_target(loads) == [("failed", "INTERRUPTED")]


def test_a_heartbeat_goes_on_whatever_a_display_raises(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(card, "REFRESH_SECONDS", 0.05)
    monkeypatch.setattr(card, "_SHARE_OF_TIME", 0)
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    cards: list[CampaignCard] = []

    def show(seen: CampaignCard) -> None:
        cards.append(seen)
        raise ValueError("no such place")

    with Heartbeat(orders.spec, orders.connector, lambda: True, show):
        within(PATIENCE_SECONDS, lambda: len(cards) > 2)
    assert len(cards) > 2


def test_chunks_are_read_by_pages_and_told_group_by_group(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    load(orders)
    monkeypatch.setattr(load_module, "_PAGE_CHUNKS", 4)
    with target_session(orders.connector, "test") as target:
        groups = list(chunks_of_each(orders.spec, target, [(3, 5), (0, 3), (5, 8)]))
    assert [[chunk.index for chunk in group] for group in groups] == [[3, 4], [0, 1, 2], [5, 6, 7]]
