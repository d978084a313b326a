"""Two campaigns of one target: the one that is not at work waits, before anything is touched, with each target."""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.errors import CampaignActive
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.prepare import Intent, prepare
from tests.engine.campaign import finish, load
from tests.orders import Orders


def test_a_second_campaign_is_refused_while_the_first_one_is_at_work(either: Orders) -> None:
    first = prepare(either.spec, either.connector, intent="run", run_id="run-1")
    either.backfill["backfill_id"] = "orders_2"
    lane = either.connector.target("lane 0 of run-1")
    try:
        assert lane.fence.lock_campaign(first.run_key, "shared", 0)
        _refused(either, first.run_key, "run")
        assert status(either.spec, either.connector).phase is Phase.PLANNED
        (shadow,) = [name for name in (str(first.shadow), str(either.spec.shadow)) if _is_there(either, name)]
        assert shadow == str(first.shadow)
    finally:
        lane.close()
    load(either)
    finish(either)
    assert either.target_rows() == either.source_rows()


def test_a_second_campaign_is_not_resumed_while_the_first_one_is_at_work(either: Orders) -> None:
    first = prepare(either.spec, either.connector, intent="run", run_id="run-1")
    either.backfill["backfill_id"] = "orders_2"
    prepare(either.spec, either.connector, intent="run", run_id="run-2")
    *notes, _ = doctor(either.spec, either.connector).notes
    assert [first.run_key[:12] in note for note in notes] == [True], notes
    lane = either.connector.target("lane 0 of run-1")
    try:
        assert lane.fence.lock_campaign(first.run_key, "shared", 0)
        for intent in ("run", "resume", "join"):
            _refused(either, first.run_key, intent)
    finally:
        lane.close()
    prepare(either.spec, either.connector, intent="resume", run_id="run-2")


def _refused(orders: Orders, by: str, intent: Intent) -> None:
    with pytest.raises(CampaignActive, match="is at work") as refusal:
        prepare(orders.spec, orders.connector, intent=intent, run_id="run-2")
    assert by[:12] in refusal.value.message
    assert refusal.value.exit_code == 3
    named = [str(finding) for finding in doctor(orders.spec, orders.connector).findings]
    assert [by[:12] in finding and "CAMPAIGN_ACTIVE" in finding for finding in named] == [True], named


def _is_there(orders: Orders, name: str) -> bool:
    schema, _, table = name.partition(".")
    query = "SELECT 1 FROM information_schema.tables WHERE table_schema = '{}' AND table_name = '{}'"
    return bool(orders.on_target(query.format(schema, table)))
