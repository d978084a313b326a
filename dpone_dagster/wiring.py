"""Builds the adapters that a campaign needs; the one place where shells meet drivers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpone_dagster.ports.channel import Channel

from dpone_dagster import faultpoints
from dpone_dagster.campaign.errors import ConnectionInvalid, LoginRefused, ServerUnreachable
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec
from dpone_dagster.campaign.statebackends import state_file
from dpone_dagster.connections import Connections
from dpone_dagster.ports.source import Source
from dpone_dagster.ports.target import Connector, Target
from dpone_dagster.settings import placed


class _CampaignConnector:
    """The source's server and the sink's. Drivers load with the first connection."""

    def __init__(self, spec: RouteSpec, connections: Connections) -> None:
        self._source_url = connections.url(spec.source_ref, spec.source_type)
        self._target_url = connections.url(spec.sink_ref, spec.sink_type)
        self._state_url = connections.url(spec.state.connection_ref, spec.sink_type)
        self._sink_type = spec.sink_type
        self._state_schema = spec.state.schema
        self._file = _file_of(spec)
        self._name = spec.dataset
        self._spec = spec

    def source(self, purpose: str) -> Source:
        """A new source connection."""
        name = f"{self._name} {purpose}"
        with _named(self._spec.source_ref):
            if self._spec.source_type == "mssql":
                from dpone_dagster.mssql.source import MssqlSource

                return MssqlSource(self._source_url.reveal(), name)
            from dpone_dagster.postgres.source import PostgresSource

            return PostgresSource(self._source_url.reveal(), name)

    def target(self, purpose: str) -> Target:
        """A new target connection."""
        with _named(self._spec.sink_ref):
            return self._open(self._target_url.reveal(), purpose)

    def state(self, purpose: str) -> Target:
        """A new connection to where the state is said to live."""
        with _named(self._spec.state.connection_ref):
            return self._open(self._state_url.reveal(), purpose)

    def _open(self, url: str, purpose: str) -> Target:
        server = self._server(url, purpose)
        if self._file is None:
            return server
        from dpone_dagster.files.target import FileStateTarget

        return FileStateTarget(server, self._file.parent, self._file.stem)

    def _server(self, url: str, purpose: str) -> Target:
        name = f"{self._name} {purpose}"
        if self._sink_type == "mssql":
            from dpone_dagster.mssql.target import MssqlTarget

            return MssqlTarget(url, name, self._state_schema)
        from dpone_dagster.postgres.target import PostgresTarget

        return PostgresTarget(url, name, self._state_schema)


@contextlib.contextmanager
def _named(connection_ref: str) -> Iterator[None]:
    """A server that cannot be had is called by the manifest's name for it too: hosts and ports may be the same."""
    try:
        yield
    except (ConnectionInvalid, ServerUnreachable, LoginRefused) as error:
        raise type(error)(f"{connection_ref}: {error.message}", next_step=error.advice) from error


def _file_of(spec: RouteSpec) -> Path | None:
    """The file that a campaign's state is in; None where tables have it."""
    if not isinstance(spec, CampaignSpec) or not spec.state.in_file:
        return None
    return state_file(placed(spec, os.environ))


def open_connector(spec: RouteSpec, connections: Connections) -> Connector:
    """What opens the campaign's connections, in every process that works for it. Opens none by itself.

    Args:
        spec: The campaign.
        connections: Where the URLs are.

    Raises:
        ConnectionMissing: A `connection_ref` has no URL.
        ConnectionInvalid: A URL does not fit the manifest's server.
        FaultsRefused: The environment asks for faults and does not allow them.
    """
    faultpoints.arm(os.environ)
    return _CampaignConnector(spec, connections)


def open_channels() -> list[Channel]:
    """The channels by which people are told, by this process's environment. Connects to none."""
    from dpone_dagster.notify.environment import channels_of

    return channels_of(os.environ)
