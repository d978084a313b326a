"""Notify: send what waits, in order, each channel for itself, so that one that is down keeps none from the others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from dpone_dagster.campaign.alerts import Alert, Watch
from dpone_dagster.campaign.errors import Finding, NotificationFailed
from dpone_dagster.ports.channel import Channel

# The rest is sent by the next tick; Dagster gives a tick a minute.
SENDING_SECONDS = 15.0


def notify(watch: Watch, channels: Sequence[Channel]) -> tuple[Watch, list[Finding]]:
    """Send what waits.

    Args:
        watch: What each channel has still to be sent.
        channels: All of them.

    Returns:
        What is left after it, and why, a channel that failed.
    """
    until = time.monotonic() + SENDING_SECONDS
    waiting: dict[str, tuple[Alert, ...]] = {}
    failures: list[Finding] = []
    for channel in channels:
        left = list(watch.waiting.get(channel.name, ()))
        try:
            if channel.problem is not None:  # said at every tick, not only when there is something to send
                raise NotificationFailed(channel.problem)
            while left and time.monotonic() < until:
                channel.send(left[0])
                del left[0]
        except NotificationFailed as error:
            failures.append(Finding(f"channel {channel.name}", error.message, error.advice))
        if left:
            waiting[channel.name] = tuple(left)
    return replace(watch, waiting=waiting), failures
