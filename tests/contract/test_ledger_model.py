"""The ledger on PostgreSQL against a model of it, in sequences that nobody has thought of.

Each example works on a campaign of its own in one database; its steps are the same in every run.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.ledger import LOADABLE, PHASE_MOVES, ChunkState, Claim, Phase
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from tests.contract.conftest import PostgresAdapter
from tests.contract.samples import campaign, plan, worker

CHUNKS, SESSIONS = 2, 2
_WAY = (Phase.LOADING, Phase.SEALED, Phase.VALIDATED, Phase.PUBLISHED, Phase.HANDOFF_COMMITTED)
_keys = (f"{number:064x}" for number in itertools.count(1))


@dataclass
class ChunkModel:
    """What a chunk's row must be."""

    state: ChunkState = ChunkState.PENDING
    epoch: int = 0
    receipt: str | None = None


@dataclass
class Model:
    """What the campaign's rows must be."""

    phase: Phase = Phase.PREPARED
    stopped: bool = False
    cancelled_by: str | None = None
    chunks: list[ChunkModel] = field(default_factory=lambda: [ChunkModel() for _ in range(CHUNKS)])


class LedgerMachine(RuleBasedStateMachine):
    """Two workers, an operator and a coordinator on one campaign."""

    adapter: PostgresAdapter
    claims = Bundle("claims")
    a_session = st.integers(0, SESSIONS - 1)
    a_chunk = st.integers(0, CHUNKS - 1)

    def __init__(self) -> None:
        super().__init__()
        self.sessions = [self.adapter.target(f"worker {n}") for n in range(SESSIONS)]
        self.key = next(_keys)
        self.model = Model()
        self.ledger.provision()
        with self.sessions[0].transaction():
            self.ledger.create(campaign(CHUNKS, run_key=self.key), plan(CHUNKS))

    @property
    def ledger(self):  # type: ignore[no-untyped-def]
        return self.sessions[0].ledger

    def teardown(self) -> None:
        for session in self.sessions:
            session.close()

    def seen(self, index: int):  # type: ignore[no-untyped-def]
        (found,) = self.ledger.chunks(self.key, ChunkSelection(((index, index + 1),)))
        return found

    # ------------------------------------------------------------ workers

    @rule(target=claims, session=a_session, index=a_chunk, stale=st.sampled_from([False] * 5 + [True]))
    def claim(self, session: int, index: int, stale: bool):  # type: ignore[no-untyped-def]
        """Under the chunk's lock, as a lane does; `stale` has looked before somebody else changed the row."""
        chunk = self.model.chunks[index]
        target = self.sessions[session]
        seen = self.seen(index)
        if stale:
            seen = type(seen)(**{**vars(seen), "epoch": seen.epoch - 1})
        assert target.fence.try_lock_chunk(self.key, index)
        claimed = target.ledger.claim(self.key, seen, worker(session))
        target.fence.unlock_chunk(self.key, index)
        free = chunk.state is not ChunkState.COMMITTED and not stale
        allowed = self.model.phase in LOADABLE and not self.model.stopped and self.model.cancelled_by is None
        assert (claimed is not None) == (free and allowed)
        if claimed is None:
            return multiple()
        assert claimed.epoch == chunk.epoch + 1, "epochs only rise"
        chunk.state, chunk.epoch = ChunkState.RUNNING, claimed.epoch
        self.model.phase = Phase.LOADING
        return claimed

    def owns(self, claim: Claim) -> bool:
        """Whether the claim is the one owner's."""
        chunk = self.model.chunks[claim.chunk_index]
        return chunk.state is ChunkState.RUNNING and chunk.epoch == claim.epoch

    @rule(claim=claims, session=a_session)
    def complete(self, claim: Claim, session: int) -> None:
        chunk, owner = self.model.chunks[claim.chunk_index], self.owns(claim)
        name = f"{claim.chunk_index}-{claim.epoch}"
        receipt = ChunkReceipt(self.key, claim.chunk_index, name, "plan", "contract", "binding", claim.epoch, 1)
        assert self.sessions[session].ledger.complete(claim, receipt, 1.0) == owner
        if owner:
            chunk.state, chunk.receipt = ChunkState.COMMITTED, name

    @rule(claim=claims, session=a_session, stop=st.booleans())
    def fail(self, claim: Claim, session: int, stop: bool) -> None:
        owner = self.owns(claim)
        assert self.sessions[session].ledger.fail(claim, DponeError("bad"), stop=stop) == owner
        if owner:
            self.model.chunks[claim.chunk_index].state = ChunkState.FAILED
            self.model.stopped |= stop

    @rule(claim=claims, session=a_session)
    def give_back(self, claim: Claim, session: int) -> None:
        owner = self.owns(claim)
        assert self.sessions[session].ledger.give_back(claim) == owner
        if owner:
            self.model.chunks[claim.chunk_index].state = ChunkState.PENDING

    @rule(claim=claims, session=a_session)
    def renew(self, claim: Claim, session: int) -> None:
        assert self.sessions[session].ledger.renew(claim) == self.owns(claim)

    def expire(self) -> None:
        """Time frees nothing: whoever has the epoch still owns the chunk."""
        self.adapter.expire_leases()

    # ------------------------------------------------------------ operator and coordinator

    @rule(what=st.sampled_from(["clear_stop", "take_up", "expire", "cancel", "go_on"]))
    def operate(self, what: str) -> None:
        """One rule for all, so that most steps are the workers'."""
        getattr(self, what)()

    def cancel(self) -> None:
        may = Phase.CANCELLED in PHASE_MOVES[self.model.phase] or self.model.phase is Phase.CANCELLED
        who = f"the one who saw {self.model.phase}"
        assert self.ledger.cancel(self.key, "why", who) == may
        if may:
            self.model.phase = Phase.CANCELLED
            self.model.cancelled_by = self.model.cancelled_by or who

    def take_up(self) -> None:
        changes = {"cancel_reason": None, "cancel_requested_by": None}
        may = self.model.phase is Phase.CANCELLED
        assert self.ledger.move(self.key, frozenset({Phase.CANCELLED}), Phase.RECOVERABLE, **changes) == may
        if may:
            self.model.phase, self.model.cancelled_by = Phase.RECOVERABLE, None

    def clear_stop(self) -> None:
        self.ledger.set_stop(self.key, None)
        self.model.stopped = False

    def go_on(self) -> None:
        """Seal, validate, publish, hand over: whichever is next once all is committed."""
        if all(chunk.state is ChunkState.COMMITTED for chunk in self.model.chunks):
            for old, new in pairwise(_WAY):
                self.move(old, new)

    def move(self, old: Phase, new: Phase) -> None:
        """It happens from the phase that is there only, and to `published` only without a cancel."""
        may = self.model.phase is old and (new is not Phase.PUBLISHED or self.model.cancelled_by is None)
        assert self.ledger.move(self.key, frozenset({old}), new) == may
        if may:
            self.model.phase = new

    @precondition(lambda self: any(chunk.state is ChunkState.COMMITTED for chunk in self.model.chunks))
    @rule(old=st.sampled_from(sorted(PHASE_MOVES)), new=st.sampled_from(sorted(PHASE_MOVES)))
    def leap(self, old: Phase, new: Phase) -> None:
        """A move that no campaign may make is an error, and changes nothing."""
        if new not in PHASE_MOVES[old] and new is not old:
            with pytest.raises(DponeError, match="no move"):
                self.ledger.move(self.key, frozenset({old}), new)

    # ------------------------------------------------------------ what holds after every step

    @invariant()
    def rows_are_the_models(self) -> None:
        rows = self.ledger.chunks(self.key, ChunkSelection.all(CHUNKS))
        assert [(row.state, row.epoch, row.receipt_id) for row in rows] == [
            (chunk.state, chunk.epoch, chunk.receipt) for chunk in self.model.chunks
        ]
        record = self.ledger.campaign(self.key)
        assert record is not None
        assert (record.phase, record.stop_reason is not None, record.cancel_requested_by) == (
            self.model.phase,
            self.model.stopped,
            self.model.cancelled_by,
        )

    @invariant()
    def counters_are_the_rows(self) -> None:
        progress = self.ledger.progress(self.key)
        states = [chunk.state for chunk in self.model.chunks]
        assert progress.total == CHUNKS
        assert progress.committed == states.count(ChunkState.COMMITTED)
        assert progress.failed == states.count(ChunkState.FAILED)
        assert progress.running + progress.lease_expired == states.count(ChunkState.RUNNING)


def test_the_ledger_is_its_model(new_database) -> None:  # type: ignore[no-untyped-def]
    adapter = PostgresAdapter(new_database("model"))
    machine = type("Machine", (LedgerMachine,), {"adapter": adapter})
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    bounded = settings(
        max_examples=40, stateful_step_count=40, deadline=None, derandomize=True, suppress_health_check=checks
    )
    run_state_machine_as_test(machine, settings=bounded)
    adapter.close()
