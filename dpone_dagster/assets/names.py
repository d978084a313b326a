"""Names by which Dagster knows a campaign: asset keys, pool, partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dagster import AssetKey

from dpone_dagster.campaign.partitions import Partitions
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec

AssetName = Literal["loaded_target", "shadow", "validated_shadow", "published_target", "xmin_handoff", "incremental"]


# On the runs of a command: which one it is.
COMMAND_TAG = "dpone/command"


def asset_key(spec: RouteSpec, name: AssetName) -> AssetKey:
    """`<dataset>/<name>`."""
    return AssetKey([spec.dataset, name])


def loaded_key(spec: CampaignSpec) -> AssetKey:
    """The asset whose partitions are the chunks: a `direct` campaign has no shadow to show."""
    return asset_key(spec, "loaded_target" if spec.direct else "shadow")


def pool_name(spec: CampaignSpec) -> str:
    """The pool that bounds the campaign's lanes over all of its runs."""
    return spec.mapping.pool or f"dpone_{spec.dataset}"


def partitions_of(spec: CampaignSpec) -> Partitions:
    """How Dagster shows the plan."""
    return Partitions(spec.plan.count, spec.run_key, spec.max_partitions)


def kinds_of(spec: RouteSpec) -> set[str]:
    """The icon of the target."""
    return {"postgresql" if spec.sink_type == "postgres" else "sqlserver"}


def plain_metadata(facts: Mapping[str, object]) -> dict[str, bool | int | float | str]:
    """Facts as metadata that Dagster can show: what is no number as text, what is not known not at all."""
    return {
        name: fact if isinstance(fact, (bool, int, float, str)) else str(fact)
        for name, fact in facts.items()
        if fact is not None
    }
