"""Watch: look at many manifests' campaigns by one statement a connection. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec
from dpone_dagster.campaign.vitals import Vitals, Watched
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.ports.target import Connector


def vitals(specs: Sequence[RouteSpec], connector: Connector) -> list[Vitals]:
    """What the state tables say of each, in the order given; nothing where there are no state tables yet.

    Args:
        specs: Manifests whose state tables are in the same schema of the same database.
        connector: Of any of them.
    """
    watched = [Watched(s.target, s.run_key if isinstance(s, CampaignSpec) else None) for s in specs]
    with target_session(connector, "alerts") as target:
        return target.ledger.vitals(watched) if target.ledger.provisioned() else []
