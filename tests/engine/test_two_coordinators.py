"""Two coordinators of one campaign: the second one is told who holds what, before anything is touched.

Whom a target names is tested with each kind of it in tests/contract/test_fence.py.
"""

from __future__ import annotations

import contextlib

import pytest

from dpone_dagster.campaign.errors import CampaignActive, GenerationStale
from dpone_dagster.engine import prepare as preparing
from dpone_dagster.engine.prepare import Proven, prepare
from tests.engine.campaign import Seen, finish, lane, load
from tests.orders import Orders


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a lock that is not let go."""
    for place in ("sessions.EXCLUSIVE_WAIT_SECONDS", "prepare.EXCLUSIVE_WAIT_SECONDS", "lane._JOIN_SECONDS"):
        monkeypatch.setattr(f"dpone_dagster.engine.{place}", 0.2)


def test_who_prepares_second_is_told_who_prepares(orders: Orders) -> None:
    with contextlib.closing(orders.connector.target("prepare of run-9")) as first:
        assert first.fence.lock_campaign(orders.spec.run_key, "exclusive", 0)
        with pytest.raises(CampaignActive, match="prepare of run-9"):
            prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    assert load(orders).errors == {}


def test_a_new_campaign_of_a_target_that_is_being_written_is_told_so(orders: Orders) -> None:
    load(orders)
    finish(orders)
    orders.backfill["backfill_id"] = "orders_2"
    with contextlib.closing(orders.connector.target("increment of run-9")) as busy, busy.transaction():
        busy.fence.lock_target(orders.spec.target, 1)
        with pytest.raises(CampaignActive, match="increment of run-9"):
            prepare(orders.spec, orders.connector, intent="run", run_id="run-2")
        assert busy.ledger.campaign(orders.spec.run_key) is None


def test_a_lane_that_cannot_join_is_told_who_holds_the_campaign(orders: Orders) -> None:
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    with contextlib.closing(orders.connector.target("validate of run-9")) as other:
        assert other.fence.lock_campaign(orders.spec.run_key, "exclusive", 0)
        with pytest.raises(CampaignActive, match="validate of run-9"):
            lane(orders, Seen())


def test_a_campaign_is_made_against_the_table_that_is_live_now(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    prove = preparing.prove_campaign

    def overtaken(*values: object) -> Proven:
        proven = prove(*values)  # type: ignore[arg-type]
        monkeypatch.setattr(preparing, "prove_campaign", prove)
        orders.backfill["backfill_id"] = "orders_2"
        load(orders, run_id="run-2")
        finish(orders, run_id="run-2")
        return proven

    first = orders.spec
    monkeypatch.setattr(preparing, "prove_campaign", overtaken)
    with pytest.raises(GenerationStale, match="meanwhile"):
        prepare(first, orders.connector, intent="run", run_id="run-1")
    with contextlib.closing(orders.connector.target("test")) as target:
        assert target.ledger.campaign(first.run_key) is None
    assert prepare(first, orders.connector, intent="run", run_id="run-1").run_key == first.run_key
