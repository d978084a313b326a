"""What the JSON of commands is made of; `docs.answers` puts it together."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.slices import InnerMode


class Answer(BaseModel):
    """A JSON object that has these keys, all of them, and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class FindingAnswer(Answer):
    """One thing that is wrong, at one place."""

    path: str
    problem: str
    advice: str


class ErrorFacts(Answer):
    """What went wrong, and what to do about it."""

    code: str
    """Stable; docs/errors.md has them all."""
    message: str
    findings: list[FindingAnswer]
    next_step: str
    next_command: str
    """The command to type next: the failing one only where following `next_step` makes it succeed."""
    retryable: bool
    """Whether lanes and Dagster try it again by themselves, within seconds. Nobody waits for `CAMPAIGN_ACTIVE` so."""


class ErrorAnswer(Answer):
    """Any command that was refused or did not succeed; the exit code says which."""

    error: ErrorFacts


class ProgressAnswer(Answer):
    """Counters over the campaign's chunks."""

    pending: int
    running: int
    committed: int
    failed: int
    lease_expired: int
    rows_extracted: int
    rows_loaded: int
    rows_per_second: int
    eta_seconds: float | None


class RollbackAnswer(Answer):
    """The receipt of a rollback."""

    receipt_id: str
    approved_by: str | None
    reason: str | None
    rolled_back_at: str


class PublicationAnswer(Answer):
    """How, and how far, the loaded rows became visible."""

    mode: Literal["direct", "shadow_swap"]
    phase: Phase
    target: str
    inner_mode: InnerMode
    shadow: str | None
    """Null for `direct`, which writes into the live table; so is the backup."""
    backup: str | None
    committed_chunks: int
    validation: Literal["pending", "passed", "blocked"]
    expected_rows: int | None
    actual_rows: int | None
    duplicate_keys: int | None
    receipt_id: str | None
    backup_retained: bool
    retained: str | None
    """The table that the last swap retains; null if it was dropped, or there was none."""
    rollback: RollbackAnswer | None
    recommended_action: str


class AuthorityAnswer(Answer):
    """What has the last word, without any credential; a `local_file` has no schema and no tables."""

    dialect: Literal["file", "postgres", "mssql"]
    schema_: str | None = Field(alias="schema")
    campaigns_table: str | None
    chunks_table: str | None
    run_key: str


class CapabilitiesAnswer(Answer):
    """What the state backend can do."""

    backend: Literal["local_file", "audit_schema"]
    dialect: Literal["file", "postgres", "mssql"]
    durable_read: bool
    durable_write: bool
    lock_scope: str
    distributed_lock: bool
    continuous_campaign_session_fence: bool


class IntervalAnswer(Answer):
    """The run's interval, as flags and variables say it."""

    start: str | None
    end: str | None
    logical_date: str | None
    dag_id: str | None
    dag_run_id: str | None
    try_number: str | None


class VerificationAnswer(Answer):
    """Whether rows read and written agree, chunk by chunk."""

    status: Literal["pending", "passed", "blocked", "warning"]
    compared: Literal["row_count", "digest"]
    """What the manifest asks for."""
    chunks_with_other_row_counts: int | None
    """Of a `direct` campaign; null until it is published, and for a shadow, where a difference fails the chunk."""
    digested_chunks: int | None
    """Null until all rows are compared, and where no digest is asked for; the other digests too."""
    source_digest: str | None
    """Sum of what each chunk had in its own snapshot, in decimal; exact."""
    target_digest: str | None
    """The shadow's, or the sum of what a `direct` campaign's chunks wrote."""
    chunks_with_other_digests: int | None
    """Of a `direct` campaign, as the row counts."""
    first_chunks_with_other_digests: list[int] | None
    """Their numbers, at most 20."""


class BackfillAnswer(Answer):
    """The campaign's state."""

    progress: ProgressAnswer
    publication: PublicationAnswer
    verification: VerificationAnswer
    retry_policy: Literal["non_committed", "failed_only"]
    state_backend: Literal["local_file", "audit_schema"]
    state_path: str | None
    state_cache_status: Literal["authoritative", "unavailable"]
    state_authority: AuthorityAnswer
    state_capabilities: CapabilitiesAnswer
    interval: IntervalAnswer


class OperationAnswer(BackfillAnswer):
    """The campaign's state, and what this operation did to it."""

    operation_status: Literal["dry_run", "nothing_to_do", "succeeded", "failed"]
    """Of this operation: `retry-failed` succeeds with the chunks it was for, whatever is left of the campaign."""
    selected_chunks: int


class ChunkAnswer(Answer):
    """One range of the chunk column."""

    index: int
    partition: str
    lower: str
    upper: str
    upper_inclusive: bool


class EndsAnswer(Answer):
    """The first chunks and the last."""

    first: list[ChunkAnswer]
    last: list[ChunkAnswer]


class PartitionsAnswer(Answer):
    """How Dagster shows the chunks."""

    count: int
    grouped: bool
    first: str
    last: str


class ChunkSpecAnswer(BaseModel):
    """What the chunks are made from."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["date", "timestamp", "integer", "uuid"]
    column: str
    buckets: int | None = None
    from_: str | None = Field(default=None, alias="from")
    to: str | None = None
    step: str | None = None


class EvidenceAnswer(Answer):
    """What the advisor knows, summed up."""

    committed_chunks: int
    empty_chunks: int
    failed_chunks: int
    lease_expired_chunks: int
    retried_chunks: int
    median_chunk_seconds: float | None
    stage_rows_per_second: dict[str, float]
    """The lowest positive rate of each stage."""
    failed_matrix_reports: int
    failed_matrix_cases: int


class AdviceAnswer(Answer):
    """What the advisor recommends; nothing applies it."""

    profile: Literal["balanced", "worker_safety", "source_safety", "speed"]
    recommendation: Literal[
        "resolve_vendor_certification_failures",
        "reduce_to_one_lane",
        "look_at_lost_workers",
        "keep_lanes",
        "increase_step",
        "decrease_buckets",
        "increase_lanes",
        "decrease_lanes",
        "keep",
    ]
    risk: Literal["low", "medium", "high"]
    recommended_step: str | None
    recommended_buckets: int | None
    recommended_max_parallel_chunks: int
    recommended_lease_ttl_minutes: None
    """Always null: leases last 90 s whatever the manifest says."""
    warnings: list[str]
    recommended_overrides: dict[str, str | int]
    """Values by manifest path."""
    evidence_sources: list[Literal["chunk_ledger", "load_steps", "matrix_report"]]
    evidence: EvidenceAnswer
