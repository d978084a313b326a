"""What every adapter's locks guarantee."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dpone_dagster.campaign.errors import ConnectionLost, DponeError, LeaseLost, LockNotDistributed, PublicationBlocked
from dpone_dagster.campaign.ledger import Neighbour
from dpone_dagster.campaign.selection import ChunkSelection
from tests.contract.conftest import Adapter, Parts
from tests.contract.samples import RUN_KEY, TARGET, claim, start
from tests.waiting import promised


class _Undone(Exception):
    """Rolls a transaction back."""


def test_lanes_share_the_campaign_and_keep_a_coordinator_out(adapter: Adapter) -> None:
    one, two, coordinator = adapter.target(), adapter.target(), adapter.target()
    assert one.fence.lock_campaign(RUN_KEY, "shared", 0)
    assert two.fence.lock_campaign(RUN_KEY, "shared", 0)
    assert not coordinator.fence.lock_campaign(RUN_KEY, "exclusive", 0.2)
    one.fence.unlock_campaign(RUN_KEY, "shared")
    assert not coordinator.fence.lock_campaign(RUN_KEY, "exclusive", 0)
    two.close()
    assert coordinator.fence.lock_campaign(RUN_KEY, "exclusive", 5)
    assert not one.fence.lock_campaign(RUN_KEY, "shared", 0.1)


def test_another_campaign_is_another_lock(adapter: Adapter) -> None:
    one, two = adapter.target(), adapter.target()
    assert one.fence.lock_campaign(RUN_KEY, "exclusive", 0)
    assert two.fence.lock_campaign("b" * 64, "exclusive", 0)


def test_a_waiting_lane_gets_the_campaign_when_it_is_free(adapter: Adapter) -> None:
    coordinator, lane = adapter.target(), adapter.target()
    assert coordinator.fence.lock_campaign(RUN_KEY, "exclusive", 0)
    timer = threading.Timer(0.3, coordinator.close)
    timer.start()
    assert lane.fence.lock_campaign(RUN_KEY, "shared", 30)
    timer.join()


def test_an_exclusive_request_never_queues_longer_than_five_seconds(adapter: Adapter) -> None:
    lane, coordinator = adapter.target(), adapter.target()
    assert lane.fence.lock_campaign(RUN_KEY, "shared", 0)
    started = time.monotonic()
    assert not coordinator.fence.lock_campaign(RUN_KEY, "exclusive", 600)
    assert time.monotonic() - started < promised(30)


def test_a_chunk_has_one_holder(adapter: Adapter) -> None:
    one, two = adapter.target(), adapter.target()
    assert one.fence.try_lock_chunk(RUN_KEY, 7)
    assert not two.fence.try_lock_chunk(RUN_KEY, 7)
    assert two.fence.try_lock_chunk(RUN_KEY, 8)
    one.fence.unlock_chunk(RUN_KEY, 7)
    assert two.fence.try_lock_chunk(RUN_KEY, 7)


def test_the_end_of_a_session_frees_its_locks(adapter: Adapter) -> None:
    dead, heir = adapter.target(), adapter.target()
    assert dead.fence.lock_campaign(RUN_KEY, "shared", 0)
    assert dead.fence.try_lock_chunk(RUN_KEY, 0)
    adapter.end_session(dead)
    assert heir.fence.try_lock_chunk(RUN_KEY, 0)
    assert heir.fence.lock_campaign(RUN_KEY, "exclusive", 0)
    with pytest.raises(DponeError) as caught:
        dead.fence.try_lock_chunk(RUN_KEY, 0)
    assert caught.value.code == "CONNECTION_LOST"


def test_session_locks_outlive_transactions(adapter: Adapter) -> None:
    one, two = adapter.target(), adapter.target()
    with contextlib.suppress(_Undone), one.transaction():
        assert one.fence.try_lock_chunk(RUN_KEY, 0)
        raise _Undone
    assert not two.fence.try_lock_chunk(RUN_KEY, 0)


def test_letting_go_of_what_is_not_held_is_an_error(target: Parts) -> None:
    with pytest.raises(LeaseLost, match="chunk 3"):
        target.fence.unlock_chunk(RUN_KEY, 3)
    with pytest.raises(LeaseLost, match="shared"):
        target.fence.unlock_campaign(RUN_KEY, "shared")
    assert target.fence.lock_campaign(RUN_KEY, "shared", 0)
    with pytest.raises(LeaseLost, match="exclusive"):
        target.fence.unlock_campaign(RUN_KEY, "exclusive")


def test_the_target_lock_lives_as_long_as_its_transaction(adapter: Adapter) -> None:
    one, two = adapter.target("publisher"), adapter.target()
    with one.transaction():
        one.fence.lock_target(TARGET, 1)
        one.fence.lock_publication(TARGET, 1)
        with two.transaction():
            with pytest.raises(PublicationBlocked, match=r"landing\.orders.*publisher"):
                two.fence.lock_target(TARGET, 0.1)
            # The refusal leaves the transaction usable, and other targets free.
            two.fence.lock_target(TARGET.sibling("other"), 0.1)
    with two.transaction():
        two.fence.lock_target(TARGET, 0.1)
        with contextlib.suppress(_Undone), one.transaction():
            one.fence.lock_publication(TARGET, 0.1)
            raise _Undone
        two.fence.lock_publication(TARGET, 0.1)


def test_those_who_share_a_target_keep_out_whoever_wants_it_alone(adapter: Adapter) -> None:
    one, two, alone = adapter.target("lane 0"), adapter.target("lane 1"), adapter.target("increment")
    assert one.fence.share_target(TARGET, 0)
    assert two.fence.share_target(TARGET, 0.1)
    with alone.transaction():
        with pytest.raises(PublicationBlocked, match=r"landing\.orders.*lane"):
            alone.fence.lock_target(TARGET, 0.1)
        alone.fence.lock_target(TARGET.sibling("other"), 0.1)
    assert len(alone.fence.target_holders(TARGET)) == 2
    for lane in (one, two):
        adapter.end_session(lane)
    with alone.transaction():
        alone.fence.lock_target(TARGET, 5)
        late = adapter.target("lane 2")
        assert not late.fence.share_target(TARGET, 0.1)
    assert late.fence.share_target(TARGET, 0.1)


def test_a_transaction_lock_outside_a_transaction_is_refused(target: Parts) -> None:
    with pytest.raises(DponeError, match="there is none"):
        target.fence.lock_target(TARGET, 1)


def test_holders_are_named_with_what_they_hold(adapter: Adapter) -> None:
    lane, coordinator, looker = adapter.target("lane 0 run-1"), adapter.target("publish"), adapter.target()
    start(looker, chunks=4)
    assert looker.fence.holders(RUN_KEY) == []
    assert lane.fence.lock_campaign(RUN_KEY, "shared", 0)
    claim(lane, 2)
    assert coordinator.fence.lock_campaign("b" * 64, "exclusive", 0)
    held = looker.fence.holders(RUN_KEY)
    assert sorted(holder.lock for holder in held) == ["campaign (shared)", "chunk 2"]
    assert all("lane 0 run-1" in str(holder) and holder.login_at is not None for holder in held)
    (other,) = looker.fence.holders("b" * 64)
    assert (other.lock, "publish" in other.name) == ("campaign (exclusive)", True)
    (seen,) = {holder.session_id for holder in held}
    (chunk,) = looker.ledger.chunks(RUN_KEY, _one(2))
    assert (chunk.session_id, chunk.session_login_at) == (seen, held[0].login_at)


def test_a_holders_session_is_ended_by_number_and_login_time(adapter: Adapter) -> None:
    lane, operator = adapter.target("lane 0 run-1"), adapter.target("release")
    start(operator, chunks=4)
    assert lane.fence.lock_campaign(RUN_KEY, "shared", 0)
    claim(lane, 2)
    held = operator.fence.holders(RUN_KEY)
    (chunk,) = (holder for holder in held if holder.lock == "chunk 2")
    assert chunk.login_at is not None
    stranger = replace(chunk, login_at=chunk.login_at - timedelta(seconds=1))
    assert not operator.fence.end_session(RUN_KEY, stranger)  # its number is another session's by now
    assert operator.fence.holders(RUN_KEY) == held
    assert operator.fence.end_session(RUN_KEY, chunk)
    deadline = time.monotonic() + 30
    while operator.fence.holders(RUN_KEY) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert operator.fence.try_lock_chunk(RUN_KEY, 2)
    assert operator.fence.lock_campaign(RUN_KEY, "exclusive", 5)
    assert not operator.fence.end_session(RUN_KEY, chunk)
    with pytest.raises(ConnectionLost):
        lane.fence.try_lock_chunk(RUN_KEY, 3)


def test_whether_anybody_is_at_work_is_the_locks_answer(adapter: Adapter) -> None:
    lane, coordinator, looker = adapter.target("lane 0"), adapter.target("publish"), adapter.target()
    one, two, free = (neighbour(letter * 64) for letter in "abc")
    there = replace(free, elsewhere="another schema")
    assert looker.fence.held([one, two, free, there]) == looker.fence.held([]) == []
    assert lane.fence.lock_campaign(one.run_key, "shared", 0)
    assert coordinator.fence.lock_campaign(two.run_key, "exclusive", 0)
    assert looker.fence.held([free, two, there, one]) == [two, one]
    assert lane.fence.held([one, two]) == [two]  # not this session's own
    adapter.end_session(lane)
    assert looker.fence.held([one, two]) == [two]


def test_a_campaign_of_another_state_schema_has_its_lock_there(adapter: Adapter) -> None:
    lane, looker = adapter.target("lane 0"), adapter.target()
    here = neighbour(RUN_KEY)
    there = replace(here, elsewhere="another schema")
    fence: Any = lane.fence
    own, fence._schema = fence._schema, "another schema"
    try:
        assert lane.fence.lock_campaign(RUN_KEY, "shared", 0)
        assert looker.fence.held([here, there]) == [there]
    finally:
        fence._schema = own


def test_holders_can_be_asked_for_before_there_is_any_state(adapter: Adapter) -> None:
    one, two = adapter.target(), adapter.target()
    assert one.fence.lock_campaign(RUN_KEY, "exclusive", 0)
    assert [holder.lock for holder in two.fence.holders(RUN_KEY)] == ["campaign (exclusive)"]


def test_session_locks_are_proven_by_trying(adapter: Adapter) -> None:
    one = adapter.target()
    one.fence.prove_session_locks(adapter.target().fence)
    one.fence.prove_session_locks(adapter.target().fence)  # nothing of the first proof is left


def test_a_shared_session_proves_nothing(adapter: Adapter) -> None:
    one = adapter.target()
    with pytest.raises(LockNotDistributed, match="did not keep another session out"):
        one.fence.prove_session_locks(one.fence)


def neighbour(run_key: str) -> Neighbour:
    return Neighbour(run_key, "orders", None, "loading", True, None)


def _one(index: int) -> ChunkSelection:
    return ChunkSelection(((index, index + 1),))


def test_a_target_that_is_held_lets_no_one_in_until_its_session_ends(adapter: Adapter) -> None:
    """For the one lane of a campaign that nobody sees."""
    lane, other = adapter.target("lane"), adapter.target("other")
    assert other.fence.share_target(TARGET, 0)
    assert not lane.fence.hold_target(TARGET, 0)
    adapter.end_session(other)
    assert lane.fence.hold_target(TARGET, 5)
    third = adapter.target("third")
    assert not third.fence.share_target(TARGET, 0)
    assert not third.fence.hold_target(TARGET, 0)
    with pytest.raises(PublicationBlocked), third.transaction():
        third.fence.lock_target(TARGET, 0.2)
    assert [holder.session_id for holder in third.fence.target_holders(TARGET)]
    adapter.end_session(lane)
    assert third.fence.share_target(TARGET, 5)
