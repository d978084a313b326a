"""Rewind on a live target: nothing until it is approved, then exact again after the next increment."""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.errors import CampaignActive, HandoffMissing, RewindRefused
from dpone_dagster.engine.checkpoint import inspect_checkpoint
from dpone_dagster.engine.increment import run_increment
from dpone_dagster.engine.rewind import RewindRequest, preview_rewind, rewind
from tests.engine.campaign import finish, load
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders


def request(to: str = "anchor") -> RewindRequest:
    return RewindRequest(to, "range replay", "ada@host", "data-arch")


def increment(orders: Orders | MssqlOrders, number: int) -> None:
    orders.on_source("UPDATE public.orders SET note = %s WHERE paid", f"change {number}")
    orders.on_source("INSERT INTO public.orders SELECT gen_random_uuid(), 1, now(), 'new', true, NULL")
    run_increment(orders.spec, orders.connector, f"inc-{number}")


def handed_over(orders: Orders | MssqlOrders) -> None:
    load(orders)  # type: ignore[arg-type]
    finish(orders)  # type: ignore[arg-type]
    for number in range(1, 4):
        increment(orders, number)


def everything(orders: Orders) -> dict[str, list[tuple[object, ...]]]:
    names = orders.on_target(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'system'::regnamespace"
    )
    state = {
        name: orders.on_target(f'SELECT xmin, ctid, t::text FROM system."{name}" t ORDER BY ctid') for (name,) in names
    }
    return {**state, "landing.orders": orders.on_target("SELECT xmin, ctid, * FROM landing.orders ORDER BY ctid")}


def rewinds_and_is_exact_again(orders: Orders | MssqlOrders) -> None:
    spec, connector = orders.spec, orders.connector
    handed_over(orders)
    before = inspect_checkpoint(spec, connector)
    assert before.checkpoint is not None
    assert (before.reason, before.checkpoint.revision, before.checkpoint.reconciled) == (None, 4, True)
    assert len(before.places) == 3, "the campaign's anchor and those of two increments"
    # What only an increment that reads again and reconciles can mend.
    orders.on_target("DELETE FROM landing.orders WHERE note = 'change 3'")
    orders.on_target("UPDATE landing.orders SET note = 'tampered' WHERE note = 'new'")

    done = rewind(spec, connector, request(), "rewind-1")
    after = inspect_checkpoint(spec, connector)
    assert after.checkpoint is not None
    assert (after.checkpoint.anchor.xid, after.checkpoint.revision) == (before.places[0].xid, 5)
    assert not after.checkpoint.reconciled
    assert after.places == ()
    assert done.as_dict()["transactions_back"] == before.checkpoint.anchor.xid - after.checkpoint.anchor.xid > 0
    result = run_increment(spec, connector, "inc-4")
    assert result.reconciled
    assert result.rows_read > 0
    assert orders.target_rows() == orders.source_rows()
    again = run_increment(spec, connector, "inc-5")
    assert (again.inserted, again.updated, again.deleted) == (0, 0, 0)


def test_a_rewound_increment_reads_again_and_is_exact(orders: Orders) -> None:
    rewinds_and_is_exact_again(orders)
    audit = "SELECT facts ->> 'approved_by', facts ->> 'reason' FROM system.__dpone__load_steps WHERE step = 'rewind'"
    assert orders.on_target(audit) == [("data-arch", "range replay")]


def test_a_rewound_increment_reads_again_and_is_exact_on_sql_server(mssql_orders: MssqlOrders) -> None:
    rewinds_and_is_exact_again(mssql_orders)


def test_a_preview_and_a_look_change_nothing(orders: Orders) -> None:
    handed_over(orders)
    before = everything(orders)
    seen = preview_rewind(orders.spec, orders.connector, request())
    inspect_checkpoint(orders.spec, orders.connector)
    assert everything(orders) == before
    assert seen.as_dict()["outcome"] == "preview"


def test_by_date_it_goes_to_the_last_increment_before(orders: Orders) -> None:
    handed_over(orders)
    places = inspect_checkpoint(orders.spec, orders.connector).places
    done = rewind(orders.spec, orders.connector, request(places[1].taken_at.isoformat()), "rewind-1")
    assert (done.to.xid, done.to.taken_at) == (places[1].xid, places[1].taken_at)
    with pytest.raises(RewindRefused, match="never moved forward"):
        preview_rewind(orders.spec, orders.connector, request(str(places[2].xid)))


def test_there_is_nothing_to_rewind_before_the_handoff(orders: Orders) -> None:
    with pytest.raises(HandoffMissing):
        preview_rewind(orders.spec, orders.connector, request())
    assert inspect_checkpoint(orders.spec, orders.connector).checkpoint is None


def test_a_held_target_is_not_rewound(orders: Orders) -> None:
    handed_over(orders)
    holder = orders.connector.target("an increment")
    try:
        with holder.transaction():
            holder.fence.lock_target(orders.spec.target, 0)
            before = everything(orders)
            with pytest.raises(CampaignActive, match="an increment"):
                rewind(orders.spec, orders.connector, request(), "rewind-1")
            assert everything(orders) == before
    finally:
        holder.close()


def test_state_can_be_looked_at_while_the_source_is_away(orders: Orders) -> None:
    handed_over(orders)
    orders.source_url = "postgresql://nobody@127.0.0.1:1/nowhere"
    seen = inspect_checkpoint(orders.spec, orders.connector)
    assert seen.checkpoint is not None
    assert "SERVER_UNREACHABLE" in str(seen.source_problem)
    assert seen.lag_transactions is None
