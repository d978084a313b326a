"""A channel: one way by which people are told."""

from __future__ import annotations

from typing import Protocol

from dpone_dagster.campaign.alerts import Alert


class Channel(Protocol):
    """Sends alerts. Bounded in time, and never repeats a secret.

    Attributes:
        name: Of the channel, unique in a project.
        problem: Why it cannot work as it is configured; None if it can.
    """

    name: str
    problem: str | None

    def send(self, alert: Alert) -> None:
        """Hand one alert over; returned means that the other side took it.

        Raises:
            NotificationFailed: It did not, or nobody knows.
        """
        ...
