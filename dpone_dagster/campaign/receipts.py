"""Receipts: the only proof that something happened in the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Kind = Literal["publish", "rollback"]
DIGEST = "digest"
TARGET_DIGEST = "target_digest"


@dataclass(frozen=True)
class ChunkReceipt:
    """Written in the transaction that wrote the chunk's rows. `(run_key, chunk_index)` is its primary key.

    Attributes:
        run_key: The campaign.
        chunk_index: The chunk.
        receipt_id: Stable public id.
        plan_hash: The plan it belongs to.
        contract_hash: The column contract it belongs to.
        binding: SHA-256 over the chunk's own range and projection.
        epoch: Of the claim that wrote it.
        rows: Rows written; into a shadow, proven equal to the rows read.
        bytes: Bytes moved.
        nulled: Values set to NULL by `on_bad_value: null`, a column.
        committed_at: By the target server's clock.
        diagnostics: Open map. `rows_read` where that is another number than `rows`. `digest` is the sum of the row
            digests that the source had in the chunk's snapshot, in decimal, where `verification: digest` asks for it;
            `target_digest` is the target's, where it is another one.
    """

    run_key: str
    chunk_index: int
    receipt_id: str
    plan_hash: str
    contract_hash: str
    binding: str
    epoch: int
    rows: int
    bytes: int = 0
    nulled: Mapping[str, int] = field(default_factory=dict)
    committed_at: datetime | None = None
    diagnostics: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ReceiptTotals:
    """Sums over a campaign's receipts."""

    receipts: int
    rows: int
    foreign: int  # receipts whose plan or contract hash is not the campaign's
    differing: int = 0  # receipts that note another number of rows read than written


@dataclass(frozen=True)
class DigestTotals:
    """Sums over the digests that a campaign's receipts note.

    Attributes:
        receipts: Those that note one.
        source: Sum of the source's; exact, whatever its size.
        target: Sum of the target's.
        differing: Receipts that note two different ones.
        first_differing: Their chunks, the first few.
    """

    receipts: int
    source: int
    target: int
    differing: int
    first_differing: tuple[int, ...] = ()


def digest_sum(content_digest: str) -> str:
    """The sum of a `<rows>:<sum>`, as receipts note it.

    Args:
        content_digest: As `Source.content_digest` and `Tables.content_digest` give it.
    """
    return content_digest.partition(":")[2]


@dataclass(frozen=True)
class Approval:
    """Who answers for a rollback, and why it is made."""

    approved_by: str
    reason: str

    def __str__(self) -> str:
        return f"rolled back by {self.approved_by}: {self.reason}"


@dataclass(frozen=True)
class PublicationReceipt:
    """Written in the transaction that swapped the tables.

    Attributes:
        receipt_id: Stable public id.
        target: `schema.table`.
        sequence: Position in the target's history, from 1; unique a target, so history cannot fork.
        kind: A publication or the rollback of one.
        run_key: The campaign.
        generation: UUID of the table that is live since; after a rollback, of the one that was live before.
        predecessor_receipt: Receipt of the publication before, None for the first.
        live_object_id: Object id of the table that is live since.
        backup: Name of the table that was live before.
        expected_rows: Sum of the chunk receipts; for a rollback, rows of the backup as counted under its lock.
        actual_rows: Exact count of the table that is live since.
        object_contract_sha256: Catalog contract that both tables had.
        head: `pending` until the handoff closes it, then `closed`.
        handoff_id: The handoff that has to close it, None where none is owed.
        published_at: By the target server's clock.
        approved_by: Who approved it (rollback only).
        reason: Why (rollback only).
        backup_dropped_at: When `backup` was dropped; None while it is retained.
        backup_dropped_by: Who approved that.
    """

    receipt_id: str
    target: str
    sequence: int
    kind: Kind
    run_key: str
    generation: str
    predecessor_receipt: str | None
    live_object_id: int
    backup: str
    expected_rows: int
    actual_rows: int
    object_contract_sha256: str
    head: Literal["pending", "closed"]
    handoff_id: str | None
    published_at: datetime | None = None
    approved_by: str | None = None
    reason: str | None = None
    backup_dropped_at: datetime | None = None
    backup_dropped_by: str | None = None
