"""The port `Publications` on PostgreSQL: publication receipts and xmin checkpoints."""

from __future__ import annotations

from psycopg import errors as pg

from dpone_dagster.campaign.errors import GenerationStale
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.receipts import Kind, PublicationReceipt
from dpone_dagster.campaign.staterows import (
    anchor_row,
    checkpoint_of,
    checkpoint_row,
    publication_of,
    publication_row,
)
from dpone_dagster.campaign.watermark import Anchor, Checkpoint, RecordedAnchor, prove_handoff_pair
from dpone_dagster.postgres.session import Session, translated
from dpone_dagster.postgres.staterows import StateRows


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
        return publication_of(self._statements.row("head", target=str(target)))

    def of_campaign(self, run_key: str, kind: Kind = "publish") -> PublicationReceipt | None:
        """The publication of a campaign, or its rollback, if it was made."""
        return publication_of(self._statements.row("of_campaign", run_key=run_key, kind=kind))

    def receipt(self, receipt_id: str) -> PublicationReceipt | None:
        """The receipt of this id."""
        return publication_of(self._statements.row("receipt", receipt_id=receipt_id))

    def record(self, receipt: PublicationReceipt) -> None:
        """Insert, in the swap's transaction; its time is the server's.

        Raises:
            GenerationStale: The position in the history is taken, or the campaign is published or rolled back already.
        """
        with translated():
            try:
                self._statements.execute("record", **publication_row(receipt))
            except pg.UniqueViolation:
                raise GenerationStale(
                    f"publication {receipt.sequence} of {receipt.target} was recorded by another session"
                ) from None

    def close_head(self, receipt_id: str) -> bool:
        """CAS head pending → closed; False if it was not the pending head."""
        return self._statements.moved("close_head", receipt_id=receipt_id)

    def record_drop(self, receipt_id: str, approved_by: str) -> bool:
        """CAS: the backup that this receipt names is dropped; False if that was recorded before."""
        return self._statements.moved("record_drop", receipt_id=receipt_id, approved_by=approved_by)

    def checkpoint(self, target: TableRef, generation: str) -> Checkpoint | None:
        """The checkpoint of one generation."""
        row = self._statements.row("checkpoint", target=str(target), generation=generation)
        return None if row is None else checkpoint_of(row)

    def handoff_owner(self, handoff_id: str) -> tuple[str, str] | None:
        """(source, target) that the handoff id was first used for."""
        row = self._statements.row("handoff_owner", handoff_id=handoff_id)
        return None if row is None else (row["source"], row["target"])

    def seed_checkpoint(self, checkpoint: Checkpoint, source: str) -> bool:
        """Insert the first checkpoint of a generation; True also if the very same one is there already.

        Raises:
            HandoffRefused: The handoff id was used for another source or target.
        """
        values = {**checkpoint_row(checkpoint), "source": source}
        self._statements.moved("claim_handoff", **values)
        owner = self.handoff_owner(checkpoint.handoff_id)
        prove_handoff_pair(checkpoint.handoff_id, owner, (source, checkpoint.target))
        if self._statements.moved("seed", **values):
            return True
        there = self._statements.row("checkpoint", **values)
        return there is not None and checkpoint_of(there) == checkpoint

    def reopen_checkpoint(self, target: TableRef, generation: str) -> bool:
        """Its generation is live again: the next increment reconciles keys. False if there is no checkpoint."""
        return self._statements.moved("reopen", target=str(target), generation=generation)

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
