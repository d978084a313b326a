"""Ticks of the alert sensors one after another, as the daemon makes them, and what arrives meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dagster import DagsterInstance, build_sensor_context

from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.campaign_definitions import build_alerts
from dpone_dagster.ports.target import Connector
from dpone_dagster.resources.connections import RESOURCE_NAME, DponeConnections
from dpone_dagster.resources.notifier import NOTIFIER_NAME, DponeNotifier
from tests.orders import Orders
from tests.servers.receivers import Hook


def connections_of(*campaigns: Orders) -> DponeConnections:
    """The resource, with each campaign's own connector."""
    by_dataset = {orders.spec.dataset: orders for orders in campaigns}

    class Opened(DponeConnections):
        def connector(self, spec: RouteSpec) -> Connector:
            return by_dataset[spec.dataset].connector

    return Opened()


@dataclass
class Ticks:
    """One sensor, with the cursor that the tick before has left.

    Attributes:
        cursor: As Dagster keeps it: that of a tick which failed is thrown away.
    """

    instance: DagsterInstance
    name: str
    specs: Sequence[RouteSpec]
    connections: DponeConnections = field(default_factory=DponeConnections)
    cursor: str | None = None

    def tick(self) -> str:
        """The tick's reason; raises if it fails."""
        defs = build_alerts(self.specs, self.connections)
        (sensor,) = (each for each in defs.sensors or () if each.name == self.name)
        resources: dict[str, Any] = {RESOURCE_NAME: self.connections, NOTIFIER_NAME: DponeNotifier()}
        with build_sensor_context(
            self.instance, cursor=self.cursor, resources=resources, repository_def=defs.get_repository_def()
        ) as context:
            data = sensor.evaluate_tick(context)
        assert not data.run_requests
        self.cursor = data.cursor
        return data.skip_message or ""


def heard(hook: Hook) -> list[tuple[str, str, str]]:
    """(State, dataset, condition) of every alert that has arrived since the last call."""
    found = [(p.body["state"], p.body["dataset"], p.body["condition"]) for p in hook.posted]
    hook.posted.clear()
    return found
