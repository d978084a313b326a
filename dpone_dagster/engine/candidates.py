"""Which chunk a lane takes next."""

from __future__ import annotations

from collections import deque

from dpone_dagster.campaign.ledger import ChunkRecord, Claim
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.lane import LaneSessions

_LOOKED_UP = 16


class Candidates:
    """Free chunks, a few looked up at a time: each claim proves by itself that its chunk is still as it was seen.

    Args:
        sessions: Of the lane.
        selection: Chunks it may claim.

    Attributes:
        left: Whether the last look found any, free or in the hand of another.
    """

    def __init__(self, sessions: LaneSessions, selection: ChunkSelection) -> None:
        self._sessions = sessions
        self._selection = selection
        self._ahead: deque[ChunkRecord] = deque()
        self.left = True

    def take(self) -> Claim | None:
        """Claim the next one; None if there is none that can be claimed now."""
        # Where another lane was faster, more of what was seen is out of date.
        if self._ahead and (claim := self._sessions.take(self._ahead.popleft())) is not None:
            return claim
        self._ahead = deque(self._look())
        self.left = bool(self._ahead)
        while self._ahead:
            claim = self._sessions.take(self._ahead.popleft())
            if claim is not None:
                return claim
        return None

    def _look(self) -> list[ChunkRecord]:
        spec = self._sessions.spec
        return self._sessions.target.ledger.candidates(
            spec.run_key,
            self._sessions.worker,
            self._selection,
            failed_only=spec.retry_policy == "failed_only",
            limit=_LOOKED_UP,
        )
