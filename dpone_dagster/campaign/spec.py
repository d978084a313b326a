"""Campaigns and their increments as the engine sees them: a manifest with every default and override resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from dpone_dagster.campaign.contract import ColumnContract, ColumnOption
from dpone_dagster.campaign.deletion import DeleteMode
from dpone_dagster.campaign.identity import run_key_of, sha256_of
from dpone_dagster.campaign.mapping import MappingPolicy
from dpone_dagster.campaign.names import TableRef, backup_name, shadow_name
from dpone_dagster.campaign.plan import Chunk, ChunkSpec, Plan
from dpone_dagster.campaign.slices import ACTIONS, InnerMode, LiveSlice, PublicationMode
from dpone_dagster.campaign.typetables import Server

StateBackend = Literal["audit_schema", "local_file"]
RetryPolicy = Literal["non_committed", "failed_only"]
Verification = Literal["row_count", "digest"]
HARD_CHUNK_LIMIT = 1_000_000


@dataclass(frozen=True)
class StatePolicy:
    """Where the campaign's state lives and who creates its tables.

    Attributes:
        schema: Of the state tables; empty where the state is a file.
        connection_ref: Where they are; the sink's where the state is a file.
        provisioning: Whether prepare creates them.
        backend: What the state is.
        folder: Where a file of state is; None for the project's own folder.
    """

    schema: str
    connection_ref: str
    provisioning: Literal["auto", "external"] = "auto"
    backend: StateBackend = "audit_schema"
    folder: Path | None = None

    @property
    def in_file(self) -> bool:
        """Whether the ledger is a file of this machine, and the target has no state tables."""
        return self.backend == "local_file"


@dataclass(frozen=True)
class PublicationPolicy:
    """How the loaded rows become visible."""

    mode: PublicationMode = "shadow_swap"
    artifact_scope: Literal["stable", "campaign"] = "stable"


@dataclass(frozen=True)
class IncrementPolicy:
    """The increments after the handoff.

    Attributes:
        cron: When they run; None for by hand only.
        timezone: Of the crons, an IANA name.
        start: Whether the first one waits for the cron or starts right after the handoff.
        reconcile_deletes: When keys are reconciled. `never` still runs the first one.
        max_delete_fraction: Stops before deleting more than this part of the target's rows.
        max_delete_rows: Stops before deleting more rows than this; None for no such bound.
        reconcile_cron: When an increment reconciles whatever `reconcile_deletes` says; None for never.
        delete_mode: `soft` marks a row that vanished from the source instead of deleting it.
        soft_delete_column: The target's column that is the mark; None for `hard`.
    """

    cron: str | None = None
    timezone: str = "UTC"
    start: Literal["cron", "after_handoff"] = "cron"
    reconcile_deletes: Literal["first", "always", "never"] = "first"
    max_delete_fraction: float = 0.2
    max_delete_rows: int | None = None
    reconcile_cron: str | None = None
    delete_mode: DeleteMode = "hard"
    soft_delete_column: str | None = None

    @property
    def settles_deletes(self) -> bool:
        """Whether anything but the first increment finds rows that were deleted in the source."""
        return self.reconcile_deletes == "always" or self.reconcile_cron is not None


@dataclass(frozen=True)
class AlertPolicy:
    """When somebody is told; None for never.

    Attributes:
        stalled_after_minutes: Without a move of any chunk while chunks run.
        load_within_hours: From the first claim to the last commit; what is forecast to take longer is late.
        handoff_within_minutes: From the publication to its handoff.
        increment_within_minutes: From when an increment was due by its crons to when it is committed.
    """

    stalled_after_minutes: int | None = 10
    load_within_hours: float | None = None
    handoff_within_minutes: int | None = 10
    increment_within_minutes: int | None = 60


@dataclass(frozen=True)
class IntervalPolicy:
    """The intervals that a manifest with `{{ data_interval_start }}` is loaded by, one a partition.

    Attributes:
        start: The first one's start, a date or a time of the zone.
        end: Where the last one ends; None for never.
        cron: When one ends and the next one starts.
        timezone: Of all three, an IANA name.
    """

    start: str
    end: str | None = None
    cron: str = "0 0 * * *"
    timezone: str = "UTC"


@dataclass(frozen=True, kw_only=True)
class RouteSpec:
    """One source table and one target table, and how increments keep the one like the other. Holds no secret.

    Attributes:
        lanes: Processes at once; an increment needs one.
    """

    dataset: str
    source_type: Server = "postgres"
    source_ref: str
    source: TableRef
    sink_type: Server
    sink_ref: str
    target: TableRef
    unique_key: tuple[str, ...]
    state: StatePolicy
    lanes: int = 1
    allow_empty: bool = False
    handoff_id: str | None = None
    increment: IncrementPolicy = field(default_factory=IncrementPolicy)
    alerts: AlertPolicy = field(default_factory=AlertPolicy)
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def code_version(self) -> str:
        """Changes when what was loaded before stands for something else."""
        return self.handoff_id or ""


@dataclass(frozen=True, kw_only=True)
class CampaignSpec(RouteSpec):
    """Everything that the use cases need to know of one campaign's manifest.

    Attributes:
        on_chunk_failure: Whether a failed chunk stops the whole campaign, the run that it belongs to, or nothing.
        verification: What source and target are compared by, chunk by chunk: numbers of rows alone, or whole rows too.
        automate: Whether Dagster starts each step after the load by itself.
        interval: The intervals that Dagster loads it by; None for one load.
    """

    backfill_id: str | None
    source_columns: tuple[str, ...] | None
    column_options: Mapping[str, ColumnOption]
    chunk: ChunkSpec
    max_partitions: int = 2_000
    retry_policy: RetryPolicy = "non_committed"
    on_chunk_failure: Literal["stop", "stop_run", "continue"] = "stop"
    drain_timeout_seconds: int = 300
    verification: Verification = "row_count"
    inner_mode: InnerMode = "incremental_append"
    interval: IntervalPolicy | None = None
    publication: PublicationPolicy = field(default_factory=PublicationPolicy)
    mapping: MappingPolicy = field(default_factory=MappingPolicy)
    automate: bool = False

    @property
    def digested(self) -> bool:
        """Whether whole rows are compared by digests."""
        return self.verification == "digest"

    @property
    def direct(self) -> bool:
        """Whether chunks are written straight into the live table."""
        return self.publication.mode == "direct"

    @property
    def code_version(self) -> str:
        """The run key: an old green never stands for new work."""
        return self.run_key

    @property
    def run_key(self) -> str:
        """The campaign's identity."""
        return run_key_of(self.dataset, self.backfill_id, self.chunk.as_dict())

    @property
    def plan(self) -> Plan:
        """The immutable chunks."""
        return Plan(self.chunk)

    @property
    def window(self) -> str | None:
        """What the chunk window leaves out by its author's word, in a sentence; None if it covers every row."""
        if self.chunk.kind == "uuid":
            return None
        first, last = self.plan.chunk(0), self.plan.chunk(self.plan.count - 1)
        until = f"{last.upper}{' inclusive' if last.upper_inclusive else ' exclusive'}"
        others = ", which come with the increments" if self.handoff_id is not None else ""
        return (
            f"Only rows of {self.source} with {self.chunk.column} from {first.lower} to {until} are part of the "
            f"{'load' if self.direct else 'initial load'}; `dpone backfill doctor MANIFEST` counts the others{others}."
        )

    @property
    def slices(self) -> dict[str, object]:
        """Which rows of the live table a `direct` campaign writes, and what it does to them."""
        return {**self.chunk.as_dict(), "action": ACTIONS[self.inner_mode]}

    @property
    def written(self) -> TableRef:
        """The table that chunks are written to."""
        return self.target if self.direct else self.shadow

    def live_slice(self, chunk: Chunk) -> LiveSlice | None:
        """What a chunk does to its range of the live table; None where it goes into a shadow.

        Args:
            chunk: Of the plan.
        """
        if not self.direct:
            return None
        return LiveSlice(ACTIONS[self.inner_mode], chunk, self.chunk.column, self.allow_empty)

    @property
    def shadow(self) -> TableRef:
        """The campaign's own table beside the live one; a `direct` one never makes it."""
        return self.target.sibling(shadow_name(self.target, self.run_key, self.publication.artifact_scope))

    @property
    def backup(self) -> TableRef:
        """What the live table is called after the swap; a `direct` campaign makes none."""
        return self.target.sibling(backup_name(self.target, self.run_key))

    def beside_others(self) -> CampaignSpec:
        """The campaign as one of several mapped runs loads it: its failed chunk stops it, and none of the others."""
        return replace(self, on_chunk_failure="stop_run") if self.on_chunk_failure == "stop" else self

    @property
    def plan_digest(self) -> str:
        """What is loaded as far as the manifest alone tells, before any catalog is read."""
        return sha256_of(self._planned())

    def plan_hash(self, contract: ColumnContract) -> str:
        """What is loaded: chunks, source, target, key and columns."""
        return sha256_of({**self._planned(), "contract": contract.sha256})

    def _planned(self) -> dict[str, object]:
        return {
            "chunk": self.chunk.as_dict(),
            "source": str(self.source),
            "source_columns": None if self.source_columns is None else list(self.source_columns),
            "target": str(self.target),
            "unique_key": list(self.unique_key),
        }

    def config_hash(self, contract: ColumnContract) -> str:
        """How it is loaded. Lanes and retry policy are left out: they change nothing about the result."""
        # What a shadow is filled by has never been anything else, and campaigns that are at work keep their hash.
        inner_mode = {"inner_mode": self.inner_mode} if self.direct else {}
        verification = {"verification": self.verification} if self.digested else {}
        return sha256_of(
            {
                **inner_mode,
                **verification,
                "plan": self.plan_hash(contract),
                "publication": {"mode": self.publication.mode, "artifact_scope": self.publication.artifact_scope},
                "allow_empty": self.allow_empty,
                "columns": {
                    name: [option.on_bad_value, option.representation] for name, option in self.column_options.items()
                },
                "handoff_id": self.handoff_id,
                "state_schema": self.state.schema,
            }
        )
