"""Source and target are two tables, whatever their connections are called."""

from __future__ import annotations

from dpone_dagster.campaign.errors import SourceIsTarget
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.ports.source import Source, SourceTable
from dpone_dagster.ports.target import Target


def prove_two_ends(spec: CampaignSpec, source: Source, table: SourceTable, target: Target, live_object_id: int) -> None:
    """The live table is not the source table itself. Reads catalogs only; a view over it is not seen.

    Args:
        spec: The campaign.
        source: The connection.
        table: The source table.
        target: The connection.
        live_object_id: Object id of the live table.

    Raises:
        SourceIsTarget: It is.
    """
    # Servers are asked who they are only where the answer decides.
    if spec.source_type != spec.sink_type or table.object_id != live_object_id:
        return
    if source.domain() == target.domain():
        raise SourceIsTarget(
            f"the source {spec.source} (`{spec.source_ref}`) and the target {spec.target} (`{spec.sink_ref}`) are one "
            "table of one database"
        )
