"""A campaign that can no longer be published is refused before it loads anything more, with each kind of target."""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.errors import CatalogDrift, DponeError, GenerationStale
from dpone_dagster.campaign.ledger import CampaignRecord
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.standing import prove_standing
from tests.engine.campaign import finish, load
from tests.orders import Orders


def test_what_was_altered_is_named_before_the_load_goes_on_and_may_be_undone(either: Orders) -> None:
    prepare(either.spec, either.connector, intent="run", run_id="run-1")
    either.on_target("ALTER TABLE landing.orders ADD more int NULL")
    _refused(either, CatalogDrift, "landing.orders was altered since the campaign was prepared: columns.more")
    either.on_target("ALTER TABLE landing.orders DROP COLUMN more")
    either.on_source("ALTER TABLE public.orders ALTER note TYPE varchar(100)")
    _refused(either, CatalogDrift, r"public.orders no longer .* column note was text and is .*\(100\)")
    either.on_source("ALTER TABLE public.orders ALTER note TYPE text")
    assert doctor(either.spec, either.connector).findings == ()
    load(either, intent="resume")
    finish(either)
    assert either.target_rows() == either.source_rows()


def test_a_campaign_that_another_one_has_overtaken_is_stale_before_it_loads(either: Orders) -> None:
    stale = either.backfill["backfill_id"]
    prepare(either.spec, either.connector, intent="run", run_id="run-1")
    either.backfill["backfill_id"] = "orders_2"
    before = load(either, run_id="run-2")
    record = prepare(either.spec, either.connector, intent="join", run_id="run-2")
    finish(either)
    assert len(before.done) == 4
    _prove_standing(either, record)  # as a run beside the one that publishes would
    assert prepare(either.spec, either.connector, intent="run", run_id="run-3").receipt_id is not None
    overtaken_by = either.spec.run_key[:12]
    either.backfill["backfill_id"] = stale
    _refused(either, GenerationStale, f"landing.orders was published by campaign {overtaken_by}")


def test_a_live_table_that_was_replaced_by_hand_is_noticed_before_the_load_goes_on(orders: Orders) -> None:
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    orders.on_target("CREATE TABLE landing.twin (LIKE landing.orders INCLUDING ALL)")
    orders.on_target("DROP TABLE landing.orders")
    orders.on_target("ALTER TABLE landing.twin RENAME TO orders")
    _refused(orders, GenerationStale, "landing.orders was replaced")


def _refused(orders: Orders, kind: type[DponeError], words: str) -> None:
    for intent in ("run", "resume", "join"):
        with pytest.raises(kind, match=words) as refusal:
            prepare(orders.spec, orders.connector, intent=intent, run_id="run-9")
    error = refusal.value
    named = [(finding.problem, finding.advice) for finding in doctor(orders.spec, orders.connector).findings]
    assert named == [(f"{error.code}: {error.message}", error.advice)]


def _prove_standing(orders: Orders, record: CampaignRecord) -> None:
    source, target = orders.connector.source("test"), orders.connector.target("test")
    try:
        prove_standing(orders.spec, record, source, target)
    finally:
        source.close()
        target.close()
