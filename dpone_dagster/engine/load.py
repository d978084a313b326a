"""A lane: takes the next free chunk until none is left. And what a run's lanes have come to, collected."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from dpone_dagster.campaign.chunkadvice import advice_on_chunk
from dpone_dagster.campaign.errors import (
    CampaignActive,
    ChunkFailed,
    ConnectionLost,
    DponeError,
    Finding,
    Interrupted,
    LeaseLost,
    OutcomeUnknown,
    ReceiptMismatch,
)
from dpone_dagster.campaign.ledger import LOADABLE, ChunkRecord, ChunkState, Claim, Phase, Worker
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.candidates import Candidates
from dpone_dagster.engine.card import CampaignCard
from dpone_dagster.engine.chunk import load_chunk
from dpone_dagster.engine.heartbeat import Heartbeat
from dpone_dagster.engine.lane import LaneSessions
from dpone_dagster.engine.sessions import existing_campaign, prove_not_cancelled, target_session
from dpone_dagster.faultpoints import reach
from dpone_dagster.ports.target import Connector, Target

_PAGE_CHUNKS = 1_000
_QUIET_WAIT_SECONDS = 1.0
_SHOWN_FAILURES = 20
_WAIT_SECONDS = (0.1, 0.2, 0.5, 1.0)


class LaneObserver(Protocol):
    """What a lane tells the host. Nothing here may raise: the database has the truth already."""

    def committed(self, chunk: Chunk, receipt: ChunkReceipt, seconds: float, *, replayed: bool) -> None:
        """A chunk is committed; `replayed` if its receipt was there and nothing was read."""
        ...

    def failed(self, chunk: Chunk, error: DponeError) -> None:
        """A chunk ended in an error; nothing of it was kept."""
        ...

    def progress(self, card: CampaignCard) -> None:
        """Where the campaign stands; called from another thread, every now and then."""
        ...


@dataclass
class LaneResult:
    """What one lane did."""

    committed: int = 0
    replayed: int = 0
    failed: int = 0
    rows: int = 0
    stopped: str | None = None


def load_lane(
    spec: CampaignSpec,
    connector: Connector,
    worker: Worker,
    selection: ChunkSelection,
    observer: LaneObserver,
    alive: Callable[[], bool] = lambda: True,
) -> LaneResult:
    """Work through the selected chunks beside other lanes, until none is left or the campaign stops.

    Args:
        spec: The campaign.
        connector: Opens the lane's connections; they live as long as the lane.
        worker: Who this lane is.
        selection: Chunks it may claim.
        observer: Told of every chunk.
        alive: False once the lane's parent is gone; looked at every second and between batches.

    Raises:
        Interrupted: The parent is gone or the drain ran out; the chunk in hand was given back.
        ConnectionLost: A server stayed away after three tries.
        LeaseLost: This lane's session was ended by an operator and another has its chunk.
        CampaignActive: Somebody holds the campaign exclusively and does not let go.
    """
    result = LaneResult()
    with (
        Heartbeat(spec, connector, alive, observer.progress) as heartbeat,
        contextlib.closing(LaneSessions(spec, connector, worker, heartbeat)) as sessions,
    ):
        record = sessions.join()
        if record.phase not in LOADABLE:
            result.stopped = f"the campaign is {record.phase}"
            return result
        try:
            _work_through(sessions, selection, observer, result)
        except DponeError:
            sessions.abandon()
            heartbeat.check()  # an interrupt may show as an error of the statement that it cut
            raise
        except BaseException:  # an interrupt of the host, wherever it comes
            sessions.abandon()
            raise
    return result


def _work_through(
    sessions: LaneSessions, selection: ChunkSelection, observer: LaneObserver, result: LaneResult
) -> None:
    for chunk, claim in _claims(sessions, selection, result):
        _work(sessions, chunk, claim, observer, result)
        if result.stopped is not None:
            return


def _claims(sessions: LaneSessions, selection: ChunkSelection, result: LaneResult) -> Iterator[tuple[Chunk, Claim]]:
    """Free chunks, one after the other; waits while others still hold some, for their holder may die."""
    waits = 0
    candidates = Candidates(sessions, selection)
    while True:
        sessions.heartbeat.check()
        claim = candidates.take()
        if claim is not None:
            waits = 0
            yield sessions.spec.plan.chunk(claim.chunk_index), claim
            continue
        # A claim proves by itself that the campaign takes it, so the campaign's row is read only where there is none.
        record = existing_campaign(sessions.spec, sessions.target)
        if record.stop_reason is not None or record.phase not in LOADABLE:
            result.stopped = record.stop_reason or f"the campaign is {record.phase}"
            return
        if not candidates.left:
            return
        time.sleep(_WAIT_SECONDS[min(waits, len(_WAIT_SECONDS) - 1)])
        waits += 1


def _work(sessions: LaneSessions, chunk: Chunk, claim: Claim, observer: LaneObserver, result: LaneResult) -> None:
    started = time.monotonic()
    try:
        done = load_chunk(sessions, chunk, claim)
    except (CampaignActive, LeaseLost, ConnectionLost, OutcomeUnknown, Interrupted):
        raise
    except DponeError as error:
        # Somebody wrote receipts that are not ours: whatever the policy, no other chunk is safe then.
        stop = sessions.spec.on_chunk_failure == "stop" or isinstance(error, ReceiptMismatch)
        sessions.fail(error, stop=stop)
        observer.failed(chunk, error)
        result.failed += 1
        goes_on = sessions.spec.on_chunk_failure == "continue" and not stop
        result.stopped = None if goes_on else f"chunk {chunk.index} failed: {error.code}"
        return
    reach("after_ledger", chunk.index)
    observer.committed(chunk, done.receipt, time.monotonic() - started, replayed=done.replayed)
    result.committed += 1
    result.replayed += done.replayed
    result.rows += done.receipt.rows


def collect(spec: CampaignSpec, connector: Connector, selection: ChunkSelection) -> Progress:
    """Read from the ledger what became of the selected chunks.

    Raises:
        CampaignCancelled: One or more are not committed because the campaign was told to stop.
        ChunkFailed: One or more are not committed; each failed one is a finding.
    """
    with target_session(connector, "collect") as target:
        return collected(spec, target, selection)


def collected(spec: CampaignSpec, target: Target, selection: ChunkSelection) -> Progress:
    """As `collect`, over a session that is there already."""
    progress = target.ledger.progress(spec.run_key, selection)
    if progress.remaining == 0:
        return progress
    prove_not_cancelled(existing_campaign(spec, target))
    failed = target.ledger.chunks(spec.run_key, selection, only=("failed",), limit=_SHOWN_FAILURES)
    _recoverable_if_quiet(spec, target)
    raise _chunks_failed(spec, progress, failed)


def collected_again(spec: CampaignSpec, target: Target) -> Progress:
    """Read from the ledger that no chunk is failed any more, whatever else is left for `resume`.

    Args:
        spec: The campaign.
        target: The session.

    Raises:
        CampaignCancelled: The campaign was told to stop.
        ChunkFailed: One or more have failed again; each is a finding.
    """
    every = ChunkSelection.all(spec.plan.count)
    progress = target.ledger.progress(spec.run_key, every)
    if progress.remaining:
        prove_not_cancelled(existing_campaign(spec, target))
        _recoverable_if_quiet(spec, target)
    failed = target.ledger.chunks(spec.run_key, every, only=("failed",), limit=_SHOWN_FAILURES)
    if failed:
        raise _chunks_failed(spec, progress, failed)
    return progress


def _recoverable_if_quiet(spec: CampaignSpec, target: Target) -> None:
    """Only where no lane is left: another run of the same backfill may still be loading."""
    if target.fence.lock_campaign(spec.run_key, "exclusive", _QUIET_WAIT_SECONDS):
        target.ledger.move(spec.run_key, frozenset({Phase.LOADING}), Phase.RECOVERABLE)
        target.fence.unlock_campaign(spec.run_key, "exclusive")


def _chunks_failed(spec: CampaignSpec, progress: Progress, failed: Sequence[ChunkRecord]) -> ChunkFailed:
    findings = [
        Finding(f"chunk {c.index}", f"{c.error_code}: {c.error}", advice_on_chunk(spec, c.error_code)) for c in failed
    ]
    return ChunkFailed(
        f"{progress.remaining} of {progress.total} chunks are not committed ({progress.failed} failed)",
        findings=findings,
    )


def loaded_before(
    spec: CampaignSpec, connector: Connector, selection: ChunkSelection, groups: Iterable[tuple[int, int]]
) -> Iterator[list[ChunkRecord]]:
    """The groups of chunks that are committed already, while others of the selection are not.

    Args:
        spec: The campaign; it is prepared.
        connector: Opens the connection.
        selection: What is to be loaded.
        groups: Half-open ranges of chunks.
    """
    with target_session(connector, "prepare") as target:
        progress = target.ledger.progress(spec.run_key, selection)
        for chunks in chunks_of_each(spec, target, groups if progress.committed and progress.remaining else ()):
            if all(chunk.state is ChunkState.COMMITTED for chunk in chunks):
                yield chunks


def chunks_of_each(
    spec: CampaignSpec, target: Target, groups: Iterable[tuple[int, int]]
) -> Iterator[list[ChunkRecord]]:
    """The chunk rows of one group after the other, so that no more than a page of them is in memory.

    Args:
        spec: The campaign.
        target: The session.
        groups: Half-open, disjoint ranges of chunks.
    """
    for page in _pages(groups):
        rows = {chunk.index: chunk for chunk in target.ledger.chunks(spec.run_key, ChunkSelection(tuple(sorted(page))))}
        for group in page:
            yield [rows[index] for index in range(*group) if index in rows]


def _pages(groups: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """As many groups at once as have `_PAGE_CHUNKS` chunks, or one that has more."""
    page: list[tuple[int, int]] = []
    chunks = 0
    for start, stop in groups:
        page.append((start, stop))
        chunks += stop - start
        if chunks >= _PAGE_CHUNKS:
            yield page
            page, chunks = [], 0
    if page:
        yield page
