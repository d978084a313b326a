"""A step whose run worker was killed ends by itself, whatever it waits for, and leaves no session."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection

import psycopg

from dpone_dagster.assets.failures import shown_to_dagster
from dpone_dagster.engine.validate import validate
from tests.engine.campaign import load
from tests.orders import Orders
from tests.waiting import PATIENCE_SECONDS, promised, within

WITHIN_SECONDS = 15
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'dpone orders validate%%' AND datname = %s"
)


def step(orders: Orders) -> None:
    with shown_to_dagster():
        validate(orders.spec, orders.connector, "run-1")


def run_worker(orders: Orders, there: Connection) -> None:
    child = multiprocessing.get_context("spawn").Process(target=step, args=(orders,))
    child.start()
    there.send(child.pid)
    child.join()


def test_a_step_that_waits_for_a_lock_ends_with_its_run(orders: Orders) -> None:
    load(orders)
    (database,) = orders.on_target("SELECT current_database()")[0]
    here, there = multiprocessing.Pipe()
    worker = multiprocessing.get_context("spawn").Process(target=run_worker, args=(orders, there))
    with psycopg.connect(orders.target_url) as blocker:
        blocker.execute(f'LOCK TABLE landing."{orders.spec.shadow.name}" IN ACCESS EXCLUSIVE MODE'.encode())
        worker.start()
        assert here.poll(PATIENCE_SECONDS)
        pid = here.recv()
        assert within(PATIENCE_SECONDS, lambda: waiting(orders))
        os.kill(worker.pid or 0, signal.SIGKILL)
        worker.join()
        assert within(promised(WITHIN_SECONDS), lambda: not alive(pid))
        assert within(promised(WITHIN_SECONDS), lambda: orders.on_target(SESSIONS, database) == [(0,)])


def waiting(orders: Orders) -> bool:
    return orders.on_target("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'") == [(1,)]


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
