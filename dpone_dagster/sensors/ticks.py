"""How a tick of an alert sensor ends: nothing that was told is told again, and nothing that failed passes unseen."""

from __future__ import annotations

from collections.abc import Sequence

from dagster import SensorEvaluationContext, SkipReason

from dpone_dagster.campaign.alerts import Watch
from dpone_dagster.campaign.errors import Finding, NotificationFailed, WatchFailed


def end_tick(
    context: SensorEvaluationContext,
    watch: Watch,
    cursor: str,
    *,
    moved: bool,
    unseen: Sequence[Finding] = (),
    unsent: Sequence[Finding] = (),
) -> SkipReason:
    """Keep what was achieved, or fail.

    Dagster throws away the cursor of a tick that fails, and with it what was sent and what waits. So a tick that got
    anywhere keeps its cursor and says what failed; the next one fails for the same cause, with nothing to lose.

    Args:
        context: Of the tick.
        watch: What is open and waits.
        cursor: The one to keep.
        moved: Whether it says more than the one before.
        unseen: Connections that could not be looked at.
        unsent: Channels that failed.

    Raises:
        WatchFailed: Nothing was achieved, and a connection failed.
        NotificationFailed: Nothing was achieved, and a channel failed.
    """
    failures = [*unseen, *unsent]
    text = f"incidents open: {len(watch.open)}; alerts to be sent: {watch.count_waiting}"
    if failures and not moved:
        if unseen:
            raise WatchFailed(f"not all databases could be looked at; {text}", findings=failures)
        raise NotificationFailed(f"not all channels work; {text}", findings=failures)
    context.update_cursor(cursor)
    for failure in failures:
        context.log.error(str(failure))
    return SkipReason("; ".join([text, *(f"tried again at the next tick: {failure}" for failure in failures)]))
