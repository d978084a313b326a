"""The campaign's state: its phases, its chunks' states, and the only legal moves between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.watermark import Anchor

LEASE_TTL_SECONDS = 90
LEASE_RENEW_SECONDS = 30


class Phase(StrEnum):
    """Where a campaign stands."""

    PLANNED = "planned"
    PREPARED = "prepared"
    LOADING = "loading"
    RECOVERABLE = "recoverable"
    SEALED = "sealed"
    VALIDATED = "validated"
    BLOCKED = "blocked"
    PUBLISHED = "published"
    HANDOFF_COMMITTED = "handoff_committed"
    ROLLED_BACK = "rolled_back"
    CANCELLED = "cancelled"


class ChunkState(StrEnum):
    """Where a chunk stands. `lease_expired` is derived by readers and stored only by a claimer."""

    PENDING = "pending"
    RUNNING = "running"
    COMMITTED = "committed"
    FAILED = "failed"
    LEASE_EXPIRED = "lease_expired"


# Effective states that only a chunk which was claimed, and is not committed, is in.
BEGUN = frozenset({ChunkState.RUNNING, ChunkState.FAILED, ChunkState.LEASE_EXPIRED})

LOADABLE = frozenset({Phase.PREPARED, Phase.LOADING, Phase.RECOVERABLE})
FINISHED = frozenset({Phase.PUBLISHED, Phase.HANDOFF_COMMITTED})

# `blocked` leads back to `sealed` only: the rows are all there, so nothing is ever reloaded from it.
# Nothing leads out of `rolled_back`: what is loaded after it is another campaign.
PHASE_MOVES: Mapping[Phase, frozenset[Phase]] = {
    Phase.PLANNED: frozenset({Phase.PREPARED}),
    Phase.PREPARED: frozenset({Phase.LOADING, Phase.SEALED, Phase.CANCELLED}),
    Phase.LOADING: frozenset({Phase.RECOVERABLE, Phase.SEALED, Phase.CANCELLED}),
    Phase.RECOVERABLE: frozenset({Phase.LOADING, Phase.SEALED, Phase.CANCELLED}),
    Phase.SEALED: frozenset({Phase.VALIDATED, Phase.BLOCKED, Phase.CANCELLED}),
    Phase.VALIDATED: frozenset({Phase.PUBLISHED, Phase.SEALED, Phase.BLOCKED, Phase.CANCELLED}),
    Phase.BLOCKED: frozenset({Phase.SEALED, Phase.CANCELLED}),
    Phase.PUBLISHED: frozenset({Phase.HANDOFF_COMMITTED, Phase.ROLLED_BACK}),
    Phase.HANDOFF_COMMITTED: frozenset({Phase.ROLLED_BACK}),
    Phase.ROLLED_BACK: frozenset(),
    Phase.CANCELLED: frozenset({Phase.RECOVERABLE, Phase.SEALED}),
}

CANCELLABLE = frozenset(phase for phase, to in PHASE_MOVES.items() if Phase.CANCELLED in to) | {Phase.CANCELLED}

# Fields of a campaign that a move may change besides the phase.
CHANGEABLE = (
    "stop_reason",
    "cancel_reason",
    "cancel_requested_by",
    "seal_horizon",
    "validation",
    "receipt_id",
    "diagnostics",
)

CHUNK_MOVES: Mapping[ChunkState, frozenset[ChunkState]] = {
    ChunkState.PENDING: frozenset({ChunkState.RUNNING}),
    # running → running is a takeover: the claimer holds the lock of a worker that is gone.
    ChunkState.RUNNING: frozenset({ChunkState.COMMITTED, ChunkState.FAILED, ChunkState.PENDING, ChunkState.RUNNING}),
    ChunkState.FAILED: frozenset({ChunkState.RUNNING}),
    ChunkState.LEASE_EXPIRED: frozenset({ChunkState.RUNNING}),
    ChunkState.COMMITTED: frozenset(),
}


def may_move(old: Phase, new: Phase) -> bool:
    """Whether a campaign may go from one phase to another."""
    return new in PHASE_MOVES[old]


def require_move(old: Iterable[Phase], new: Phase, changes: Iterable[str]) -> None:
    """Refuse a move that no campaign may make, or a change of what stays.

    Args:
        old: Phases it may start from; staying where it is is no move.
        new: The phase after it.
        changes: Names of the fields it changes besides.

    Raises:
        DponeError: There is no such move.
    """
    illegal = sorted(phase for phase in old if phase is not new and not may_move(phase, new))
    if illegal or not set(changes) <= set(CHANGEABLE):
        raise DponeError(f"no move from {illegal} to {new} with {sorted(changes)} exists")


def claimable_states(*, failed_only: bool) -> list[str]:
    """States in which a chunk may be claimed without taking it over, as they are stored."""
    states = [ChunkState.FAILED] if failed_only else [ChunkState.FAILED, ChunkState.PENDING, ChunkState.LEASE_EXPIRED]
    return [str(state) for state in states]


def failure_text(error: DponeError) -> str:
    """What a failed chunk's row says; without the one character that no server's text can hold."""
    return "\n".join([error.message, *map(str, error.findings)]).replace("\x00", "\ufffd")


@dataclass(frozen=True)
class Worker:
    """Who does the work, as stored with every claim so that a holder can be named without special rights.

    Attributes:
        run_id: The Dagster run, or the command, that the worker belongs to.
        lane: The lane's number, from 0.
        host: Host name.
        pid: Process id on that host.
    """

    run_id: str
    lane: int
    host: str
    pid: int

    def __str__(self) -> str:
        return f"run {self.run_id} lane {self.lane} ({self.host}:{self.pid})"


@dataclass(frozen=True)
class CampaignRecord:
    """One campaign row. Changed only by compare-and-set on `phase`.

    Attributes:
        run_key: Identity.
        dataset: The manifest's name.
        backfill_id: The pinned id, if any.
        target: The live table.
        shadow: The table that chunks are written to: the campaign's own beside the live one, or, if the campaign is
            `direct`, the live table itself.
        backup: The name the live table gets at publication; a `direct` campaign leaves it unused.
        chunk_count: Chunks of the plan.
        plan_hash: Over chunks, target, key and column contract.
        config_hash: Over the execution policy and column contract.
        contract: The column contract as plain data (`ColumnContract.as_dict()`).
        contract_hash: Its SHA-256.
        source_digest: Digest of the source's catalog at prepare.
        shadow_digest: Digest of the catalog of the table that chunks are written to.
        object_contract: The live table's catalog as plain data, as it stood at prepare.
        object_contract_sha256: Its SHA-256.
        live_object_id: The live table's object id at prepare.
        live_generation: Generation of the live table at prepare, None if it was never published by a campaign.
        predecessor_receipt: Receipt id of the publication that made the live table, None likewise.
        shadow_object_id: The shadow's object id.
        digest_key: Secret of this campaign for key digests, hexadecimal.
        anchor: The xmin anchor, None where the source is not read by xmin.
        phase: See `Phase`.
        stop_reason: Why lanes claim no more, None while they may; who rolled it back and why, once it is.
        cancel_reason: Why it was cancelled; None if it was not.
        cancel_requested_by: By whom; None if it was not.
        seal_horizon: Transaction id that no reader may be older than at publication (PostgreSQL), None until sealed.
        validation: Evidence of the last validation, as plain data.
        receipt_id: The publication's receipt, None until published.
        diagnostics: Open map; unknown keys survive a round trip.
    """

    run_key: str
    dataset: str
    backfill_id: str | None
    target: TableRef
    shadow: TableRef
    backup: TableRef
    chunk_count: int
    plan_hash: str
    config_hash: str
    contract: Mapping[str, object]
    contract_hash: str
    source_digest: str
    shadow_digest: str
    object_contract: Mapping[str, object]
    object_contract_sha256: str
    live_object_id: int
    live_generation: str | None
    predecessor_receipt: str | None
    shadow_object_id: int
    digest_key: str
    anchor: Anchor | None = None
    phase: Phase = Phase.PREPARED
    stop_reason: str | None = None
    cancel_reason: str | None = None
    cancel_requested_by: str | None = None
    seal_horizon: int | None = None
    validation: Mapping[str, object] | None = None
    receipt_id: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    diagnostics: Mapping[str, object] = field(default_factory=dict)

    @property
    def direct(self) -> bool:
        """Whether its chunks are written straight into the live table."""
        return self.shadow == self.target


@dataclass(frozen=True)
class Neighbour:
    """A campaign of a target that is not finished, as far as others of that target have to know it.

    Attributes:
        phase: As it is stored, which another program may have done.
        slices: Which rows of the live table it writes; None if it does not say, or loads a shadow.
        elsewhere: The other state schema that it is in; None for the one at hand.
    """

    run_key: str
    dataset: str
    backfill_id: str | None
    phase: str
    direct: bool
    slices: Mapping[str, object] | None
    elsewhere: str | None = None


@dataclass(frozen=True)
class ChunkRecord:
    """One chunk row.

    Attributes:
        index: Position in the plan, from 0.
        state: As stored; `effective_state` is what people see.
        epoch: Raised by every claim; every later move names it.
        tries: How often it was claimed.
        worker: Who claimed it last.
        session_id: Server session of the claimer (backend pid / session_id).
        session_login_at: Login time of that session, against reuse of the id.
        lease_expires_at: By the server's clock.
        lease_expired: Whether the server's clock has passed it while the chunk is running.
        rows: Rows committed, None until then.
        seconds: Duration of the committed try.
        receipt_id: Receipt of the committed try.
        error_code: Code of the last failure.
        error: Message of the last failure.
        failed_run_id: Run in which it failed last; that run does not try it again.
    """

    index: int
    state: ChunkState
    epoch: int
    tries: int
    worker: Worker | None = None
    session_id: int | None = None
    session_login_at: datetime | None = None
    lease_expires_at: datetime | None = None
    lease_expired: bool = False
    rows: int | None = None
    seconds: float | None = None
    receipt_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error_code: str | None = None
    error: str | None = None
    failed_run_id: str | None = None

    @property
    def effective_state(self) -> ChunkState:
        """The state with expiry derived, as status shows it."""
        if self.state is ChunkState.RUNNING and self.lease_expired:
            return ChunkState.LEASE_EXPIRED
        return self.state


@dataclass(frozen=True)
class Claim:
    """The right to write one chunk: its lock is held by this session and its epoch is ours."""

    run_key: str
    chunk_index: int
    epoch: int
    worker: Worker

    @property
    def is_first(self) -> bool:
        """Whether nobody had the chunk before, so that no try can have left anything."""
        return self.epoch == 1

    def stop_reason(self, error: DponeError) -> str:
        """What the campaign's stop token says after this chunk failed."""
        return f"chunk {self.chunk_index} failed: {error.code}"


@dataclass(frozen=True)
class Holder:
    """A session that holds a lock of the campaign.

    Attributes:
        session_id: Backend pid / session_id on the server.
        login_at: When that session logged in; None where the server does not let this login see it.
        name: The application name it gave.
        lock: What it holds: `campaign (shared)`, `campaign (exclusive)` or `chunk 7`.
    """

    session_id: int
    login_at: datetime | None
    name: str
    lock: str

    def __str__(self) -> str:
        since = f", logged in {self.login_at:%Y-%m-%d %H:%M:%S%z}" if self.login_at else ""
        return f"session {self.session_id} ({self.name}){since}: {self.lock}"
