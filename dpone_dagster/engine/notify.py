"""Notify: send what waits, in order, all channels at once: none that is down or slow keeps it from the others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from dpone_dagster.campaign.alerts import Alert, Watch
from dpone_dagster.campaign.errors import Finding, NotificationFailed
from dpone_dagster.engine.atonce import at_once
from dpone_dagster.ports.channel import Channel

# The rest is sent by the next tick; Dagster gives a tick a minute.
SENDING_SECONDS = 15.0
# For what was begun by then.
LAST_SECONDS = 10.0


def notify(watch: Watch, channels: Sequence[Channel]) -> tuple[Watch, list[Finding]]:
    """Send what waits.

    Args:
        watch: What each channel has still to be sent.
        channels: All of them.

    Returns:
        What is left after it, and why, a channel that failed or did not answer in time.
    """
    sendings = [_Sending(channel, list(watch.waiting.get(channel.name, ()))) for channel in channels]
    until = time.monotonic() + SENDING_SECONDS
    ended = at_once([partial(sending.send, until) for sending in sendings], SENDING_SECONDS + LAST_SECONDS)
    waiting: dict[str, tuple[Alert, ...]] = {}
    failures: list[Finding] = []
    for sending, future in zip(sendings, ended, strict=True):
        failed = future.result() if future.done() else NotificationFailed("takes no alert in the time that a tick has")
        if failed is not None:
            failures.append(Finding(f"channel {sending.channel.name}", failed.message, failed.advice))
        if left := tuple(sending.left):
            waiting[sending.channel.name] = left
    return replace(watch, waiting=waiting), failures


@dataclass(frozen=True)
class _Sending:
    """One channel and what it has still to be sent."""

    channel: Channel
    left: list[Alert]

    def send(self, until: float) -> NotificationFailed | None:
        """Send one after another, and begin none after this moment; why it failed, if it did."""
        if self.channel.problem is not None:  # said at every tick, not only when there is something to send
            return NotificationFailed(self.channel.problem)
        try:
            while self.left and time.monotonic() < until:
                self.channel.send(self.left[0])
                del self.left[0]
        except NotificationFailed as error:
            return error
        return None
