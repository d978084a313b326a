"""The steps after the load, started by Dagster itself where the manifest says `automate: true`."""

from __future__ import annotations

from typing import Any

from dagster import (
    AssetKey,
    AutomationCondition,
    AutomationConditionSensorDefinition,
    DefaultSensorStatus,
)

from dpone_dagster.campaign.spec import CampaignSpec


def when_its_turn_comes(spec: CampaignSpec) -> AutomationCondition[Any] | None:
    """When Dagster starts an asset after `shadow`; None for never by itself.

    Once, when everything before is there, at rest and green: events in the middle of a run, a red check and a chunk
    that is loaded again start nothing, and what has failed waits for a person. Whatever is started proves its
    precondition in the database all the same.

    Args:
        spec: The campaign.
    """
    if not spec.automate:
        return None
    condition = AutomationCondition
    # What an earlier campaign of the same target has left is there, and is none of this one's.
    undone = condition.missing() | condition.code_version_changed().since(condition.newly_updated())
    return (
        undone
        & ~condition.any_deps_match(undone & ~condition.will_be_requested())
        & ~condition.any_deps_in_progress()
        & condition.all_deps_blocking_checks_passed()
        & ~condition.in_progress()
        & ~condition.execution_failed()
    )


def automation_sensor(spec: CampaignSpec, assets: list[AssetKey]) -> AutomationConditionSensorDefinition:
    """Evaluates the conditions; on from the start, where Dagster's own would have to be switched on by hand.

    Args:
        spec: The campaign.
        assets: Those that have a condition.
    """
    return AutomationConditionSensorDefinition(
        f"{spec.dataset}_automation",
        target=assets,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Carries `{spec.target}` on from the last chunk to the handoff.",
    )
