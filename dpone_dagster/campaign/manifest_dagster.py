"""The manifest's `dagster` block: what belongs to the host."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from dpone_dagster.campaign.deletion import DeleteMode
from dpone_dagster.campaign.manifest_blocks import Block, Name, Owner, TagKey, TagValue, Text
from dpone_dagster.campaign.manifest_values import a_cron, a_timezone, a_wall_time
from dpone_dagster.campaign.mapping import MOST_ACTIVE, MOST_ITEMS, MappingMode

MAX_LANES = 64

Pool = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s\x00]+$")]


class IncrementBlock(Block):
    """The increments after the handoff."""

    cron: Annotated[str, AfterValidator(a_cron)] | None = Field(default=None, description="By hand only if left out.")
    timezone: Annotated[str, AfterValidator(a_timezone)] = "UTC"
    start: Literal["cron", "after_handoff"] = Field(
        default="cron", description="`after_handoff` starts the first one as soon as the handoff is materialized."
    )
    reconcile_deletes: Literal["first", "always", "never"] = "first"
    max_delete_fraction: float = Field(default=0.2, ge=0, le=1)
    max_delete_rows: int | None = Field(default=None, ge=0)
    reconcile_cron: Annotated[str, AfterValidator(a_cron)] | None = Field(
        default=None, description="When an increment also compares all keys."
    )
    delete_mode: DeleteMode = "hard"
    soft_delete_column: Name | None = Field(
        default=None, description="The target's nullable timestamp or boolean that marks deleted rows, for mode `soft`."
    )


class MappingBlock(Block):
    """How a partition backfill is spread over runs."""

    mode: MappingMode = Field(
        default="internal",
        description="`internal`: one run, all lanes. `summary`: at most `max_items` runs, a contiguous range and one "
        "lane each. `visible`: one run a chunk, at most 200 chunks.",
    )
    max_items: int | None = Field(default=None, ge=1, le=MOST_ITEMS, description="Most runs; `summary` needs it.")
    max_active: int | None = Field(
        default=None, ge=1, le=MOST_ACTIVE, description="Most lanes at once over all runs; mapped modes need it."
    )
    pool: Pool | None = Field(
        default=None, description="Dagster pool of the lanes; mapped modes need it, `dpone_<dataset>` otherwise."
    )


class IncrementAlertsBlock(Block):
    """When somebody is told of the increments; null for never."""

    increment_within_minutes: int | None = Field(
        default=60,
        ge=1,
        description="From when an increment was due by its crons to when it is committed; null: never.",
    )


class AlertsBlock(IncrementAlertsBlock):
    """When somebody is told; an expired lease and a blocked campaign are always."""

    stalled_after_minutes: int | None = Field(
        default=10, ge=1, description="Without a claim, commit or failure of a chunk while chunks run; null: never."
    )
    load_within_hours: float | None = Field(
        default=None, gt=0, description="The objective from the first claim to the last commit; none if left out."
    )
    handoff_within_minutes: int | None = Field(
        default=10, ge=1, description="From the publication to its handoff; null: never."
    )


class IntervalBlock(Block):
    """The intervals that a manifest with `{{ data_interval_start }}` is loaded by, one a partition in Dagster."""

    start: Annotated[Text, AfterValidator(a_wall_time)] = Field(description="Of the first one: a date, or a time.")
    end: Annotated[Text, AfterValidator(a_wall_time)] | None = Field(default=None, description="Of the last one.")
    cron: Annotated[str, AfterValidator(a_cron)] = Field(default="0 0 * * *", description="Where intervals meet.")
    timezone: Annotated[str, AfterValidator(a_timezone)] = "UTC"


class DagsterBlock(Block):
    """What belongs to the host."""

    lanes: int | None = Field(default=None, ge=1, le=MAX_LANES, description="May only lower `parallel_workers`.")
    max_partitions: int = Field(default=2_000, ge=1, le=10_000, description="Above it a partition is a chunk group.")
    mapping: MappingBlock = Field(default_factory=MappingBlock)
    automate: bool = Field(default=False, description="Validate, publish and hand over as soon as all is loaded.")
    incremental: IncrementBlock = Field(default_factory=IncrementBlock)
    interval: IntervalBlock | None = None
    alerts: AlertsBlock = Field(default_factory=AlertsBlock)
    owners: list[Owner] = Field(default_factory=list)
    tags: dict[TagKey, TagValue] = Field(default_factory=dict)
