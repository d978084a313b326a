"""What every asset after `shadow` has in common: its place in the chain, its checks, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dagster import (
    AssetCheckResult,
    AssetCheckSpec,
    AssetKey,
    AssetsDefinition,
    MaterializeResult,
    asset,
)

from dpone_dagster.assets.automation import when_its_turn_comes
from dpone_dagster.assets.failures import RETRIES
from dpone_dagster.assets.names import AssetName, asset_key, kinds_of
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec

AUTOMATED: tuple[AssetName, ...] = ("validated_shadow", "published_target", "xmin_handoff")
Events = Iterator[AssetCheckResult | MaterializeResult[None]]


def campaign_asset(
    spec: RouteSpec, name: AssetName, *, after: AssetKey | None, checks: Mapping[str, str], description: str
) -> Callable[[Callable[..., Any]], AssetsDefinition]:
    """Declare an asset of a campaign.

    Args:
        spec: The campaign.
        name: Of the asset.
        after: The asset before it, where Dagster knows it. It only shows the order; the use case proves it in the
            database.
        checks: Names and descriptions of its blocking checks.
        description: For the UI.
    """
    key = asset_key(spec, name)
    return asset(
        key=key,
        deps=[] if after is None else [after],
        check_specs=[AssetCheckSpec(n, asset=key, blocking=True, description=text) for n, text in checks.items()],
        description=description,
        code_version=spec.code_version,
        group_name=spec.dataset,
        kinds=kinds_of(spec),
        owners=list(spec.owners),
        tags=spec.tags,
        retry_policy=RETRIES,
        automation_condition=when_its_turn_comes(spec)
        if isinstance(spec, CampaignSpec) and name in AUTOMATED
        else None,
    )


def refused_check(name: str, error: DponeError) -> Iterator[AssetCheckResult]:
    """The red check of an asset that was refused; none where the same may succeed when tried again.

    Args:
        name: Of the check.
        error: Why.
    """
    if not error.retryable:
        yield AssetCheckResult(
            passed=False,
            check_name=name,
            description=f"{error.message} → {error.advice}",
            metadata={"code": error.code, "next_step": error.advice},
        )
