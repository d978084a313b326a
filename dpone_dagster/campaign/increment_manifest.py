"""The manifest of increments only: another team's, or another schedule's, than the campaign's."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dpone_dagster.campaign.manifest_blocks import (
    Block,
    CampaignId,
    Connected,
    Name,
    Owner,
    StateBlock,
    StateSchema,
    TableBlock,
    TagKey,
    TagValue,
)
from dpone_dagster.campaign.manifest_dagster import IncrementAlertsBlock, IncrementBlock
from dpone_dagster.campaign.spec import AlertPolicy, IncrementPolicy, RouteSpec, StatePolicy


class IncrementXminBlock(Block):
    """The handoff that the increments start from."""

    mode: Literal["incremental"]
    handoff_id: CampaignId = Field(description="Of the campaign; its source and its target.")


class IncrementOptionsBlock(Block):
    """How increments find changed rows."""

    incremental_strategy: Literal["xmin"]
    xmin_execution: IncrementXminBlock


class IncrementSourceBlock(Connected):
    """Where rows come from; the columns are the campaign's."""

    type: Literal["postgres"]
    table: TableBlock
    options: IncrementOptionsBlock


class MergeBlock(Block):
    """How changed rows are applied: by key, with the checkpoint, in one transaction."""

    mode: Literal["incremental_merge"]
    unique_key: list[Name] = Field(min_length=1, description="The campaign's.")
    allow_empty: bool = Field(default=False, description="Let an empty source empty the target.")


class MergeSinkBlock(Connected):
    """Where rows go."""

    type: Literal["postgres", "mssql"]
    table: TableBlock
    strategy: MergeBlock


class MergeStateBlock(StateBlock):
    """Where the campaign's state lives."""

    schema_name: StateSchema = Field(alias="schema", description="The campaign's `backfill.state.schema`.")


class IncrementHostBlock(Block):
    """What belongs to the host."""

    incremental: IncrementBlock = Field(default_factory=IncrementBlock)
    alerts: IncrementAlertsBlock = Field(default_factory=IncrementAlertsBlock)
    owners: list[Owner] = Field(default_factory=list)
    tags: dict[TagKey, TagValue] = Field(default_factory=dict)


class IncrementManifest(Block):
    """The increments of one handoff, in a manifest of their own."""

    name: str | None = Field(default=None, description="Of the dataset; the target table's name if left out.")
    source: IncrementSourceBlock
    sink: MergeSinkBlock
    state: MergeStateBlock
    dagster: IncrementHostBlock = Field(default_factory=IncrementHostBlock)

    @property
    def dataset(self) -> str:
        """The dataset's name."""
        return self.name or self.sink.table.name

    def to_spec(self) -> RouteSpec:
        """The increments with every default resolved."""
        return RouteSpec(
            dataset=self.dataset,
            source_ref=self.source.connection_ref,
            source=self.source.table.ref,
            sink_type=self.sink.type,
            sink_ref=self.sink.connection_ref,
            target=self.sink.table.ref,
            unique_key=tuple(self.sink.strategy.unique_key),
            state=StatePolicy(self.state.schema_name, self.state.connection_ref, self.state.provisioning),
            allow_empty=self.sink.strategy.allow_empty,
            handoff_id=self.source.options.xmin_execution.handoff_id,
            increment=IncrementPolicy(**self.dagster.incremental.model_dump()),
            alerts=AlertPolicy(**self.dagster.alerts.model_dump()),
            owners=tuple(self.dagster.owners),
            tags=self.dagster.tags,
        )
