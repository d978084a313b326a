"""When an increment may run, and that two of one target never both write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from dpone_dagster.campaign.errors import CampaignActive, DponeError, GenerationStale, HandoffMissing
from dpone_dagster.campaign.receipts import Approval
from dpone_dagster.engine.increment import IncrementResult, increment_gate, run_increment
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.rollback import rollback
from tests.engine.campaign import finish, load
from tests.orders import Orders

CHECKPOINT = "SELECT anchor_xid, revision FROM system.__dpone__xmin_checkpoints"


def increment(orders: Orders, run_id: str = "inc-1") -> IncrementResult:
    return run_increment(orders.spec, orders.connector, run_id)


def test_an_increment_says_what_it_caught_up(orders: Orders) -> None:
    load(orders)
    finish(orders)
    for number in range(3):
        orders.on_source("UPDATE public.orders SET note = %s WHERE paid", f"change {number}")
    before = orders.on_target("SELECT anchor_xid, anchor_taken_at FROM system.__dpone__xmin_checkpoints")[0]
    done = increment(orders)
    after = orders.on_target("SELECT anchor_xid, anchor_taken_at FROM system.__dpone__xmin_checkpoints")[0]
    assert done.lag_transactions == after[0] - before[0] >= 3
    assert done.lag_seconds == (after[1] - before[1]).total_seconds() > 0


def test_no_increment_while_a_campaign_of_the_same_target_is_at_work(orders: Orders) -> None:
    load(orders)
    finish(orders)
    orders.backfill["backfill_id"] = "orders_2"
    prepare(orders.spec, orders.connector, intent="run", run_id="run-2")
    assert increment_gate(orders.spec, orders.connector) is None, "a campaign that nobody works on holds nobody up"
    lane = orders.connector.target("lane 0 of run-2")
    try:
        assert lane.fence.lock_campaign(orders.spec.run_key, "shared", 0)
        assert "lane 0 of run-2" in str(increment_gate(orders.spec, orders.connector))
        with pytest.raises(CampaignActive, match="is at work"):
            increment(orders)
    finally:
        lane.close()
    increment(orders)


def test_a_target_that_is_held_is_named_and_nothing_is_written(orders: Orders) -> None:
    load(orders)
    finish(orders)
    orders.on_source("UPDATE public.orders SET note = 'changed'")
    rows, checkpoint = orders.target_rows(), orders.on_target(CHECKPOINT)
    holder = orders.connector.target("another increment")
    try:
        with holder.transaction():
            holder.fence.lock_target(orders.spec.target, 0)
            with pytest.raises(CampaignActive, match="another increment") as caught:
                increment(orders)
    finally:
        holder.close()
    assert caught.value.exit_code == 3
    assert (orders.target_rows(), orders.on_target(CHECKPOINT)) == (rows, checkpoint)


def test_increments_started_at_once_write_one_after_the_other_or_not_at_all(orders: Orders) -> None:
    load(orders)
    finish(orders)
    orders.on_source("UPDATE public.orders SET note = 'changed'")
    orders.on_source("DELETE FROM public.orders WHERE id IN (SELECT id FROM public.orders ORDER BY id LIMIT 10)")

    def attempt(number: int) -> IncrementResult | DponeError:
        try:
            return increment(orders, f"inc-{number}")
        except DponeError as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(attempt, range(4)))
    done = [end for end in ends if isinstance(end, IncrementResult)]
    refused = [end for end in ends if isinstance(end, DponeError)]
    assert all(isinstance(error, GenerationStale | CampaignActive) for error in refused)
    assert orders.on_target(CHECKPOINT)[0][1] == 1 + len(done) > 1
    assert sum(end.deleted for end in done) == 10
    assert orders.target_rows() == orders.source_rows()


def test_without_a_handoff_it_is_refused_before_anything_is_touched(orders: Orders) -> None:
    with pytest.raises(HandoffMissing) as caught:
        increment(orders)
    assert caught.value.exit_code == 2
    assert orders.on_target("SELECT nspname FROM pg_namespace WHERE nspname = 'system'") == []


def test_what_to_do_depends_on_what_is_missing(either: Orders) -> None:
    assert advice(either) == "Start the campaign: `dpone backfill run MANIFEST --execute`."
    prepare(either.spec, either.connector, intent="run", run_id="run-1")
    assert advice(either) == HandoffMissing.next_step
    load(either)
    finish(either)
    run_increment(either.spec, either.connector, "inc-1")
    rollback(either.spec, either.connector, Approval("ada", "wrong prices"))
    assert "a new `backfill_id`" in advice(either)
    assert "resume" not in advice(either)


def test_another_campaign_that_nobody_has_started_is_not_to_be_resumed(orders: Orders) -> None:
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    orders.manifest["sink"]["table"]["name"] = "others"
    assert "backfill run MANIFEST --execute" in advice(orders)


def advice(orders: Orders) -> str:
    with pytest.raises(HandoffMissing) as caught:
        run_increment(orders.spec, orders.connector, "inc-0")
    return caught.value.advice
