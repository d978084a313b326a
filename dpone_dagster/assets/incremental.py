"""`incremental`: what changed in the source since the handoff, one increment a run."""

from dagster import AssetExecutionContext, AssetKey, AssetsDefinition, Config, MaterializeResult
from pydantic import Field

from dpone_dagster.assets.campaign_asset import Events, campaign_asset
from dpone_dagster.assets.failures import shown_to_dagster
from dpone_dagster.assets.names import asset_key, plain_metadata
from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.engine.apply import Compare
from dpone_dagster.engine.increment import run_increment
from dpone_dagster.resources.connections import DponeConnections


class IncrementConfig(Config):
    """What one increment does besides loading the rows that changed."""

    compare: Compare = Field(
        default="policy",
        description="`policy` reconciles as the manifest says; `keys` compares all keys, so that deletes are settled; "
        "`rows` compares every row, which also settles a new timeline of the source.",
    )


def comparing(spec: RouteSpec, compare: Compare) -> dict[str, object]:
    """The run configuration of an increment that compares this.

    Args:
        spec: The campaign, or its increments.
        compare: As in `IncrementConfig`.
    """
    return {"ops": {asset_key(spec, "incremental").to_python_identifier(): {"config": {"compare": compare}}}}


def build_incremental(spec: RouteSpec, handoff: AssetKey | None) -> AssetsDefinition:
    """The live table, kept up to date by xmin.

    Args:
        spec: The campaign, or its increments; the `handoff_id` is set.
        handoff: The campaign's `xmin_handoff`, where this project has it.
    """

    @campaign_asset(
        spec,
        "incremental",
        after=handoff,
        checks={},
        description=f"`{spec.target}` with what changed in `{spec.source}` since the handoff.",
    )
    def incremental(
        context: AssetExecutionContext, config: IncrementConfig, dpone_connections: DponeConnections
    ) -> Events:
        with shown_to_dagster():
            done = run_increment(spec, dpone_connections.connector(spec), context.run.run_id, compare=config.compare)
        yield MaterializeResult(
            metadata=plain_metadata(
                {
                    "rows_read": done.rows_read,
                    "inserted": done.inserted,
                    "updated": done.updated,
                    "marked" if spec.increment.delete_mode == "soft" else "deleted": done.deleted,
                    "reconciled": done.reconciled,
                    "lag_transactions": done.lag_transactions,
                    "lag_seconds": round(done.lag_seconds, 3),
                    "compared": done.compared,
                    "differing_buckets": done.differing if done.compared else None,
                    **{f"nulled_{column}": count for column, count in done.nulled.items()},
                    "anchor_from": str(done.anchor_from.xid),
                    "anchor_to": str(done.anchor_to.xid),
                    "seconds": round(done.seconds, 3),
                }
            )
        )

    return incremental
