"""The channel `slack`: alerts as messages of an incoming webhook."""

from __future__ import annotations

from dpone_dagster.campaign.alerts import Alert
from dpone_dagster.notify.post import post_json

_SIGNS = {"raised": ":red_circle:", "reported": ":red_circle:", "cleared": ":large_green_circle:"}


class SlackChannel:
    """Posts alerts to one Slack channel.

    Args:
        url: Of the incoming webhook, which is a secret as a whole.
    """

    name = "slack"
    problem: str | None = None

    def __init__(self, url: str) -> None:
        self._url = url

    def send(self, alert: Alert) -> None:
        """Post it.

        Raises:
            NotificationFailed: Slack did not take it.
        """
        headline, *rest = _escaped(alert.text).split("\n")
        post_json(self._url, {"text": "\n".join([f"{_SIGNS[alert.state]} *{headline}*", *rest])})


def _escaped(text: str) -> str:
    """Slack's three control characters as text (Slack docs, "Formatting text for app surfaces")."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
