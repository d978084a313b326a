"""The resource that tells people, so that a test or a deployment can put another in its place."""

from __future__ import annotations

from collections.abc import Sequence

from dagster import ConfigurableResource

from dpone_dagster.ports.channel import Channel
from dpone_dagster.wiring import open_channels

NOTIFIER_NAME = "dpone_notifier"


class DponeNotifier(ConfigurableResource):  # type: ignore[type-arg]
    """Channels by the environment of the process that uses them (docs/alerts.md).

    Has no fields on purpose: a URL in a resource's configuration would be shown by the UI.
    """

    def channels(self) -> Sequence[Channel]:
        """All channels, opened by none yet. One that is misconfigured is among them and says so."""
        return open_channels()
