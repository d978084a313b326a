"""The manifest: the public YAML contract. What this version does not do is not in these types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from dpone_dagster.campaign.contract import ColumnOption
from dpone_dagster.campaign.errors import Finding, ManifestInvalid
from dpone_dagster.campaign.ledger import LEASE_RENEW_SECONDS, LEASE_TTL_SECONDS
from dpone_dagster.campaign.manifest_blocks import (
    Block,
    CampaignId,
    Connected,
    Name,
    StateBlock,
    StateSchema,
    TableBlock,
    Text,
)
from dpone_dagster.campaign.manifest_dagster import MAX_LANES, DagsterBlock
from dpone_dagster.campaign.manifest_findings import findings_of
from dpone_dagster.campaign.manifest_host import HOST_KEYS, host_findings
from dpone_dagster.campaign.manifest_rules import cross_findings, token_findings
from dpone_dagster.campaign.manifest_values import (
    a_boolean,
    null_is_a_word,
    planned,
)
from dpone_dagster.campaign.mapping import MappingPolicy
from dpone_dagster.campaign.plan import ChunkKind, ChunkSpec, Plan, infer_kind
from dpone_dagster.campaign.slices import InnerMode, PublicationMode, prove_one_chunk
from dpone_dagster.campaign.spec import (
    HARD_CHUNK_LIMIT,
    AlertPolicy,
    CampaignSpec,
    IncrementPolicy,
    IntervalPolicy,
    PublicationPolicy,
    RetryPolicy,
    StateBackend,
    StatePolicy,
    Verification,
)

DEFAULT_MAX_CHUNKS = 10_000

Yes = Annotated[Literal[True], BeforeValidator(a_boolean)]
No = Annotated[Literal[False], BeforeValidator(a_boolean)]
BadValue = Annotated[
    Literal["fail", "null"], BeforeValidator(null_is_a_word), WithJsonSchema({"enum": ["fail", "null", None]})
]

Kind = TypeVar("Kind", bound="Block")


class XminBlock(Block):
    """The handoff from the campaign to increments."""

    mode: Literal["initial"]
    handoff_id: CampaignId = Field(description="Names one source and one target for good.")


class SourceOptionsBlock(Block):
    """How increments find changed rows."""

    incremental_strategy: Literal["xmin"] | None = None
    xmin_execution: XminBlock | None = None


class SourceBlock(Connected):
    """Where rows come from."""

    type: Literal["postgres", "mssql"] = Field(description="`mssql` goes with publication mode `direct` alone.")
    table: TableBlock
    columns: Annotated[list[Name], Field(min_length=1)] | None = Field(
        default=None, description="Columns to load; all of the source's if left out."
    )
    options: SourceOptionsBlock = Field(default_factory=SourceOptionsBlock)


class ColumnBlock(Block):
    """What to do with one column."""

    on_bad_value: BadValue = Field(default="fail", description="`fail` the chunk, or set `null` and count.")
    representation: Literal["text", "json"] | None = Field(
        default=None, description="For types without an exact home in the target."
    )


class ChunkBlock(Block):
    """How the table is cut."""

    column: Name
    kind: ChunkKind | None = Field(default=None, description="Inferred from `from` if left out.")
    lower: Text | None = Field(default=None, alias="from")
    upper: Text | None = Field(default=None, alias="to", description="Inclusive; exclusive for kind timestamp.")
    step: Text | None = Field(default=None, description="Nh, Nd, Nw, Nmo, Ny, or a whole number for kind integer.")
    buckets: int | None = Field(default=None, description="For kind uuid.")
    immutable: bool = Field(default=False, description="Your word that a row never changes this column.")

    @model_validator(mode="after")
    def _can_be_planned(self) -> ChunkBlock:
        planned(self.spec)
        return self

    def spec(self) -> ChunkSpec:
        """The chunk specification.

        Raises:
            ManifestInvalid: It cannot be planned.
        """
        kind = self.kind or infer_kind(self.lower, self.buckets)
        if kind is None:
            path = "sink.strategy.backfill.chunk.from"
            advice = "write a date, timestamp or whole number, or `kind: uuid` with `buckets`"
            raise ManifestInvalid("", findings=[Finding(path, "tells no kind of chunk", advice)])
        return ChunkSpec(kind, self.column, self.lower, self.upper, self.step, self.buckets, self.immutable)


class PublicationBlock(Block):
    """How the loaded rows become visible."""

    mode: PublicationMode = Field(
        default="direct",
        description="`direct` writes each chunk into the live table; `shadow_swap` swaps in a whole new one.",
    )
    retain_backup: Yes = True
    artifact_scope: Literal["stable", "campaign"] = "stable"


class CampaignStateBlock(Block):
    """The ledger."""

    backend: StateBackend = Field(
        description="`audit_schema`, in the target's database; `local_file`, for a `direct` load from one machine."
    )
    schema_name: StateSchema | None = Field(
        default=None, alias="schema", description="Of the state tables; for `audit_schema` alone, which needs it."
    )
    require_distributed_lock: Annotated[bool, BeforeValidator(a_boolean)] | None = Field(
        default=None, description="`audit_schema` has such a lock and needs `true`; `local_file` has none."
    )


class BackfillBlock(Block):
    """How the campaign runs."""

    inner_mode: InnerMode = Field(
        description="What a chunk does to its range of the live table; `shadow_swap` appends to its shadow."
    )
    publication: PublicationBlock = Field(default_factory=PublicationBlock)
    state: CampaignStateBlock
    chunk: ChunkBlock
    backfill_id: CampaignId | None = Field(default=None, description="Pins the campaign's identity.")
    parallel_workers: int = Field(default=1, ge=1, le=MAX_LANES, description="Lanes.")
    retry_policy: RetryPolicy = "non_committed"
    on_chunk_failure: Literal["stop", "continue"] = "stop"
    drain_timeout_seconds: int = Field(default=300, ge=1, le=86_400)
    lease_ttl_minutes: int | None = Field(default=None, ge=1, description="Accepted and overridden.")
    max_chunks: int = Field(default=DEFAULT_MAX_CHUNKS, ge=1, le=HARD_CHUNK_LIMIT)
    state_dir: Text | None = Field(
        default=None, description="Where a `local_file` is, from the project's folder; .dpone/backfill if left out."
    )
    verification: Verification = Field(
        default="row_count",
        description="`digest` also compares whole rows by order-free digests; each chunk is then read twice.",
    )
    allow_empty: bool = Field(default=False, description="Let an empty source replace a non-empty table.")

    @model_validator(mode="after")
    def _refreshes_by_one_chunk(self) -> BackfillBlock:
        planned(lambda: prove_one_chunk(self.inner_mode, self.chunk.spec()))
        return self


class StrategyBlock(Block):
    """The load strategy."""

    mode: Literal["backfill"]
    unique_key: Annotated[list[Name], Field(min_length=1)] | None = Field(
        default=None, description="The not-null columns that identify a row, for `shadow_swap` and `incremental_merge`."
    )
    only_new_rows: No = False
    backfill: BackfillBlock


class SinkBlock(Connected):
    """Where rows go."""

    type: Literal["postgres", "mssql"]
    table: TableBlock
    columns: dict[Name, ColumnBlock] = Field(default_factory=dict)
    strategy: StrategyBlock


class Manifest(Block):
    """One campaign: a table, its target, and how it is loaded."""

    name: str | None = Field(default=None, description="Of the dataset; the target table's name if left out.")
    source: SourceBlock
    sink: SinkBlock
    state: StateBlock | None = None
    dagster: DagsterBlock = Field(default_factory=DagsterBlock)

    @model_validator(mode="after")
    def _can_be_mapped(self) -> Manifest:
        mapping = self._mapping()
        planned(
            lambda: mapping.prove(Plan(self.sink.strategy.backfill.chunk.spec()).count, self.dagster.max_partitions)
        )
        return self

    @property
    def dataset(self) -> str:
        """The dataset's name."""
        return self.name or self.sink.table.name

    @property
    def notes(self) -> tuple[Finding, ...]:
        """Keys that are accepted and have no effect."""
        minutes, mapping = self.sink.strategy.backfill.lease_ttl_minutes, self.dagster.mapping
        notes = []
        if minutes is not None:
            ttl, renewed = LEASE_TTL_SECONDS, LEASE_RENEW_SECONDS
            problem = f"{minutes} is overridden: leases last {ttl} s, renewed every {renewed} s"
            notes.append(Finding("sink.strategy.backfill.lease_ttl_minutes", problem))
        if mapping.mode == "internal" and mapping.max_items is not None:
            notes.append(Finding("dagster.mapping.max_items", "has no effect: mode `internal` is one run"))
        return tuple(notes)

    def to_spec(self) -> CampaignSpec:
        """The campaign with every default resolved.

        Raises:
            TooManyChunks: The plan has more chunks than `max_chunks`.
        """
        strategy, backfill, host = self.sink.strategy, self.sink.strategy.backfill, self.dagster
        chunk = backfill.chunk.spec()
        Plan(chunk).require_at_most(backfill.max_chunks)
        xmin = self.source.options.xmin_execution
        return CampaignSpec(
            dataset=self.dataset,
            backfill_id=backfill.backfill_id,
            source_type=self.source.type,
            source_ref=self.source.connection_ref,
            source=self.source.table.ref,
            source_columns=tuple(self.source.columns) if self.source.columns else None,
            sink_type=self.sink.type,
            sink_ref=self.sink.connection_ref,
            target=self.sink.table.ref,
            column_options={
                name: ColumnOption(column.on_bad_value, column.representation)
                for name, column in self.sink.columns.items()
            },
            unique_key=tuple(strategy.unique_key or ()),
            chunk=chunk,
            state=self._state(),
            lanes=self._mapping().lanes(host.lanes or backfill.parallel_workers),
            max_partitions=host.max_partitions,
            retry_policy=backfill.retry_policy,
            on_chunk_failure=backfill.on_chunk_failure,
            drain_timeout_seconds=backfill.drain_timeout_seconds,
            verification=backfill.verification,
            inner_mode=backfill.inner_mode,
            publication=PublicationPolicy(backfill.publication.mode, backfill.publication.artifact_scope),
            mapping=self._mapping(),
            automate=host.automate,
            interval=IntervalPolicy(**host.interval.model_dump()) if host.interval else None,
            allow_empty=backfill.allow_empty,
            handoff_id=xmin.handoff_id if xmin else None,
            increment=IncrementPolicy(**host.incremental.model_dump()),
            alerts=AlertPolicy(**host.alerts.model_dump()),
            owners=tuple(host.owners),
            tags=host.tags,
        )

    def _mapping(self) -> MappingPolicy:
        return MappingPolicy(**self.dagster.mapping.model_dump())

    def _state(self) -> StatePolicy:
        backfill = self.sink.strategy.backfill
        schema = backfill.state.schema_name or ""
        if backfill.state.backend == "local_file":
            folder = Path(backfill.state_dir) if backfill.state_dir else None
            return StatePolicy(schema, self.sink.connection_ref, backend="local_file", folder=folder)
        if self.state is None:
            return StatePolicy(schema, self.sink.connection_ref)
        return StatePolicy(schema, self.state.connection_ref, self.state.provisioning)


def parse_manifest(data: object) -> Manifest:
    """Read a campaign's manifest; as `parsed`."""
    return parsed(data, Manifest)


def parsed(data: object, kind: type[Kind]) -> Kind:
    """Read a manifest from plain data.

    Args:
        data: What the YAML says.
        kind: Which kind of manifest.

    Raises:
        ManifestInvalid: All that is wrong, each with its path; no value of an unknown key is repeated.
    """
    if not isinstance(data, Mapping):
        advice = "write keys and values, as in examples/orders.yaml"
        raise ManifestInvalid(
            "the manifest is not a mapping", findings=[Finding("", "is not a mapping of keys", advice)]
        )
    tokens = token_findings(data)
    unresolved = {finding.path for finding in tokens}
    manifest, problems = _validated({key: value for key, value in data.items() if key not in HOST_KEYS}, kind)
    rest = [finding for finding in (*problems, *cross_findings(data)) if finding.path not in unresolved]
    findings = list(dict.fromkeys([*host_findings(data), *tokens, *rest]))
    if manifest is None or findings:
        noun = "problem" if len(findings) == 1 else "problems"
        raise ManifestInvalid(f"the manifest has {len(findings)} {noun}", findings=findings)
    return manifest


def manifest_schema() -> dict[str, Any]:
    """The JSON Schema of the manifest, for editors."""
    schema = Manifest.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "dpone-dagster manifest"}


def _validated(data: dict[Any, Any], kind: type[Kind]) -> tuple[Kind | None, list[Finding]]:
    try:
        return kind.model_validate(data), []
    except ValidationError as error:
        return None, findings_of(error, kind)
