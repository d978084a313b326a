"""The UI's *Terminate* reaches every lane, a waiting one too: its chunk is given back and no session stays."""

from __future__ import annotations

import psycopg
import pytest
from dagster import DagsterRunStatus

from tests.dagster.project import Project
from tests.dagster.ui import Ui
from tests.waiting import PATIENCE_SECONDS, promised, within

pytestmark = pytest.mark.slow

SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'dpone orders%%' AND datname IN (%s, %s)"
STATES = "SELECT state, count(*) FROM system.__dpone__backfill_chunks GROUP BY 1"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'public.orders'::regclass"
WITHIN_SECONDS = 15


def test_lanes_that_wait_for_the_source_give_their_chunks_back(project: Project, ui: Ui) -> None:
    orders = project.orders
    names = orders.on_source("SELECT current_database()")[0] + orders.on_target("SELECT current_database()")[0]
    with psycopg.connect(orders.source_url) as migration:
        migration.execute("LOCK TABLE public.orders IN ACCESS EXCLUSIVE MODE")
        run_id = ui.launch("orders_campaign")
        assert within(PATIENCE_SECONDS, lambda: orders.on_source(WAITING) == [(2,)])
        ui.terminate(run_id)
        assert within(promised(WITHIN_SECONDS), lambda: orders.on_target(SESSIONS, *names) == [(0,)])
        assert ui.end_of(run_id) is DagsterRunStatus.CANCELED
    states = dict(orders.on_target(STATES))
    assert states == {"pending": orders.spec.plan.count}

    assert ui.end_of(ui.launch("orders_campaign")) is DagsterRunStatus.SUCCESS
    assert orders.target_rows() == orders.source_rows()
