"""Other campaigns of the table that a `direct` one writes: nobody's lock is overlooked, whatever the rows say.

With a SQL Server target: Verified on Babelfish 4.3. UNVERIFIED on SQL Server.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from dpone_dagster.campaign.errors import CampaignActive, DponeError, RightsMissing, StateElsewhere
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.cancel import cancel
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.mssql import chunkwrite as mssql_chunkwrite
from dpone_dagster.mssql import fence as mssql_fence
from dpone_dagster.postgres import chunkwrite as postgres_chunkwrite
from dpone_dagster.postgres import fence as postgres_fence
from tests.engine.campaign import Seen, lane
from tests.engine.test_direct import TWO_DAYS, direct, done
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders, make_orders

ONE = {"column": "id", "kind": "uuid", "buckets": 1}
ELSEWHERE = {"backend": "audit_schema", "schema": "dpone_two", "require_distributed_lock": True}


@pytest.fixture
def small(new_database: Callable[[str], str]) -> Orders:
    """40 orders, on PostgreSQL alone."""
    return make_orders(new_database("oltp"), new_database("dwh"), rows=40, chunks=1)


def another(orders: Orders, inner_mode: str, **more: Any) -> Orders:
    """A second campaign of the same tables."""
    return direct(replace(orders, manifest=copy.deepcopy(orders.manifest)), inner_mode, **{"number": 2, **more})


def prepared(orders: Orders, run_id: str = "run-1", **more: Any) -> CampaignSpec:
    prepare(orders.spec, orders.connector, **{"intent": "run", "run_id": run_id, **more})
    return orders.spec


@contextmanager
def at_work(orders: Orders) -> Iterator[None]:
    """A session that holds the campaign's lock as a lane does."""
    with closing(orders.connector.target("lane 0 of another run")) as target:
        assert target.fence.lock_campaign(orders.spec.run_key, "shared", 1)
        yield


def test_lanes_of_a_cancelled_campaign_are_not_overlooked(either: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = direct(either, "replace", chunk=ONE), another(either, "replace", chunk=ONE)
    told: list[str] = []
    for chunkwrite in (postgres_chunkwrite, mssql_chunkwrite):
        reach = chunkwrite.reach

        def cancelled(point: str, index: int | None = None, reach: Any = reach) -> None:
            if point == "before_chunk_commit" and not told:
                cancel(first.spec, first.connector, "wrong", "ada")
                try:
                    told.append(f"went on: {prepared(second, 'run-2')}")
                except DponeError as error:
                    told.append(f"{error.code}: {error.message}")
            reach(point, index)

        monkeypatch.setattr(chunkwrite, "reach", cancelled)
    prepared(first)
    lane(first, Seen())
    assert len(told) == 1
    assert f"({first.spec.run_key[:12]}) of landing.orders is at work" in told[0]
    assert told[0].startswith("CAMPAIGN_ACTIVE: ")
    done(second, "run-3")  # a cancelled campaign that nobody works on is in nobody's way
    assert either.target_rows() == either.source_rows()


def test_a_lane_sees_who_is_at_work_since_it_was_prepared(small: Orders) -> None:
    first, second = direct(small, "replace", chunk=ONE), another(small, "replace", chunk=ONE)
    prepared(first)
    prepared(second)
    cancel(first.spec, first.connector, "wrong", "ada")
    with at_work(first), pytest.raises(CampaignActive, match="is at work"):
        lane(second, Seen())


def test_who_cannot_be_named_is_at_work_all_the_same(either: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = direct(either, "replace", chunk=ONE), another(either, "replace", chunk=ONE)
    prepared(first)
    for fence in (postgres_fence.PostgresFence, mssql_fence.MssqlFence):
        monkeypatch.setattr(fence, "holders", lambda *_: [])
    with at_work(first), pytest.raises(CampaignActive, match="is at work: a session that this login cannot name"):
        prepared(second, "run-2")


def test_a_refresh_is_beside_nobody(small: Orders) -> None:
    small.spread()
    window = direct(small, "replace", chunk={**TWO_DAYS, "from": "2024-03-28", "to": "2024-03-29"})
    everything = another(small, "full_refresh", chunk={**TWO_DAYS, "to": "2024-03-30"})
    prepared(window)
    with at_work(window), pytest.raises(CampaignActive, match="is at work"):
        prepared(everything, "run-2")
    prepared(everything, "run-3")
    with at_work(everything), pytest.raises(CampaignActive, match="is at work"):
        lane(window, Seen())


@pytest.mark.parametrize("number", [1, 2])
def test_one_target_has_one_state_schema(small: Orders, number: int) -> None:
    first = another(small, "replace", chunk=ONE, number=1)
    second = another(small, "replace", chunk=ONE, number=number, state=ELSEWHERE)
    prepared(first)
    with pytest.raises(StateElsewhere, match=r"is prepared in state schema system, and this one's is dpone_two"):
        prepared(second, "run-2")
    assert doctor(second.spec, second.connector).findings[0].problem.startswith("STATE_ELSEWHERE")
    assert small.on_target("SELECT schema_name FROM information_schema.schemata WHERE schema_name = 'dpone_two'") == []
    cancel(first.spec, first.connector, "wrong", "ada")
    with at_work(first), pytest.raises(CampaignActive, match="its state is in schema system"):
        prepared(second, "run-3")
    prepared(second, "run-4")
    with at_work(first), pytest.raises(CampaignActive, match="its state is in schema system"):
        lane(second, Seen(), run_id="run-4")
    with pytest.raises(StateElsewhere, match="state schema dpone_two"):
        prepared(first, "run-5", intent="resume")
    done(second, "run-6")
    assert small.target_rows() == small.source_rows()
    prepared(first, "run-7", intent="resume")


def test_a_state_schema_that_may_not_be_read_is_refused(small: Orders) -> None:
    prepared(direct(small, "replace", chunk=ONE))
    with ExitStack() as left:
        for step in (
            "CREATE ROLE dpone_second LOGIN",
            "GRANT USAGE ON SCHEMA landing TO dpone_second",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON landing.orders TO dpone_second",
            "CREATE SCHEMA dpone_two AUTHORIZATION dpone_second",
        ):
            small.on_target(step)
        left.callback(small.on_target, "DROP ROLE dpone_second")
        left.callback(small.on_target, "DROP OWNED BY dpone_second")
        poor = replace(
            another(small, "replace", chunk=ONE, state=ELSEWHERE),
            target_url=small.target_url.replace("postgres@", "dpone_second@"),
        )
        with pytest.raises(RightsMissing, match=r"schema system may hold campaigns of landing\.orders") as refused:
            prepared(poor, "run-2")
        assert refused.value.findings[0].path == "table system.__dpone__backfill_campaigns"


def test_what_the_server_does_not_say_counts_as_held(
    mssql_orders: MssqlOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(direct(mssql_orders, "replace", chunk=ONE))
    with closing(mssql_orders.connector.target("look")) as target:
        (other,) = target.ledger.neighbours(mssql_orders.spec.target)
        assert target.fence.held([other]) == []
        fence: Any = target.fence
        unclear: tuple[list[tuple[int, int | None]], ...] = ([(0, None)], [(0, 0)], [(0, -999)], [(1, 1)], [])
        with monkeypatch.context() as answering:
            for answer in unclear:
                answering.setattr(fence._session, "rows", lambda *_, answer=answer: answer)
                assert target.fence.held([other]) == [other]


def test_a_state_schema_that_is_spelt_otherwise_has_other_locks_and_is_refused(mssql_orders: MssqlOrders) -> None:
    prepared(direct(mssql_orders, "replace", chunk=ONE))
    with closing(mssql_orders.connector.target("look")) as target:
        ledger: Any = target.ledger
        ledger._schema = "System"
        with pytest.raises(StateElsewhere, match="state schema System is spelt system on the server"):
            ledger.neighbours(mssql_orders.spec.target)
        ledger._schema = "system"
