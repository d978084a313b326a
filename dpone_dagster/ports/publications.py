"""Publication receipts and xmin checkpoints."""

from __future__ import annotations

from typing import Protocol

from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.receipts import Kind, PublicationReceipt
from dpone_dagster.campaign.watermark import Anchor, Checkpoint, RecordedAnchor


class Publications(Protocol):
    """Publication receipts and xmin checkpoints."""

    def head(self, target: TableRef) -> PublicationReceipt | None:
        """The latest receipt of the target."""
        ...

    def of_campaign(self, run_key: str, kind: Kind = "publish") -> PublicationReceipt | None:
        """The publication of a campaign, or its rollback, if it was made; there is at most one of each."""
        ...

    def receipt(self, receipt_id: str) -> PublicationReceipt | None:
        """The receipt of this id."""
        ...

    def record(self, receipt: PublicationReceipt) -> None:
        """Insert, in the swap's transaction. The sequence's uniqueness keeps history from forking."""
        ...

    def close_head(self, receipt_id: str) -> bool:
        """CAS head pending → closed; False if it was not the pending head."""
        ...

    def record_drop(self, receipt_id: str, approved_by: str) -> bool:
        """CAS: the backup that this receipt names is dropped; False if that was recorded before."""
        ...

    def checkpoint(self, target: TableRef, generation: str) -> Checkpoint | None:
        """The checkpoint of one generation."""
        ...

    def handoff_owner(self, handoff_id: str) -> tuple[str, str] | None:
        """(source, target) that the handoff id was first used for."""
        ...

    def seed_checkpoint(self, checkpoint: Checkpoint, source: str) -> bool:
        """Insert the first checkpoint of a generation; True also if the very same one is there already."""
        ...

    def reopen_checkpoint(self, target: TableRef, generation: str) -> bool:
        """Its generation is live again: the next increment reconciles keys. False if there is no checkpoint."""
        ...

    def advance_checkpoint(self, checkpoint: Checkpoint, to: Anchor, *, reconciled: bool) -> bool:
        """CAS on the revision; never backwards on one timeline, never to another cluster's ids."""
        ...

    def rewind_checkpoint(self, checkpoint: Checkpoint, to: Anchor) -> bool:
        """CAS on the revision; backwards only, on the same server. The next increment reconciles."""
        ...

    def recorded_anchors(self, generation: str) -> list[RecordedAnchor]:
        """Where handoff and increments of a generation have put its checkpoint, as far as the audit rows tell."""
        ...
