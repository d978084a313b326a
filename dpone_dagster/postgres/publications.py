"""The port `Publications` on PostgreSQL: publication receipts and xmin checkpoints."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from psycopg import errors as pg

from dpone_dagster.campaign.errors import DponeError, GenerationStale, HandoffRefused
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.receipts import PublicationReceipt
from dpone_dagster.campaign.staterows import anchor_of, anchor_row
from dpone_dagster.campaign.watermark import Anchor, Checkpoint, RecordedAnchor
from dpone_dagster.postgres.session import Session, translated
from dpone_dagster.postgres.staterows import StateRows

_RECEIPT_FIELDS = tuple(field.name for field in fields(PublicationReceipt))


class PostgresPublications:
    """Publication receipts and checkpoints in the state schema.

    Args:
        session: The target's session.
        state_schema: Where the state tables are.
    """

    def __init__(self, session: Session, state_schema: str) -> None:
        self._session = session
        self._statements = StateRows(session, "publications.sql", state_schema)

    def head(self, target: TableRef) -> PublicationReceipt | None:
        """The latest receipt of the target."""
        return _receipt(self._statements.row("head", target=str(target)))

    def of_campaign(self, run_key: str) -> PublicationReceipt | None:
        """The publication of a campaign, if it was made."""
        return _receipt(self._statements.row("of_campaign", run_key=run_key))

    def record(self, receipt: PublicationReceipt) -> None:
        """Insert, in the swap's transaction; its time is the server's.

        Raises:
            GenerationStale: The position in the history is taken, or the campaign is published already.
        """
        with translated():
            try:
                self._statements.execute("record", **asdict(receipt))
            except pg.UniqueViolation:
                raise GenerationStale(
                    f"publication {receipt.sequence} of {receipt.target} was recorded by another session"
                ) from None

    def close_head(self, receipt_id: str) -> bool:
        """CAS head pending → closed; False if it was not the pending head."""
        return self._statements.moved("close_head", receipt_id=receipt_id)

    def checkpoint(self, target: TableRef, generation: str) -> Checkpoint | None:
        """The checkpoint of one generation."""
        row = self._statements.row("checkpoint", target=str(target), generation=generation)
        return None if row is None else _checkpoint(row)

    def handoff_owner(self, handoff_id: str) -> tuple[str, str] | None:
        """(source, target) that the handoff id was first used for."""
        row = self._statements.row("handoff_owner", handoff_id=handoff_id)
        return None if row is None else (row["source"], row["target"])

    def seed_checkpoint(self, checkpoint: Checkpoint, source: str) -> bool:
        """Insert the first checkpoint of a generation; True also if the very same one is there already.

        Raises:
            HandoffRefused: The handoff id was used for another source or target.
        """
        pair = (source, checkpoint.target)
        self._statements.moved(
            "claim_handoff", handoff_id=checkpoint.handoff_id, source=source, target=checkpoint.target
        )
        owner = self.handoff_owner(checkpoint.handoff_id)
        if owner is None or owner != pair:
            named = " → ".join(owner) if owner else "nobody"
            raise HandoffRefused(f"handoff_id `{checkpoint.handoff_id}` belongs to {named}")
        values = {
            "generation": checkpoint.generation,
            "publication_receipt": checkpoint.publication_receipt,
            "revision": checkpoint.revision,
            "reconciled": checkpoint.reconciled,
            **anchor_row(checkpoint.anchor),
        }
        if self._statements.moved(
            "seed", target=checkpoint.target, handoff_id=checkpoint.handoff_id, source=source, **values
        ):
            return True
        there = self._statements.row("checkpoint", target=checkpoint.target, generation=checkpoint.generation)
        return there is not None and _checkpoint(there) == checkpoint

    def advance_checkpoint(self, checkpoint: Checkpoint, to: Anchor, *, reconciled: bool) -> bool:
        """CAS on the revision; never backwards, never to another server's ids."""
        return self._statements.moved(
            "advance",
            target=checkpoint.target,
            generation=checkpoint.generation,
            revision=checkpoint.revision,
            reconciled=reconciled,
            **anchor_row(to),
        )

    def rewind_checkpoint(self, checkpoint: Checkpoint, to: Anchor) -> bool:
        """CAS on the revision; backwards only, on the same server. The next increment reconciles."""
        return self._statements.moved(
            "rewind",
            target=checkpoint.target,
            generation=checkpoint.generation,
            revision=checkpoint.revision,
            **anchor_row(to),
        )

    def recorded_anchors(self, generation: str) -> list[RecordedAnchor]:
        """Where handoff and increments of a generation have put its checkpoint, as far as the audit rows tell."""
        rows = self._statements.rows("recorded_anchors", generation=generation)
        return [RecordedAnchor.from_facts(row) for row in rows]


def _receipt(row: dict[str, Any] | None) -> PublicationReceipt | None:
    return None if row is None else PublicationReceipt(**{name: row[name] for name in _RECEIPT_FIELDS})


def _checkpoint(row: dict[str, Any]) -> Checkpoint:
    anchor = anchor_of(row)
    if anchor is None:
        raise DponeError(f"the checkpoint of {row['target']} has no anchor")
    return Checkpoint(
        handoff_id=row["handoff_id"],
        target=row["target"],
        generation=row["generation"],
        publication_receipt=row["publication_receipt"],
        anchor=anchor,
        revision=row["revision"],
        reconciled=row["reconciled"],
    )
