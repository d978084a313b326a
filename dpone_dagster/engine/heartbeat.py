"""The lane's second connection: renews the lease, reads the card, and cuts statements when the lane has to stop."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

from dpone_dagster.campaign.errors import Interrupted
from dpone_dagster.campaign.ledger import LEASE_RENEW_SECONDS, Claim
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.card import CampaignCard, CardFeed
from dpone_dagster.engine.stopping import SECONDS_BETWEEN_CUTS, TOLD, Cancellable, stop_signals
from dpone_dagster.ports.target import Connector, Target

_logger = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_STOP_LOOK_SECONDS = 5.0
_ORPHANED = "the run that started this lane is gone"


class Heartbeat:
    """One thread on a connection of its own, which never touches data.

    Args:
        spec: The campaign.
        connector: Opens the connection.
        alive: Whether the lane's parent is alive.
        show: Called with the campaign's card every now and then, from this thread.
    """

    def __init__(
        self,
        spec: CampaignSpec,
        connector: Connector,
        alive: Callable[[], bool],
        show: Callable[[CampaignCard], None],
    ) -> None:
        self._spec = spec
        self._connector = connector
        self._alive = alive
        self._cards = CardFeed(spec, show)
        self._lock = threading.Lock()
        self._claim: Claim | None = None
        self._sessions: tuple[Cancellable, ...] = ()
        self._done = threading.Event()
        self._reason: str | None = None
        self._cut_again_at = 0.0
        self._signals = contextlib.ExitStack()
        self._stopped: Callable[[], bool] = bool
        self._thread = threading.Thread(target=self._run, name="dpone-heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._stopped = self._signals.enter_context(stop_signals())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(timeout=10)
        self._signals.close()

    def watch(self, claim: Claim | None, *sessions: Cancellable) -> None:
        """Renew this claim's lease from now on, and cut these sessions if the lane has to stop."""
        with self._lock:
            self._claim = claim
            self._sessions = sessions

    def check(self) -> None:
        """Between batches and chunks: whether the lane may go on.

        Raises:
            Interrupted: This process was told to stop, the parent is gone, or the drain after a known failure has run
                out.
        """
        if self._reason is None and self._stopped():
            self._stop(TOLD)
        if self._reason is None and not self._alive():
            self._stop(_ORPHANED)
        if self._reason is not None:
            raise Interrupted(self._reason)

    def _run(self) -> None:
        target: Target | None = None
        renewed = looked = time.monotonic()
        stopped_since: float | None = None
        while not self._done.wait(_LOOK_SECONDS):
            now = time.monotonic()
            self._cut_if_told(now)
            if not self._alive():
                self._cut(_ORPHANED)
                continue
            renew, look = now - renewed >= LEASE_RENEW_SECONDS, now - looked >= _STOP_LOOK_SECONDS
            if not (renew or look or self._cards.due):
                continue
            try:
                target = target or self._connector.target("lease")
                if renew:
                    renewed = now
                    self._renew(target)
                if look:
                    looked = now
                    stopped_since = self._drain(target, stopped_since, now)
                self._cards.look(target)
            except Exception:
                # The lease is for people to see; a lost heartbeat must not end a lane whose locks hold, nor end itself.
                _logger.warning("the lease was not renewed", exc_info=True)
                if target is not None:
                    target.close()
                target = None
        if target is not None:
            target.close()

    def _renew(self, target: Target) -> None:
        with self._lock:
            claim = self._claim
        if claim is not None:
            target.ledger.renew(claim)

    def _drain(self, target: Target, since: float | None, now: float) -> float | None:
        """After a known failure or a cancel the chunk in hand gets the drain time, then its statements are cut."""
        record = target.ledger.campaign(self._spec.run_key)
        if record is None or (record.stop_reason is None and record.cancel_reason is None):
            return None
        since = now if since is None else since
        if now - since >= self._spec.drain_timeout_seconds:
            self._cut("the drain time after a stop has run out")
        return since

    def _cut_if_told(self, now: float) -> None:
        """Again and again: between two statements a cut finds nothing, and a driver may swallow what it leads to."""
        if self._stopped():
            self._cut(TOLD)
        elif self._reason is not None and now >= self._cut_again_at:
            self._cut(self._reason)

    def _stop(self, reason: str) -> None:
        self._reason = reason
        self._cut_again_at = time.monotonic() + SECONDS_BETWEEN_CUTS

    def _cut(self, reason: str) -> None:
        self._stop(reason)
        with self._lock:
            sessions = self._sessions
        for session in sessions:
            session.cancel()
