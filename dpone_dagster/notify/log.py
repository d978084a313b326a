"""The channel `log`: always there, needs nothing."""

from __future__ import annotations

import logging

from dpone_dagster.campaign.alerts import Alert

_logger = logging.getLogger("dpone_dagster.alerts")


class LogChannel:
    """Writes alerts to the logger `dpone_dagster.alerts`, a line each: a warning, or information once it is over."""

    name = "log"
    problem: str | None = None

    def send(self, alert: Alert) -> None:
        """Log it."""
        level = logging.INFO if alert.state == "cleared" else logging.WARNING
        _logger.log(level, "%s", alert.text.replace("\n", " | "))
