"""Read what a campaign's ledger says about its speed. Changes nothing."""

from __future__ import annotations

from dataclasses import replace

from dpone_dagster.campaign.evidence import Evidence, chunk_evidence
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.ports.target import Connector

# However many chunks there are, this many tell enough.
_LOOKED_AT = 1_000


def ledger_evidence(spec: CampaignSpec, connector: Connector) -> Evidence:
    """What the campaign's own chunks say; nothing if it was never prepared.

    Args:
        spec: The campaign.
        connector: Opens the connection.
    """
    with target_session(connector, "advisor") as target:
        record = target.ledger.campaign(spec.run_key) if target.ledger.provisioned() else None
        if record is None:
            return Evidence()
        progress = target.ledger.progress(spec.run_key)
        every = ChunkSelection.all(record.chunk_count)
        done = target.ledger.chunks(spec.run_key, every, only=("committed",), limit=_LOOKED_AT)
    seen = chunk_evidence(
        {"state": "committed", "rows": chunk.rows, "seconds": chunk.seconds, "tries": chunk.tries} for chunk in done
    )
    return replace(seen, failed_chunks=progress.failed, lease_expired_chunks=progress.lease_expired)
