"""Cancel: record durably that a campaign shall stop; its lanes finish the chunk in hand and claim no more."""

from __future__ import annotations

from dpone_dagster.campaign.errors import CampaignRolledBack, CancelRefused
from dpone_dagster.campaign.ledger import CampaignRecord, Phase
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.sessions import existing_campaign, target_session
from dpone_dagster.ports.target import Connector


def cancel(spec: CampaignSpec, connector: Connector, reason: str, requested_by: str) -> CampaignRecord:
    """Cancel a campaign that is not published. Takes no lock: it never waits for those that it stops.

    The row's own lock settles the race with the publication: whichever commits first makes the other impossible. The
    first cancel stands; a second one changes nothing.

    Args:
        spec: The campaign.
        connector: Opens the connection.
        reason: Why.
        requested_by: Who asks for it.

    Returns:
        The campaign as it is now.

    Raises:
        CampaignMissing: There is no campaign.
        CancelRefused: It is published, or was rolled back.
    """
    with target_session(connector, "cancel") as target:
        record = existing_campaign(spec, target)
        if not target.ledger.cancel(record.run_key, reason, requested_by):
            phase = existing_campaign(spec, target).phase
            undo = "Load the range as it should be, with a new `backfill_id`." if record.direct else None
            if phase is Phase.ROLLED_BACK:
                undo = CampaignRolledBack.next_step
            raise CancelRefused(f"campaign {spec.dataset} is {phase}: there is nothing left to stop", next_step=undo)
        return existing_campaign(spec, target)
