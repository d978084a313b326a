"""A cancel: durable, cooperative, before the publication or not at all."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from dpone_dagster.campaign.errors import CampaignCancelled, CancelRefused
from dpone_dagster.campaign.ledger import CampaignRecord, Phase
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine import publish as publishing
from dpone_dagster.engine import validate as validating
from dpone_dagster.engine.cancel import cancel
from dpone_dagster.engine.load import collect
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.engine.validate import validate
from tests.engine.campaign import Seen, finish, lane, load
from tests.orders import Orders


def record(orders: Orders) -> CampaignRecord:
    with target_session(orders.connector, "test") as target:
        found = target.ledger.campaign(orders.spec.run_key)
    assert found is not None
    return found


@dataclass
class CancelsAfterTheFirst(Seen):
    """Somebody cancels the campaign while its first chunk is committed."""

    orders: Orders | None = None

    def committed(self, chunk: Chunk, receipt: ChunkReceipt, seconds: float, *, replayed: bool) -> None:
        super().committed(chunk, receipt, seconds, replayed=replayed)
        assert self.orders is not None
        cancel(self.orders.spec, self.orders.connector, "wrong table", "ada")


def test_lanes_stop_run_is_refused_and_resume_takes_it_up(either: Orders) -> None:
    orders = either
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    seen = CancelsAfterTheFirst(orders=orders)
    assert lane(orders, seen).stopped == "the campaign is cancelled"
    assert len(seen.done) == 1
    with pytest.raises(CampaignCancelled, match="by ada: wrong table"):
        collect(orders.spec, orders.connector, ChunkSelection.all(orders.spec.plan.count))
    for step in (validate, publish):
        with pytest.raises(CampaignCancelled):
            step(orders.spec, orders.connector, "run-1")
    for intent in ("run", "join"):
        with pytest.raises(CampaignCancelled):
            prepare(orders.spec, orders.connector, intent=intent, run_id="run-2")
    assert cancel(orders.spec, orders.connector, "again", "bob").cancel_requested_by == "ada"

    resumed = load(orders, intent="resume", run_id="eve@host")
    assert len(resumed.done) == orders.spec.plan.count - 1
    assert record(orders).diagnostics["taken_up"] == {
        "by": "eve@host",
        "cancelled_by": "ada",
        "reason": "wrong table",
    }
    finish(orders)
    assert orders.target_rows() == orders.source_rows()
    with pytest.raises(CancelRefused, match="handoff_committed"):
        cancel(orders.spec, orders.connector, "too late", "ada")
    assert record(orders).phase is Phase.HANDOFF_COMMITTED


def test_a_validated_campaign_can_be_cancelled_and_is_sealed_anew(either: Orders) -> None:
    orders = either
    load(orders)
    assert validate(orders.spec, orders.connector, "run-1").passed
    before = orders.target_rows()
    cancel(orders.spec, orders.connector, "not today", "ada")
    with pytest.raises(CampaignCancelled):
        publish(orders.spec, orders.connector, "run-1")
    assert orders.target_rows() == before
    assert load(orders, intent="resume", run_id="run-2").done == []
    finish(orders)
    assert orders.target_rows() == orders.source_rows()


def test_a_cancel_that_meets_the_swap_waits_for_it_and_is_refused(
    either: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = either
    load(orders)
    assert validate(orders.spec, orders.connector, "run-1").passed
    outcome: list[BaseException | CampaignRecord] = []

    def cancelling() -> None:
        try:
            outcome.append(cancel(orders.spec, orders.connector, "now", "ada"))
        except CancelRefused as error:
            outcome.append(error)

    thread = threading.Thread(target=cancelling)

    def reach(point: str) -> None:
        if point == "before_publication_commit":
            thread.start()
            thread.join(1.0)
            assert thread.is_alive(), "the row's lock is what makes it wait"

    monkeypatch.setattr(publishing, "reach", reach)
    publish(orders.spec, orders.connector, "run-1")
    thread.join()
    (refused,) = outcome
    assert isinstance(refused, CancelRefused)
    assert orders.target_rows() == orders.source_rows()


def test_a_cancel_after_the_last_look_stops_the_swap_itself(either: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = either
    load(orders)
    assert validate(orders.spec, orders.connector, "run-1").passed
    before = orders.target_rows()
    draft = publishing._draft

    def cancelled_meanwhile(*values: object) -> object:
        cancel(orders.spec, orders.connector, "now", "ada")
        return draft(*values)  # type: ignore[arg-type]

    monkeypatch.setattr(publishing, "_draft", cancelled_meanwhile)
    with pytest.raises(CampaignCancelled):
        publish(orders.spec, orders.connector, "run-1")
    assert orders.target_rows() == before
    assert record(orders).phase is Phase.CANCELLED


@pytest.mark.parametrize("point", ["after_seal", "before_validated"])
def test_a_cancel_while_it_is_validated_is_named(either: Orders, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    orders = either
    load(orders)

    def reach(reached: str) -> None:
        if reached == point:
            cancel(orders.spec, orders.connector, "now", "ada")

    monkeypatch.setattr(validating, "reach", reach)
    with pytest.raises(CampaignCancelled, match="by ada: now"):
        validate(orders.spec, orders.connector, "run-1")
    assert record(orders).phase is Phase.CANCELLED


def test_a_cancel_before_the_seal_is_named(either: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = either
    load(orders)
    complete = validating.receipts_complete

    def cancelled_meanwhile(*values: object) -> object:
        cancel(orders.spec, orders.connector, "now", "ada")
        return complete(*values)  # type: ignore[arg-type]

    monkeypatch.setattr(validating, "receipts_complete", cancelled_meanwhile)
    with pytest.raises(CampaignCancelled, match="by ada: now"):
        validate(orders.spec, orders.connector, "run-1")
    assert record(orders).phase is Phase.CANCELLED
