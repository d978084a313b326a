"""The port `Publications` of a campaign whose state is a file: it swaps nothing and hands nothing over."""

# ruff: noqa: ARG002 - the port names what nothing here looks at

from __future__ import annotations

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.receipts import Kind, PublicationReceipt
from dpone_dagster.campaign.watermark import Anchor, Checkpoint, RecordedAnchor

_NONE = "a campaign whose state is a file has no publication and no checkpoint"


class NoPublications:
    """Nothing to read, and nothing may be written."""

    def head(self, target: TableRef) -> PublicationReceipt | None:
        """None."""
        return None

    def of_campaign(self, run_key: str, kind: Kind = "publish") -> PublicationReceipt | None:
        """None."""
        return None

    def receipt(self, receipt_id: str) -> PublicationReceipt | None:
        """None."""
        return None

    def checkpoint(self, target: TableRef, generation: str) -> Checkpoint | None:
        """None."""
        return None

    def handoff_owner(self, handoff_id: str) -> tuple[str, str] | None:
        """None."""
        return None

    def recorded_anchors(self, generation: str) -> list[RecordedAnchor]:
        """None."""
        return []

    def record(self, receipt: PublicationReceipt) -> None:
        """An error."""
        raise DponeError(_NONE)

    def close_head(self, receipt_id: str) -> bool:
        """An error."""
        raise DponeError(_NONE)

    def record_drop(self, receipt_id: str, approved_by: str) -> bool:
        """An error."""
        raise DponeError(_NONE)

    def seed_checkpoint(self, checkpoint: Checkpoint, source: str) -> bool:
        """An error."""
        raise DponeError(_NONE)

    def reopen_checkpoint(self, target: TableRef, generation: str) -> bool:
        """An error."""
        raise DponeError(_NONE)

    def advance_checkpoint(self, checkpoint: Checkpoint, to: Anchor, *, reconciled: bool) -> bool:
        """An error."""
        raise DponeError(_NONE)

    def rewind_checkpoint(self, checkpoint: Checkpoint, to: Anchor) -> bool:
        """An error."""
        raise DponeError(_NONE)
