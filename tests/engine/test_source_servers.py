"""Increments from servers that are not what they were: wrapped, a standby, promoted, another one."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg
import pytest

from dpone_dagster.campaign.errors import SourceTimelineChanged
from dpone_dagster.engine.increment import IncrementResult, run_increment
from tests.engine.campaign import finish, load
from tests.integration.clusters import burn, primary_and_standby, replayed, wrapping_server
from tests.mssql_orders import make_mssql_orders
from tests.orders import Orders, make_orders

WRAP = 2**32


def cut_off(standby: str) -> None:
    """The standby gets nothing more from its primary."""
    with psycopg.connect(standby, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
        connection.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + 60
        while connection.execute("SELECT FROM pg_stat_wal_receiver").fetchall():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def increment(orders: Orders, run_id: str) -> IncrementResult:
    return run_increment(orders.spec, orders.connector, run_id)


@pytest.mark.parametrize("kind", ["postgres", "mssql"])
def test_a_campaign_and_its_increments_cross_the_wrap(
    request: pytest.FixtureRequest, kind: str, new_database: Callable[[str], str]
) -> None:
    with wrapping_server(epoch=1) as source:
        if kind == "postgres":
            orders = make_orders(source, new_database("dwh"), rows=200, chunks=4)
        else:
            orders = make_mssql_orders(source, request.getfixturevalue("mssql_warehouse"), rows=200, chunks=4)
        load(orders)
        finish(orders)
        orders.on_source("UPDATE public.orders SET note = 'before the wrap' WHERE paid")
        first = increment(orders, "inc-1")
        assert first.anchor_from.xid < first.anchor_to.xid < 2 * WRAP
        assert first.updated == 100
        orders.on_source("UPDATE public.orders SET note = 'still before' WHERE NOT paid")
        burn(source, 300)
        orders.on_source("INSERT INTO public.orders SELECT gen_random_uuid(), 1, now(), 'after the wrap', true, NULL")
        across = increment(orders, "inc-2")
        assert across.anchor_to.xid > 2 * WRAP
        assert across.anchor_to.low32 < across.anchor_from.low32
        assert (across.rows_read, across.inserted, across.updated) == (101, 1, 100)
        orders.on_source("VACUUM (FREEZE) public.orders")
        assert increment(orders, "inc-3").rows_read == 0
        orders.on_source("UPDATE public.orders SET note = 'later' WHERE note = 'still before'")
        orders.on_source("VACUUM (FREEZE) public.orders")
        assert increment(orders, "inc-4").rows_read == 100
        assert orders.target_rows() == orders.source_rows()


def test_increments_read_a_standby_and_go_on_after_its_promotion_once_rows_are_compared(
    new_database: Callable[[str], str],
) -> None:
    with primary_and_standby() as (primary, standby):
        orders = make_orders(primary, new_database("dwh"), rows=200, chunks=4)
        load(orders)
        finish(orders)
        orders.on_source("UPDATE public.orders SET note = 'on the primary' WHERE paid")
        replayed(primary, standby)
        orders.source_url = standby
        assert increment(orders, "inc-1").updated == 100
        assert orders.target_rows() == orders.source_rows()

        # What the primary commits now, the standby never gets: an increment from the primary has it.
        cut_off(standby)
        orders.source_url = primary
        orders.on_source("UPDATE public.orders SET note = 'lost' WHERE NOT paid")
        orders.on_source("INSERT INTO public.orders SELECT gen_random_uuid(), 1, now(), 'lost', true, NULL")
        lost = increment(orders, "inc-2")
        assert (lost.inserted, lost.updated) == (1, 100)
        orders.source_url = standby
        orders.on_source("SELECT pg_promote()")
        checkpoint = orders.on_target("SELECT * FROM system.__dpone__xmin_checkpoints")
        with pytest.raises(SourceTimelineChanged, match="this is timeline 2, the anchor is of 1") as caught:
            increment(orders, "inc-3")
        assert "--compare rows" in caught.value.advice
        assert orders.on_target("SELECT * FROM system.__dpone__xmin_checkpoints") == checkpoint

        settled = run_increment(orders.spec, orders.connector, "inc-4", compare="rows")
        assert (settled.inserted, settled.updated, settled.deleted, settled.compared) == (0, 100, 1, "rows")
        assert settled.anchor_to.identity.timeline == 2
        assert orders.target_rows() == orders.source_rows()
        orders.on_source("UPDATE public.orders SET note = 'new times' WHERE paid")
        assert increment(orders, "inc-5").updated == 100
        assert orders.target_rows() == orders.source_rows()
