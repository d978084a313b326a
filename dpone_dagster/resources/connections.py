"""The resource that opens a campaign's connections, so that a test or a deployment can put another in its place."""

from __future__ import annotations

import os

from dagster import ConfigurableResource

from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.connections import Connections
from dpone_dagster.ports.target import Connector
from dpone_dagster.wiring import open_connector

RESOURCE_NAME = "dpone_connections"


class DponeConnections(ConfigurableResource):  # type: ignore[type-arg]
    """Connections by the environment of the process that uses them.

    Has no fields on purpose: a URL in a resource's configuration would be shown by the UI.
    """

    def connector(self, spec: RouteSpec) -> Connector:
        """What opens the campaign's connections; opens none by itself.

        Args:
            spec: The campaign.

        Raises:
            ConnectionMissing: A `connection_ref` has no URL.
            ConnectionInvalid: A URL does not fit the manifest's server.
        """
        return open_connector(spec, Connections.from_environment(os.environ))
