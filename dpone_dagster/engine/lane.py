"""The connections of one lane, and how they are replaced when a server goes away."""

from __future__ import annotations

import contextlib
import time

from dpone_dagster.campaign.errors import CampaignActive, ConnectionLost, DponeError, LeaseLost, ServerUnreachable
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkRecord, ChunkState, Claim, Worker
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.heartbeat import Heartbeat
from dpone_dagster.engine.neighbours import prove_no_campaign
from dpone_dagster.engine.sessions import campaign_active, existing_campaign, opened
from dpone_dagster.ports.source import Source
from dpone_dagster.ports.target import Connector, Target

_JOIN_SECONDS = 30.0
# A dead session of ours frees its locks when the server sees it; keepalives make that seconds.
_RELOCK_SECONDS = 60.0
# A host that was told to stop does not wait that long.
_LAST_WORDS_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_RECONNECT_WAITS = (0.5, 2.0, 5.0)


class LaneSessions:
    """The connections of one lane, its place in the campaign, and the claim in hand.

    The target session holds the locks and writes the rows; where it breaks, a new one must take every lock anew and
    read the receipt before anything else. The source connects with the first chunk that has to be read.
    """

    def __init__(self, spec: CampaignSpec, connector: Connector, worker: Worker, heartbeat: Heartbeat) -> None:
        self.spec = spec
        self.worker = worker
        self.heartbeat = heartbeat
        self.claim: Claim | None = None
        self._touched: int | None = None
        self._connector = connector
        self._source: Source | None = None
        self._record: CampaignRecord | None = None
        self.target: Target = opened(connector.target, self._purpose)

    @property
    def _purpose(self) -> str:
        return f"lane {self.worker.lane} {self.worker.run_id[:8]}"

    @property
    def source(self) -> Source:
        """The source connection, opened when first needed.

        Raises:
            ConnectionLost: The server does not answer; in the middle of a campaign that is no mistake of the manifest.
        """
        if self._source is None:
            try:
                self._source = opened(self._connector.source, self._purpose)
            except ServerUnreachable as error:
                raise ConnectionLost(error.message) from error
            self.hold(self.claim)
        return self._source

    @property
    def record(self) -> CampaignRecord:
        """The campaign as it was when this lane joined."""
        if self._record is None:
            raise DponeError("the lane has not joined its campaign")
        return self._record

    def join(self) -> CampaignRecord:
        """Take the campaign's lock shared, then read its phase: a late lane sees that it is sealed.

        Raises:
            CampaignMissing: There is no campaign.
            CampaignActive: Somebody holds the campaign exclusively and stays; or an increment or a publication
                holds the live table that is written to.
        """
        fence, spec = self.target.fence, self.spec
        if not fence.lock_campaign(spec.run_key, "shared", _JOIN_SECONDS):
            raise campaign_active(spec, self.target)
        # Before any row is read: nobody who read them earlier may write after us, or he would bring old rows back.
        # A campaign whose state is a file is seen by nobody, so its lane is alone with the table.
        take = fence.hold_target if spec.state.in_file else fence.share_target
        if spec.direct and not take(spec.target, _JOIN_SECONDS):
            named = "; ".join(map(str, fence.target_holders(spec.target))) or "a session that has just let go"
            raise CampaignActive(f"{spec.target} is held by {named}")
        if spec.direct:
            prove_no_campaign(self.target, spec.target, but=spec)  # of two that overlap, the later one sees the other
        self._record = existing_campaign(self.spec, self.target)
        return self._record

    def take(self, seen: ChunkRecord) -> Claim | None:
        """Lock and claim a free chunk; None if another worker was faster."""
        run_key = self.spec.run_key
        self._touched = seen.index  # first of all: whoever is interrupted never learns what the server did
        claim = None
        if self.target.fence.try_lock_chunk(run_key, seen.index):
            claim = self.target.ledger.claim(run_key, seen, self.worker)
            if claim is None:
                self.target.fence.unlock_chunk(run_key, seen.index)
        if claim is None:
            self._touched = None
        return claim

    def hold(self, claim: Claim | None) -> None:
        """Note the claim in hand, so that its lease is renewed and its statements can be cut."""
        self.claim = claim
        sessions = [self.target] if self._source is None else [self.target, self._source]
        self.heartbeat.watch(claim, *sessions)

    def _drop_source(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def reclaim(self, claim: Claim) -> Claim:
        """After the target session was lost: connect anew and take the same chunk again, or find it taken.

        Raises:
            LeaseLost: Another worker has the chunk.
            CampaignActive: Somebody has taken the campaign exclusively since.
            ConnectionLost: The server stays away.
        """
        self.target.close()
        self._drop_source()
        self.target = self._reconnect()
        self.join()
        self._relock(claim)
        seen = self._chunk(self.target, claim.chunk_index)
        if (seen.epoch, seen.state) == (claim.epoch, ChunkState.COMMITTED):
            self.hold(claim)  # only the answer was lost; `finish` compares the receipt
            return claim
        if seen.epoch != claim.epoch or seen.state is not ChunkState.RUNNING:
            raise LeaseLost(f"chunk {claim.chunk_index} was taken over by {seen.worker}")
        again = self.target.ledger.claim(claim.run_key, seen, self.worker)
        if again is None:
            raise LeaseLost(f"chunk {claim.chunk_index} may not be claimed any more")
        self.hold(again)
        return again

    def _reconnect(self) -> Target:
        for wait in _RECONNECT_WAITS:
            time.sleep(wait)
            self.heartbeat.check()
            try:
                return self._connector.target(self._purpose)
            except ServerUnreachable:
                continue
        raise ConnectionLost("the target server did not come back")

    def _relock(self, claim: Claim) -> None:
        deadline = time.monotonic() + _RELOCK_SECONDS
        while not self._locked(self.target, claim.chunk_index, 1.0):
            self.heartbeat.check()
            if time.monotonic() >= deadline:
                raise LeaseLost(f"chunk {claim.chunk_index} is locked by another session")

    def _locked(self, target: Target, chunk_index: int, within_seconds: float) -> bool:
        """Take the chunk's lock, which its dead session may hold for a moment yet."""
        deadline = time.monotonic() + within_seconds
        while not target.fence.try_lock_chunk(self.spec.run_key, chunk_index):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _chunk(self, target: Target, chunk_index: int) -> ChunkRecord:
        (found,) = target.ledger.chunks(self.spec.run_key, ChunkSelection(((chunk_index, chunk_index + 1),)))
        return found

    def finish(self, claim: Claim, receipt: ChunkReceipt, seconds: float) -> None:
        """CAS the ledger to committed and let the chunk go.

        Raises:
            LeaseLost: The epoch is another worker's; the receipt stands all the same.
        """
        if not self.target.ledger.complete(claim, receipt, seconds) and not self._is_done(claim, receipt):
            raise LeaseLost(f"chunk {claim.chunk_index} belongs to another worker now")
        self._let_go(claim)

    def _is_done(self, claim: Claim, receipt: ChunkReceipt) -> bool:
        """Whether this very claim has committed the chunk before: the answer of the first CAS may have been lost."""
        seen = self._chunk(self.target, claim.chunk_index)
        done = (ChunkState.COMMITTED, claim.epoch, receipt.receipt_id)
        return (seen.state, seen.epoch, seen.receipt_id) == done

    def fail(self, error: DponeError, *, stop: bool) -> None:
        """Record the failure of the claim in hand and let the chunk go."""
        if self.claim is not None:
            self.target.ledger.fail(self.claim, error, stop=stop)
            self._let_go(self.claim)

    def abandon(self) -> None:
        """Close the connections, then give the chunk in hand back over a new one; for a lane that ends by an error.

        The old connection may be in the middle of anything. Once it is gone, whoever gets the chunk's lock knows that a
        chunk which is still `running` has no worker. Where that cannot be done soon, the next claimer finds out.
        """
        self.close()
        if self._touched is None:
            return
        with contextlib.suppress(DponeError), contextlib.closing(self._connector.target(self._purpose)) as target:
            if self._locked(target, self._touched, _LAST_WORDS_SECONDS):
                seen = self._chunk(target, self._touched)
                if seen.state is ChunkState.RUNNING:
                    target.ledger.give_back(Claim(self.spec.run_key, seen.index, seen.epoch, self.worker))

    def _let_go(self, claim: Claim) -> None:
        self.hold(None)
        self.target.fence.unlock_chunk(claim.run_key, claim.chunk_index)
        self._touched = None

    def close(self) -> None:
        """Close the connections, which frees every lock."""
        self.heartbeat.watch(None)
        self.target.close()
        self._drop_source()
