"""`dpone` told to stop while a later step waits for a lock: 130, `CANCELED`, and nothing of it left on a server."""

from __future__ import annotations

import signal
from pathlib import Path

import psycopg
import pytest
from dagster import DagsterInstance

from tests.commands import Run
from tests.engine.campaign import load
from tests.orders import Orders
from tests.waiting import promised, within

pytestmark = pytest.mark.slow
WITHIN_SECONDS = 15
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'dpone %' AND datname = current_database()"
)


def no_session(orders: Orders) -> bool:
    return orders.on_target(SESSIONS) == orders.on_source(SESSIONS) == [(0,)]


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_validation_that_waits_is_left(orders: Orders, tmp_path: Path, told: signal.Signals) -> None:
    load(orders)
    before = orders.target_rows()
    with psycopg.connect(orders.target_url) as blocker:
        blocker.execute(f'LOCK TABLE landing."{orders.spec.shadow.name}" IN ACCESS EXCLUSIVE MODE'.encode())
        run = Run(orders, tmp_path, "run", "--execute")
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'"
        run.wait_for(lambda: orders.on_target(waiting) == [(1,)])
        run.process.send_signal(told)
        assert within(
            promised(WITHIN_SECONDS), lambda: orders.on_target(SESSIONS) == orders.on_source(SESSIONS) == [(0,)]
        )
        assert run.wait() == 130
    with DagsterInstance.from_config(str(tmp_path / "dagster")) as instance:
        assert [dagster_run.status.value for dagster_run in instance.get_runs()] == ["CANCELED"]
    assert orders.target_rows() == before
    again = Run(orders, tmp_path, "resume")
    assert again.wait() == 0, again.printed()
    assert orders.target_rows() == orders.source_rows()
