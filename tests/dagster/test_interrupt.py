"""Terminate reaches every lane, a waiting one too: its chunk is given back and no session stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psycopg
import pytest

from tests.dagster.project import Project

pytestmark = pytest.mark.slow

SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'dpone orders%%' AND datname IN (%s, %s)"
STATES = "SELECT state, count(*) FROM system.__dpone__backfill_chunks GROUP BY 1"
WITHIN_SECONDS = 15


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_lanes_that_wait_for_the_source_give_their_chunks_back(project: Project) -> None:
    orders = project.orders
    names = orders.on_source("SELECT current_database()")[0] + orders.on_target("SELECT current_database()")[0]
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'public.orders'::regclass"
    with psycopg.connect(orders.source_url) as migration:
        run = subprocess.Popen(
            [sys.executable, "-m", "tests.dagster.run_worker", str(project.manifest)],
            env=dict(os.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        prepared = "SELECT to_regclass('system.__dpone__backfill_chunks') IS NOT NULL"
        assert wait_for(lambda: orders.on_target(prepared) == [(True,)], 60)
        migration.execute("LOCK TABLE public.orders IN ACCESS EXCLUSIVE MODE")
        assert wait_for(lambda: orders.on_source(waiting)[0][0] == 2, 60)
        run.send_signal(signal.SIGINT)
        assert wait_for(lambda: orders.on_target(SESSIONS, *names) == [(0,)], WITHIN_SECONDS)
        assert run.wait(60) != 0
    states = dict(orders.on_target(STATES))
    assert states.keys() <= {"pending", "committed"}, states

    with project.run() as result:
        assert result.success, project.failures(result)
    assert orders.target_rows() == orders.source_rows()
