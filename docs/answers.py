"""The JSON that each command prints, as types: the one source of `docs/schemas/*.json`.

What a command prints is held to them by the tests; a key that is not here is an error there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from docs.answerblocks import (
    AdviceAnswer,
    Answer,
    BackfillAnswer,
    ChunkSpecAnswer,
    EndsAnswer,
    ErrorAnswer,
    FindingAnswer,
    OperationAnswer,
    PartitionsAnswer,
)
from dpone_dagster.campaign.ledger import ChunkState, Phase
from dpone_dagster.campaign.slices import InnerMode


class PlanAnswer(Answer):
    """The campaign before it exists."""

    dataset: str
    backfill_id: str | None
    run_key: str
    source: str
    target: str
    publication_mode: Literal["direct", "shadow_swap"]
    inner_mode: InnerMode
    shadow: str | None
    backup: str | None
    unique_key: list[str]
    handoff_id: str | None
    chunk: ChunkSpecAnswer
    chunk_count: int
    lanes: int
    partitions: PartitionsAnswer
    chunks: EndsAnswer
    backfill: BackfillAnswer


class AdvisedPlanAnswer(PlanAnswer):
    """The plan with --advisor."""

    advisor: AdviceAnswer


class DryRunAnswer(PlanAnswer):
    """What a run would do."""

    dry_run: Literal[True]
    backfill: OperationAnswer


class FailedChunkAnswer(Answer):
    """A chunk that is failed, or whose lease ran out."""

    chunk: int
    state: ChunkState
    tries: int
    code: str | None
    error: str | None
    next_step: str


class StatusAnswer(Answer):
    """Where a campaign stands; of failed chunks at most 20."""

    dataset: str
    backfill_id: str | None
    run_key: str
    phase: Phase
    stop_reason: str | None
    cancel_reason: str | None
    backfill: BackfillAnswer
    failed_chunks: list[FailedChunkAnswer]
    findings: list[FindingAnswer]
    holders: list[str]
    stuck_chunks: list[int]
    recommended_action: str


class ReportAnswer(StatusAnswer):
    """Where the page of a campaign was written, and where the campaign stands."""

    output: str
    bytes: int
    verdict: str
    """The page's, in two or three words."""


class FailureAnswer(Answer):
    """One thing that went wrong in a run."""

    place: str
    code: str
    message: str
    next_step: str


class RetryPreviewAnswer(StatusAnswer):
    """Which chunks a retry would load."""

    dry_run: Literal[True]
    backfill: OperationAnswer


class RunAnswer(StatusAnswer):
    """What a run came to; the same is left as `<run_key>.execution.json`."""

    outcome: Literal["done", "failed"]
    run_id: str | None
    log: str | None
    evidence: str | None
    seconds: float
    failures: list[FailureAnswer]
    backfill: OperationAnswer


class DoctorAnswer(Answer):
    """What is wrong, and the one thing to do next."""

    findings: list[FindingAnswer]
    warnings: list[FindingAnswer]
    notes: list[str]
    next_action: str
    backfill: BackfillAnswer | None
    status: StatusAnswer | None


class CancelAnswer(Answer):
    """A campaign that is told to stop."""

    phase: Literal["cancelled"]
    requested_by: str
    reason: str


class RollbackPreviewAnswer(Answer):
    """What a rollback would do."""

    preview: Literal[True]
    target: str
    publication_receipt: str
    published_at: str
    backup: str
    rolled_back: str
    checkpoint: str | None


class RollbackDoneAnswer(Answer):
    """A rollback's receipt."""

    preview: Literal[False]
    target: str
    receipt_id: str
    sequence: int
    rolled_back: str
    rows: int
    approved_by: str
    reason: str
    rolled_back_at: str


class DropPreviewAnswer(Answer):
    """What would be dropped."""

    preview: Literal[True]
    target: str
    backup: str
    receipt_id: str
    kind: str
    rollback_possible_afterwards: Literal[False]


class DropDoneAnswer(Answer):
    """What was dropped."""

    preview: Literal[False]
    backup: str
    receipt_id: str
    dropped_by: str
    dropped_at: str


class ReleaseAnswer(Answer):
    """Sessions that hold a lock."""

    dataset: str
    chunk: int | None
    sessions: list[str]
    still_held_by: list[str]


class ReleasePreviewAnswer(ReleaseAnswer):
    """Whose sessions would be ended."""

    preview: Literal[True]


class ReleaseDoneAnswer(ReleaseAnswer):
    """Whose sessions were ended, and who holds on all the same."""

    preview: Literal[False]
    approved_by: str


class IncrementAnswer(Answer):
    """What an increment came to."""

    outcome: Literal["done", "failed"]
    run_id: str
    log: str
    increment: dict[str, Any]
    """Numbers of the increment: rows read, inserted, updated, deleted or marked, lag, anchors."""
    failures: list[FailureAnswer]


class AnchorAnswer(Answer):
    """Where increments started once. The transaction id is a text: it has 64 bits."""

    xid: str
    taken_at: str


class CheckpointAnswer(Answer):
    """Where the increments of a target stand."""

    dataset: str
    target: str
    state_type: Literal["xmin"]
    may_run: bool
    reason: str | None
    handoff_id: str | None
    generation: str | None
    publication_receipt: str | None
    revision: int | None
    reconciled: bool | None
    settles_deletes: bool
    anchor: AnchorAnswer | None
    lag_transactions: int | None
    lag_seconds: float | None
    transactions_left: int | None
    source_problem: str | None
    recorded: list[AnchorAnswer]


class RewindAnswer(Answer):
    """A rewind, planned or done; the same is its evidence."""

    operation: Literal["state rewind"]
    state_type: Literal["xmin"]
    outcome: Literal["preview", "done"]
    target: str
    generation: str
    handoff_id: str
    publication_receipt: str
    system_identifier: str
    asked_for: str
    from_: AnchorAnswer = Field(alias="from")
    to: AnchorAnswer
    source_now: AnchorAnswer
    transactions_back: int
    transactions_to_read: int
    revision: int
    reason: str
    requested_by: str
    approved_by: str | None
    decided_at: str


class CheckedAnswer(Answer):
    """A manifest with nothing wrong in it."""

    path: str
    dataset: str
    chunks: str
    route: str


class CheckAnswer(Answer):
    """Manifests that were read."""

    manifests: list[CheckedAnswer]


# Everything that a command may print with `--format json`, by its words.
ANSWERS: Mapping[str, Any] = {
    "run": RunAnswer | IncrementAnswer | ErrorAnswer,
    "backfill plan": PlanAnswer | AdvisedPlanAnswer | ErrorAnswer,
    "backfill run": DryRunAnswer | RunAnswer | ErrorAnswer,
    "backfill resume": RunAnswer | ErrorAnswer,
    "backfill retry-failed": RetryPreviewAnswer | RunAnswer | ErrorAnswer,
    "backfill status": StatusAnswer | ErrorAnswer,
    "backfill cancel": CancelAnswer | ErrorAnswer,
    "backfill rollback": RollbackPreviewAnswer | RollbackDoneAnswer | ErrorAnswer,
    "backfill release": ReleasePreviewAnswer | ReleaseDoneAnswer | ErrorAnswer,
    "backfill drop-backup": DropPreviewAnswer | DropDoneAnswer | ErrorAnswer,
    "backfill doctor": DoctorAnswer | ErrorAnswer,
    "backfill report": ReportAnswer | ErrorAnswer,
    "increment run": IncrementAnswer | ErrorAnswer,
    "increment status": CheckpointAnswer | ErrorAnswer,
    "state inspect": CheckpointAnswer | ErrorAnswer,
    "state rewind": RewindAnswer | ErrorAnswer,
    "manifest check": CheckAnswer | ErrorAnswer,
}


def schema_name(words: str) -> str:
    """The file of a command's schema, below `docs/schemas`."""
    return f"{words.replace(' ', '-')}.json"


def schema_of(words: str) -> dict[str, Any]:
    """The JSON Schema of what a command prints.

    Args:
        words: Of the command, such as `backfill plan`.
    """
    schema = TypeAdapter(ANSWERS[words]).json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"dpone {words} --format json",
        **schema,
    }
