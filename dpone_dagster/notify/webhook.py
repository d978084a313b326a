"""The channel `webhook`: each alert as one JSON object to an address of yours."""

from __future__ import annotations

from dpone_dagster.campaign.alerts import Alert
from dpone_dagster.notify.post import post_json


class WebhookChannel:
    """Posts alerts as plain data.

    Args:
        url: Where to; secrets included.
        token: Sent as `Authorization: Bearer`, where there is one.
    """

    name = "webhook"
    problem: str | None = None

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def send(self, alert: Alert) -> None:
        """Post it.

        Raises:
            NotificationFailed: The server did not take it.
        """
        post_json(self._url, {"source": "dpone-dagster", **alert.as_dict(), "text": alert.text}, self._headers)
