"""Watch: look at many manifests' campaigns, and ask a server that does not answer once. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from dpone_dagster.campaign.errors import DponeError, LoginRefused, ServerUnreachable
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec
from dpone_dagster.campaign.vitals import Vitals, Watched
from dpone_dagster.engine.atonce import at_once
from dpone_dagster.engine.inspect import CampaignStatus, status
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.ports.target import Connector

# Of a tick's minute; what was not seen by then is told without.
LOOK_SECONDS = 15.0

_Route = TypeVar("_Route", bound=RouteSpec)


def by_state(specs: Sequence[_Route]) -> list[list[_Route]]:
    """Manifests whose state is in the same place, together.

    Args:
        specs: Of any.
    """
    groups: dict[tuple[str, str, str, str], list[_Route]] = {}
    for spec in specs:
        place = spec.state.schema or str(spec.state.folder)
        groups.setdefault((spec.sink_type, spec.sink_ref.upper(), spec.state.backend, place), []).append(spec)
    return list(groups.values())


def statuses(
    specs: Sequence[CampaignSpec], connector_of: Callable[[CampaignSpec], Connector]
) -> dict[str, CampaignStatus | DponeError]:
    """Where each campaign stands, or why nobody knows, by dataset; within `LOOK_SECONDS`, however many there are.

    Args:
        specs: The campaigns.
        connector_of: What opens the connections of one.
    """
    found: dict[str, CampaignStatus | DponeError] = {}
    looks = at_once([partial(_look_at, group, connector_of, found) for group in by_state(specs)], LOOK_SECONDS)
    for look in looks:
        if look.done():
            look.result()
    silent = ServerUnreachable(f"not seen within the {LOOK_SECONDS:g} s that a look has")
    return {spec.dataset: found.get(spec.dataset, silent) for spec in specs}


def _look_at(
    group: Sequence[CampaignSpec],
    connector_of: Callable[[CampaignSpec], Connector],
    found: dict[str, CampaignStatus | DponeError],
) -> None:
    """One after another, until their server lets nobody in."""
    for spec in group:
        try:
            found[spec.dataset] = status(spec, connector_of(spec))
        except (ServerUnreachable, LoginRefused) as error:
            for other in group:
                found.setdefault(other.dataset, error)
            return
        except DponeError as error:
            found[spec.dataset] = error


def vitals(specs: Sequence[RouteSpec], connector: Connector) -> list[Vitals]:
    """What the state tables say of each, in the order given; nothing where there are no state tables yet.

    Args:
        specs: Manifests whose state tables are in the same schema of the same database.
        connector: Of any of them.
    """
    watched = [Watched(s.target, s.run_key if isinstance(s, CampaignSpec) else None) for s in specs]
    with target_session(connector, "alerts") as target:
        return target.ledger.vitals(watched) if target.ledger.provisioned() else []
