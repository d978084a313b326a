"""What every adapter's publication history and checkpoints guarantee."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dpone_dagster.campaign.errors import DponeError, GenerationStale, HandoffRefused
from dpone_dagster.campaign.receipts import PublicationReceipt
from dpone_dagster.campaign.watermark import Anchor, RecordedAnchor, anchor_facts
from tests.contract.conftest import Adapter, Parts
from tests.contract.samples import ANCHOR, SERVER, TARGET, checkpoint, publication

LATER = Anchor(ANCHOR.xid + 2**33, SERVER, datetime(2026, 1, 3, tzinfo=UTC))


@pytest.fixture
def target(adapter: Adapter) -> Parts:
    """A session on provisioned state."""
    made = adapter.target()
    made.ledger.provision()
    return made


def test_a_receipt_comes_back_as_it_was_recorded(target: Parts) -> None:
    assert target.publications.head(TARGET) is None
    target.publications.record(publication(1, approved_by="ada"))
    head = target.publications.head(TARGET)
    assert head is not None
    assert head.published_at is not None
    assert replace(head, published_at=None) == publication(1, approved_by="ada")
    assert target.publications.of_campaign("run-key-1") == head
    assert target.publications.of_campaign("run-key-2") is None
    assert target.publications.head(TARGET.sibling("other")) is None


def test_history_cannot_fork(adapter: Adapter, target: Parts) -> None:
    target.publications.record(publication(1))
    other = adapter.target()
    fork = publication(1, receipt_id="fork", run_key="another")
    with pytest.raises(GenerationStale, match="publication 1"), other.transaction():
        other.publications.record(fork)
    other.publications.record(replace(fork, target="landing.other"))
    target.publications.record(publication(2))
    head = target.publications.head(TARGET)
    assert head is not None
    assert head.sequence == 2


def undone(sequence: int) -> PublicationReceipt:
    """The rollback of the first publication."""
    words = {"approved_by": "ada", "reason": "naïve 😀"}
    return publication(sequence, run_key="run-key-1", kind="rollback", head="closed", handoff_id=None, **words)


def test_a_campaign_is_published_once_and_rolled_back_once(target: Parts) -> None:
    target.publications.record(publication(1))
    with pytest.raises(GenerationStale):
        target.publications.record(publication(2, run_key="run-key-1"))
    assert target.publications.of_campaign("run-key-1", "rollback") is None
    target.publications.record(undone(2))
    published = target.publications.of_campaign("run-key-1")
    assert published is not None
    assert published.sequence == 1
    rolled_back = target.publications.of_campaign("run-key-1", "rollback")
    assert rolled_back is not None
    assert replace(rolled_back, published_at=None) == undone(2)
    assert target.publications.receipt("publication-2") == rolled_back
    assert target.publications.receipt("publication-9") is None
    with pytest.raises(GenerationStale):
        target.publications.record(undone(3))


@pytest.mark.parametrize("missing", ["approved_by", "reason"])
def test_a_rollback_without_a_name_or_a_reason_is_not_recorded(target: Parts, missing: str) -> None:
    target.publications.record(publication(1))
    with pytest.raises(DponeError):
        target.publications.record(replace(undone(2), **{missing: None}))
    assert target.publications.of_campaign("run-key-1", "rollback") is None


def test_a_dropped_backup_is_recorded_once(target: Parts) -> None:
    target.publications.record(publication(1))
    assert target.publications.record_drop("publication-1", "grace")
    assert not target.publications.record_drop("publication-1", "somebody else")
    assert not target.publications.record_drop("publication-2", "grace")
    receipt = target.publications.receipt("publication-1")
    assert receipt is not None
    assert receipt.backup_dropped_by == "grace"
    assert receipt.backup_dropped_at is not None
    assert receipt.backup_dropped_at.tzinfo is not None


def test_a_checkpoint_whose_generation_is_live_again_reconciles_first(target: Parts) -> None:
    target.publications.record(publication(1))
    first = checkpoint(1, reconciled=True)
    target.publications.seed_checkpoint(first, "oltp/orders")
    assert not target.publications.reopen_checkpoint(TARGET, "generation-2")
    assert target.publications.reopen_checkpoint(TARGET, "generation-1")
    again = replace(first, revision=2, reconciled=False)
    assert target.publications.checkpoint(TARGET, "generation-1") == again
    # An increment that had passed its gate before is too late.
    assert not target.publications.advance_checkpoint(first, LATER, reconciled=True)
    assert target.publications.advance_checkpoint(again, LATER, reconciled=True)


def test_a_receipt_of_a_transaction_that_failed_is_not_there(target: Parts) -> None:
    with pytest.raises(DponeError, match="given up"):
        record_in_vain(target)
    assert target.publications.head(TARGET) is None


def record_in_vain(target: Parts) -> None:
    with target.transaction():
        target.publications.record(publication(1))
        raise DponeError("given up")


def test_only_the_pending_head_is_closed(target: Parts) -> None:
    target.publications.record(publication(1))
    assert not target.publications.close_head("publication-2")
    target.publications.record(publication(2))
    assert not target.publications.close_head("publication-1")
    assert target.publications.close_head("publication-2")
    assert not target.publications.close_head("publication-2")
    head = target.publications.head(TARGET)
    assert head is not None
    assert head.head == "closed"


def test_a_checkpoint_is_seeded_once_a_generation(target: Parts) -> None:
    target.publications.record(publication(1))
    assert target.publications.checkpoint(TARGET, "generation-1") is None
    assert target.publications.seed_checkpoint(checkpoint(1), "oltp/orders")
    assert target.publications.seed_checkpoint(checkpoint(1), "oltp/orders")
    assert not target.publications.seed_checkpoint(checkpoint(1, anchor=LATER), "oltp/orders")
    assert target.publications.checkpoint(TARGET, "generation-1") == checkpoint(1)
    target.publications.record(publication(2))
    assert target.publications.seed_checkpoint(checkpoint(2, anchor=LATER), "oltp/orders")
    assert target.publications.checkpoint(TARGET, "generation-1") == checkpoint(1)


def test_a_handoff_names_one_source_and_one_target(adapter: Adapter, target: Parts) -> None:
    target.publications.record(publication(1))
    target.publications.record(publication(2))
    assert target.publications.handoff_owner("orders_v1") is None
    assert target.publications.seed_checkpoint(checkpoint(1), "oltp/orders")
    assert target.publications.handoff_owner("orders_v1") == ("oltp/orders", str(TARGET))
    before = adapter.state()
    with pytest.raises(HandoffRefused, match=r"oltp/orders → landing\.orders"):
        target.publications.seed_checkpoint(checkpoint(2), "copy/orders")
    with pytest.raises(HandoffRefused):
        target.publications.seed_checkpoint(checkpoint(2, target="landing.other"), "oltp/orders")
    assert adapter.state() == before


def test_a_checkpoint_goes_forward_by_compare_and_set(adapter: Adapter, target: Parts) -> None:
    target.publications.record(publication(1))
    first = checkpoint(1)
    target.publications.seed_checkpoint(first, "oltp/orders")
    assert target.publications.advance_checkpoint(first, LATER, reconciled=True)
    second = target.publications.checkpoint(TARGET, "generation-1")
    assert second == replace(first, anchor=LATER, revision=2, reconciled=True)
    assert not adapter.target().publications.advance_checkpoint(first, LATER, reconciled=False)
    assert not target.publications.advance_checkpoint(second, ANCHOR, reconciled=True)
    elsewhere = replace(LATER, identity=replace(SERVER, system_identifier="7000000000000000000"))
    assert not target.publications.advance_checkpoint(second, elsewhere, reconciled=True)
    assert target.publications.checkpoint(TARGET, "generation-1") == second
    assert target.publications.advance_checkpoint(second, LATER, reconciled=True)  # nothing new, and read all the same


def test_a_rewind_goes_back_by_compare_and_set_and_asks_for_a_reconciliation(adapter: Adapter, target: Parts) -> None:
    target.publications.record(publication(1))
    first = checkpoint(1)
    target.publications.seed_checkpoint(first, "oltp/orders")
    assert target.publications.advance_checkpoint(first, LATER, reconciled=True)
    second = replace(first, anchor=LATER, revision=2, reconciled=True)
    before = adapter.state()
    elsewhere = replace(ANCHOR, identity=replace(SERVER, system_identifier="7000000000000000000"))
    other_database = replace(ANCHOR, identity=replace(SERVER, database_oid=1))
    ahead = replace(LATER, xid=LATER.xid + 1)
    for stored, to in (
        (first, ANCHOR),
        (second, LATER),
        (second, ahead),
        (second, elsewhere),
        (second, other_database),
        (replace(second, generation="another"), ANCHOR),
    ):
        assert not target.publications.rewind_checkpoint(stored, to)
    assert adapter.state() == before
    assert target.publications.rewind_checkpoint(second, ANCHOR)
    third = target.publications.checkpoint(TARGET, "generation-1")
    assert third == replace(first, anchor=ANCHOR, revision=3, reconciled=False)
    assert not adapter.target().publications.rewind_checkpoint(second, ANCHOR)
    assert not adapter.target().publications.advance_checkpoint(second, LATER, reconciled=True)


def test_audit_rows_tell_where_the_checkpoint_of_a_generation_has_been(target: Parts) -> None:
    target.ledger.start_load("load-1", "orders", "increment", "load-1")
    for step, status, generation, anchor in (
        ("handoff", "succeeded", "generation-1", ANCHOR),
        ("handoff", "succeeded", "generation-1", ANCHOR),
        ("increment", "succeeded", "generation-1", LATER),
        ("increment", "failed", "generation-1", replace(LATER, xid=LATER.xid + 1)),
        ("increment", "succeeded", "generation-2", replace(LATER, xid=LATER.xid + 2)),
    ):
        target.ledger.record_step("load-1", step, status, 0.5, anchor_facts(generation, anchor))
    target.ledger.record_step("load-1", "increment", "succeeded", 0.5, {"generation": "generation-1"})
    recorded = target.publications.recorded_anchors("generation-1")
    assert sorted(recorded) == [RecordedAnchor.of(ANCHOR), RecordedAnchor.of(LATER)]
    assert target.publications.recorded_anchors("generation-3") == []


def test_a_new_timeline_may_begin_before_the_last_ids_of_the_old_one(target: Parts) -> None:
    target.publications.record(publication(1))
    first = checkpoint(1, anchor=LATER)
    target.publications.seed_checkpoint(first, "oltp/orders")
    assert not target.publications.advance_checkpoint(first, ANCHOR, reconciled=True)
    promoted = replace(ANCHOR, identity=replace(SERVER, timeline=SERVER.timeline + 1))
    assert target.publications.advance_checkpoint(first, promoted, reconciled=True)
    second = target.publications.checkpoint(TARGET, "generation-1")
    assert second == replace(first, anchor=promoted, revision=2, reconciled=True)
