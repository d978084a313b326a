"""The connections of one lane, and how they are replaced when a server goes away."""

from __future__ import annotations

import time

from dpone_dagster.campaign.errors import ConnectionLost, DponeError, LeaseLost, ServerUnreachable
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkState, Claim, Worker
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.heartbeat import Heartbeat
from dpone_dagster.engine.sessions import existing_campaign
from dpone_dagster.ports import Connector, Source, Target

_JOIN_SECONDS = 30.0
# A dead session of ours frees its locks when the server sees it; keepalives make that seconds.
_RELOCK_SECONDS = 60.0
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
        self._connector = connector
        self._source: Source | None = None
        self._record: CampaignRecord | None = None
        self.target: Target = connector.target(self._purpose)

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
                self._source = self._connector.source(self._purpose)
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
            LeaseLost: Somebody holds the campaign exclusively and does not let go.
        """
        if not self.target.fence.lock_campaign(self.spec.run_key, "shared", _JOIN_SECONDS):
            raise LeaseLost(f"campaign {self.spec.dataset} is held exclusively by another session")
        self._record = existing_campaign(self.spec, self.target)
        return self._record

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
            ConnectionLost: The server stays away.
        """
        self.target.close()
        self._drop_source()
        self.target = self._reconnect()
        self.join()
        self._relock(claim)
        one = ChunkSelection(((claim.chunk_index, claim.chunk_index + 1),))
        seen = self.target.ledger.chunks(claim.run_key, one)[0]
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
        while not self.target.fence.try_lock_chunk(claim.run_key, claim.chunk_index):
            self.heartbeat.check()
            if time.monotonic() >= deadline:
                raise LeaseLost(f"chunk {claim.chunk_index} is locked by another session")
            time.sleep(0.5)

    def finish(self, claim: Claim, receipt: ChunkReceipt, seconds: float) -> None:
        """CAS the ledger to committed and let the chunk go.

        Raises:
            LeaseLost: The epoch is another worker's; the receipt stands all the same.
        """
        if not self.target.ledger.complete(claim, receipt, seconds):
            raise LeaseLost(f"chunk {claim.chunk_index} belongs to another worker now")
        self._let_go(claim)

    def fail(self, error: DponeError, *, stop: bool) -> None:
        """Record the failure of the claim in hand and let the chunk go."""
        if self.claim is not None:
            self.target.ledger.fail(self.claim, error, stop=stop)
            self._let_go(self.claim)

    def give_back(self) -> None:
        """The claim in hand goes back to pending, if the session still can; else its lock's end tells all."""
        if self.claim is None:
            return
        try:
            self.target.ledger.give_back(self.claim)
            self._let_go(self.claim)
        except DponeError:
            self.claim = None

    def _let_go(self, claim: Claim) -> None:
        self.hold(None)
        self.target.fence.unlock_chunk(claim.run_key, claim.chunk_index)

    def close(self) -> None:
        """Close the connections, which frees every lock."""
        self.heartbeat.watch(None)
        self.target.close()
        self._drop_source()
