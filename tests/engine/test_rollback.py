"""Rollback and dropping a backup, with each kind of target.

Verified on PostgreSQL and on Babelfish 4.3; UNVERIFIED on SQL Server: that the names of indexes stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from dpone_dagster.campaign.errors import (
    BackupRefused,
    CampaignRolledBack,
    CatalogDrift,
    GenerationStale,
    HandoffRefused,
    OutcomeUnknown,
    PublicationBlocked,
    RollbackRefused,
)
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.names import TableRef, rolled_back_name
from dpone_dagster.campaign.receipts import Approval, PublicationReceipt
from dpone_dagster.engine.dropbackup import drop_backup, preview_drop
from dpone_dagster.engine.handoff import commit_handoff
from dpone_dagster.engine.increment import increment_gate, run_increment
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.rollback import preview_rollback, rollback
from dpone_dagster.engine.validate import validate
from dpone_dagster.ports.source import ChangeRead, ChangeSnapshot, Source
from dpone_dagster.ports.target import Target
from tests.engine.campaign import finish, load
from tests.orders import Orders

ADA = Approval("ada", "wrong prices")
HISTORY = "SELECT sequence, kind, receipt_id, predecessor_receipt FROM system.__dpone__publications"


def campaign(orders: Orders, number: int) -> PublicationReceipt:
    """A campaign of its own over whatever the source has now."""
    orders.backfill["backfill_id"] = f"orders_{number}"
    orders.on_source("UPDATE public.orders SET note = %s", f"generation {number}")
    load(orders)
    return finish(orders)


def undo(orders: Orders, number: int) -> PublicationReceipt:
    orders.backfill["backfill_id"] = f"orders_{number}"
    return rollback(orders.spec, orders.connector, ADA)


def rolled_back(orders: Orders) -> TableRef:
    return orders.spec.target.sibling(rolled_back_name(orders.spec.target, orders.spec.run_key))


def history(orders: Orders) -> list[tuple[int, str]]:
    """The target's history, which is one chain."""
    rows = sorted(orders.on_target(HISTORY))
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    assert [row[3] for row in rows] == [None, *(row[2] for row in rows[:-1])]
    return [(sequence, kind) for sequence, kind, _, _ in rows]


def state(orders: Orders) -> list[Any]:
    """Everything that a preview must leave as it is."""
    names = ("backfill_campaigns", "publications", "xmin_checkpoints", "loads", "load_steps")
    return [orders.tables(), *(repr(orders.on_target(f"SELECT * FROM system.__dpone__{name}")) for name in names)]


# ---------------------------------------------------------------- rollback


def test_three_publications_a_rollback_and_a_publication_again(either: Orders) -> None:
    names, old = either.index_names(), either.target_rows()
    contents = {}
    for number in (1, 2, 3):
        assert campaign(either, number).sequence == number
        contents[number] = either.target_rows()
        assert contents[number] == either.source_rows()
        assert either.index_names() == names
        # From here on its checkpoint counts as reconciled, until it is live again.
        assert run_increment(either.spec, either.connector, f"inc-{number}").reconciled
    assert either.rows_of(either.spec.backup) == contents[2]

    tables = either.tables()
    with pytest.raises(RollbackRefused, match="since") as refused:
        undo(either, 2)
    assert "later publication first" in refused.value.advice
    assert either.tables() == tables

    either.backfill["backfill_id"] = "orders_3"
    either.on_source("DELETE FROM public.orders WHERE id IN (SELECT id FROM public.orders ORDER BY id LIMIT 10)")
    receipt = undo(either, 3)
    assert (receipt.sequence, receipt.kind, receipt.approved_by, receipt.reason) == (4, "rollback", "ada", ADA.reason)
    assert receipt.published_at is not None
    assert receipt.actual_rows == 400
    assert either.target_rows() == contents[2]
    assert either.rows_of(rolled_back(either)) == contents[3]
    assert either.index_names() == names

    # The checkpoint of generation 2 counts again, and what vanished since is settled.
    assert increment_gate(either.spec, either.connector) is None
    result = run_increment(either.spec, either.connector, "inc-4")
    assert (result.deleted, result.reconciled) == (10, True)
    assert either.target_rows() == either.source_rows()

    fourth = campaign(either, 4)
    assert (fourth.sequence, fourth.predecessor_receipt) == (5, receipt.receipt_id)
    assert either.target_rows() == either.source_rows()
    assert either.index_names() == names
    assert increment_gate(either.spec, either.connector) is None
    assert history(either) == [(1, "publish"), (2, "publish"), (3, "publish"), (4, "rollback"), (5, "publish")]

    # Back step by step, to the table that no campaign made.
    undo(either, 4)
    undo(either, 2)
    assert either.target_rows() == contents[1]
    undo(either, 1)
    assert either.target_rows() == old
    assert either.index_names() == names
    assert len(history(either)) == 8


def test_a_first_publication_is_rolled_back_to_a_table_without_a_checkpoint(either: Orders) -> None:
    old = either.target_rows()
    campaign(either, 1)
    receipt = undo(either, 1)
    assert either.target_rows() == old
    assert receipt.sequence == 2
    assert "no checkpoint" in str(increment_gate(either.spec, either.connector))
    again = campaign(either, 2)
    assert (again.sequence, again.predecessor_receipt) == (3, receipt.receipt_id)
    assert either.target_rows() == either.source_rows()
    assert increment_gate(either.spec, either.connector) is None


def test_a_rolled_back_campaign_is_over_and_says_so(either: Orders) -> None:
    campaign(either, 1)
    undo(either, 1)
    spec, connector = either.spec, either.connector
    with pytest.raises(RollbackRefused, match="rolled back by ada: wrong prices already"):
        rollback(spec, connector, ADA)
    for intent in ("run", "resume", "join"):
        with pytest.raises(CampaignRolledBack, match="wrong prices") as refused:
            prepare(spec, connector, intent=intent, run_id="run-2")  # type: ignore[arg-type]
        assert "new `backfill_id`" in refused.value.advice
    for step in (validate, publish, commit_handoff):
        with pytest.raises(CampaignRolledBack):
            step(spec, connector, "run-2")
    seen = status(spec, connector)
    assert seen.phase is Phase.ROLLED_BACK
    facts = seen.publication_dict()
    assert facts["rollback"] == facts["rollback"] | {"approved_by": "ada", "reason": ADA.reason}
    assert (facts["backup_retained"], facts["retained"]) == (False, str(rolled_back(either)))
    assert "new `backfill_id`" in seen.recommended_action


def test_a_preview_changes_nothing(either: Orders) -> None:
    campaign(either, 1)
    before = state(either)
    plan = preview_rollback(either.spec, either.connector)
    backup = preview_drop(either.spec, either.connector)
    assert state(either) == before
    assert (plan.rolled_back, plan.checkpoint) == (rolled_back(either), None)
    assert backup.table == either.spec.backup


def test_a_publication_that_waits_for_its_handoff_can_be_rolled_back(either: Orders) -> None:
    old = either.target_rows()
    load(either)
    assert validate(either.spec, either.connector, "run-1").passed
    publish(either.spec, either.connector, "run-1")
    undo(either, 1)
    assert either.target_rows() == old
    with pytest.raises((CampaignRolledBack, HandoffRefused)):
        commit_handoff(either.spec, either.connector, "run-1")
    assert campaign(either, 2).sequence == 3


def test_a_table_altered_since_is_not_swapped(either: Orders) -> None:
    campaign(either, 1)
    either.on_target("CREATE INDEX orders_late ON landing.orders (amount)")
    before = either.tables()
    with pytest.raises(CatalogDrift, match=r"landing\.orders was altered") as refused:
        undo(either, 1)
    assert "dpone backfill rollback MANIFEST" in refused.value.advice
    assert either.tables() == before
    assert status(either.spec, either.connector).phase is Phase.HANDOFF_COMMITTED


def test_a_table_that_took_the_backups_name_is_not_swapped_in(either: Orders) -> None:
    campaign(either, 1)
    backup = either.spec.backup
    name = f'"{backup.schema}"."{backup.name}"'
    either.on_target(f"DROP TABLE {name}")
    with pytest.raises(GenerationStale, match="not the table that was live before"):
        preview_rollback(either.spec, either.connector)
    either.on_target(f"CREATE TABLE {name} (id int)")
    with pytest.raises(GenerationStale, match="not the table that was live before"):
        undo(either, 1)
    assert either.target_rows() == either.source_rows()


# ---------------------------------------------------------------- races with increments


class Interposed:
    """A connector that does something when an increment has passed its gate and begins to read."""

    def __init__(self, orders: Orders, act: Any) -> None:
        self._connector = orders.connector
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connector, name)

    def source(self, purpose: str) -> Source:
        source = self._connector.source(purpose)
        read_changes = source.read_changes

        @contextlib.contextmanager
        def acting(read: ChangeRead) -> Iterator[ChangeSnapshot]:
            with read_changes(read) as snapshot:
                self._act()
                yield snapshot

        source.read_changes = acting  # type: ignore[method-assign]
        return source


def test_an_increment_that_a_rollback_overtakes_writes_nothing(either: Orders) -> None:
    campaign(either, 1)
    first = either.target_rows()
    campaign(either, 2)
    second = either.target_rows()
    either.on_source("UPDATE public.orders SET note = 'late'")
    overtaken = Interposed(either, lambda: undo(either, 2))
    with pytest.raises(GenerationStale):
        run_increment(either.spec, overtaken, "inc-1")  # type: ignore[arg-type]
    assert either.target_rows() == first
    assert either.rows_of(rolled_back(either)) == second
    run_increment(either.spec, either.connector, "inc-2")
    assert either.target_rows() == either.source_rows()


def test_a_rollback_waits_for_the_increment_that_came_first(either: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpone_dagster.engine.publish.TRIES", 1)
    monkeypatch.setattr("dpone_dagster.engine.rollback.LOCK_WAIT_SECONDS", 0.3)
    campaign(either, 1)
    first = either.target_rows()
    campaign(either, 2)
    either.on_source("UPDATE public.orders SET note = 'late'")
    busy = either.connector.target("increment in hand")
    with busy.transaction():
        busy.fence.lock_target(either.spec.target, 1)
        with pytest.raises(PublicationBlocked, match=r"the lock of landing\.orders") as blocked:
            undo(either, 2)
    busy.close()
    assert "the same command again" in blocked.value.advice
    assert "resume" not in blocked.value.advice
    assert status(either.spec, either.connector).phase is Phase.HANDOFF_COMMITTED
    run_increment(either.spec, either.connector, "inc-1")
    late = either.target_rows()
    assert late == either.source_rows()
    undo(either, 2)
    assert either.target_rows() == first
    assert either.rows_of(rolled_back(either)) == late


class Unanswered:
    """A connector whose first transaction is committed without its answer coming back."""

    def __init__(self, orders: Orders) -> None:
        self._connector = orders.connector
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connector, name)

    def target(self, purpose: str) -> Target:
        target = self._connector.target(purpose)
        if self.lost:
            return target
        transaction = target.transaction

        @contextlib.contextmanager
        def unanswered() -> Iterator[None]:
            with transaction():
                yield
            self.lost += 1
            raise OutcomeUnknown("the connection broke while COMMIT was under way")

        target.transaction = unanswered  # type: ignore[method-assign]
        target.close, close = lambda: self._close(target, close), target.close  # type: ignore[method-assign]
        return target

    def _close(self, target: Target, close: Any) -> None:
        del target.transaction, target.close  # type: ignore[misc]
        close()


def test_a_rollback_whose_answer_was_lost_is_found_by_its_receipt(either: Orders) -> None:
    old = either.target_rows()
    campaign(either, 1)
    connector = Unanswered(either)
    receipt = rollback(either.spec, connector, ADA)  # type: ignore[arg-type]
    assert connector.lost == 1
    assert either.target_rows() == old
    assert history(either) == [(1, "publish"), (2, "rollback")]
    assert receipt.sequence == 2


# ---------------------------------------------------------------- dropping a backup


def test_a_dropped_backup_ends_the_way_back(either: Orders) -> None:
    campaign(either, 1)
    live = either.target_rows()
    backup = either.spec.backup
    receipt = drop_backup(either.spec, either.connector, "grace")
    assert (receipt.backup, receipt.backup_dropped_by) == (str(backup), "grace")
    assert receipt.backup_dropped_at is not None
    assert either.tables() == ["orders"]
    assert either.target_rows() == live
    for undoing in (preview_rollback, lambda *where: rollback(*where, ADA)):
        with pytest.raises(RollbackRefused, match=r"was dropped on .* approved by grace"):
            undoing(either.spec, either.connector)
    with pytest.raises(BackupRefused, match="already, approved by grace"):
        drop_backup(either.spec, either.connector, "grace")
    facts = status(either.spec, either.connector).publication_dict()
    assert (facts["backup_retained"], facts["retained"]) == (False, None)
    assert increment_gate(either.spec, either.connector) is None


def test_after_a_rollback_the_campaigns_own_table_is_what_can_be_dropped(either: Orders) -> None:
    old = either.target_rows()
    campaign(either, 1)
    undo(either, 1)
    assert preview_drop(either.spec, either.connector).table == rolled_back(either)
    receipt = drop_backup(either.spec, either.connector, "grace")
    assert (receipt.kind, receipt.backup) == ("rollback", str(rolled_back(either)))
    assert either.tables() == ["orders"]
    assert either.target_rows() == old


def test_a_table_that_no_receipt_vouches_for_is_not_dropped(either: Orders) -> None:
    load(either)
    with pytest.raises(BackupRefused, match="loading, not published"):
        drop_backup(either.spec, either.connector, "grace")
    with pytest.raises(RollbackRefused, match="loading, not published"):
        preview_rollback(either.spec, either.connector)
    finish(either)
    backup = either.spec.backup
    name = f'"{backup.schema}"."{backup.name}"'
    either.on_target(f"DROP TABLE {name}")
    with pytest.raises(BackupRefused, match="gone"):
        drop_backup(either.spec, either.connector, "grace")
    either.on_target(f"CREATE TABLE {name} (id int)")
    with pytest.raises(BackupRefused, match="is not the table that receipt"):
        drop_backup(either.spec, either.connector, "grace")
    assert backup.name in either.tables()
