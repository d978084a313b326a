"""The anchor from before the first read, bound to one publication: kept over every resume, and never by another's."""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.errors import GenerationStale, HandoffRefused
from dpone_dagster.engine.handoff import commit_handoff
from dpone_dagster.engine.increment import increment_gate
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.validate import validate
from tests.engine.campaign import Seen, finish, lane, load
from tests.orders import Orders

ANCHOR = (
    "SELECT anchor_xid, anchor_system_identifier, anchor_timeline, anchor_database_oid, anchor_taken_at "
    "FROM system.{} ORDER BY created_at"
)
CAMPAIGN, CHECKPOINT = ANCHOR.format("__dpone__backfill_campaigns"), ANCHOR.format("__dpone__xmin_checkpoints")


def test_the_anchor_is_durable_before_the_first_read_and_kept_over_every_resume(orders: Orders) -> None:
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    anchor = orders.on_target(CAMPAIGN)
    for number in range(3):
        orders.on_source("UPDATE public.orders SET note = %s WHERE paid", f"moved on {number}")
        prepare(orders.spec, orders.connector, intent="resume", run_id=f"run-{number}")
        assert orders.on_target(CAMPAIGN) == anchor
    ((xid, cluster, timeline, database, _),) = anchor
    ((other_xid, other_cluster, other_timeline, other_database),) = orders.on_source(
        "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, system_identifier::text, timeline_id, "
        "(SELECT oid::bigint FROM pg_database WHERE datname = current_database()) "
        "FROM pg_control_system(), pg_control_checkpoint()"
    )
    assert (cluster, timeline, database) == (other_cluster, other_timeline, other_database)
    assert 0 < other_xid - xid < 1_000
    load(orders, intent="resume", run_id="run-4")
    finish(orders, run_id="run-4")
    assert orders.on_target(CHECKPOINT) == anchor


def second_campaign(orders: Orders) -> None:
    orders.backfill["backfill_id"] = "orders_2"


def test_no_campaign_begins_while_a_publication_waits_for_its_handoff(orders: Orders) -> None:
    load(orders)
    assert validate(orders.spec, orders.connector, "run-1").passed
    publish(orders.spec, orders.connector, "run-1")
    assert "waits for its handoff" in str(increment_gate(orders.spec, orders.connector))
    second_campaign(orders)
    with pytest.raises(HandoffRefused, match="still waits for its handoff orders_v1"):
        prepare(orders.spec, orders.connector, intent="run", run_id="run-2")


def test_a_campaign_that_was_prepared_before_cannot_pass_a_pending_handoff(orders: Orders) -> None:
    first = orders.spec
    load(orders)
    second_campaign(orders)
    load(orders, run_id="run-2")
    assert validate(orders.spec, orders.connector, "run-2").passed
    assert validate(first, orders.connector, "run-1").passed
    publish(first, orders.connector, "run-1")
    with pytest.raises(GenerationStale):
        publish(orders.spec, orders.connector, "run-2")
    with pytest.raises(HandoffRefused, match="not published"):
        commit_handoff(orders.spec, orders.connector, "run-2")
    assert orders.on_target(CHECKPOINT) == []


def test_an_older_publication_seeds_nothing_any_more(orders: Orders) -> None:
    first = orders.spec
    load(orders)
    finish(orders)
    second_campaign(orders)
    load(orders, run_id="run-2")
    finish(orders, run_id="run-2")
    seeded = orders.on_target(CHECKPOINT)
    assert len(seeded) == 2
    with pytest.raises(HandoffRefused, match="is live since"):
        commit_handoff(first, orders.connector, "run-3")
    assert orders.on_target(CHECKPOINT) == seeded


def test_a_checkpoint_of_another_receipt_fails_closed(orders: Orders) -> None:
    load(orders)
    finish(orders)
    second_campaign(orders)
    load(orders, run_id="run-2")
    assert validate(orders.spec, orders.connector, "run-2").passed
    receipt = publish(orders.spec, orders.connector, "run-2")
    orders.on_target("UPDATE system.__dpone__xmin_checkpoints SET generation = %s", receipt.generation)
    with pytest.raises(HandoffRefused, match="another checkpoint already"):
        commit_handoff(orders.spec, orders.connector, "run-2")
    orders.on_target("UPDATE system.__dpone__publications SET head = 'closed'")
    with pytest.raises(HandoffRefused, match="not this publication's"):
        commit_handoff(orders.spec, orders.connector, "run-2")


def test_a_head_that_was_closed_by_hand_fails_closed(orders: Orders) -> None:
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    lane(orders, Seen())
    assert validate(orders.spec, orders.connector, "run-1").passed
    publish(orders.spec, orders.connector, "run-1")
    orders.on_target("UPDATE system.__dpone__publications SET head = 'closed'")
    with pytest.raises(HandoffRefused, match="not this publication's"):
        commit_handoff(orders.spec, orders.connector, "run-1")
    assert "has no checkpoint" in str(increment_gate(orders.spec, orders.connector))
