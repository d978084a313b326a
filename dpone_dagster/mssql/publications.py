"""The port `Publications` on SQL Server: publication receipts and xmin checkpoints."""

from __future__ import annotations

from typing import Any

from dpone_dagster.campaign.errors import GenerationStale
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.receipts import Kind, PublicationReceipt
from dpone_dagster.campaign.staterows import anchor_row, checkpoint_of, publication_of, publication_row
from dpone_dagster.campaign.watermark import Anchor, Checkpoint, RecordedAnchor, prove_handoff_pair
from dpone_dagster.mssql.faults import UNIQUE_VIOLATION, ServerError
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import quoted
from dpone_dagster.mssql.session import Session
from dpone_dagster.mssql.statevalues import read, stored


class MssqlPublications:
    """Publication receipts and checkpoints in the state schema.

    Args:
        session: The target's session.
        state_schema: Where the state tables are.
    """

    def __init__(self, session: Session, state_schema: str) -> None:
        self._session = session
        self._queries = load("publications.sql", state_schema)

    def head(self, target: TableRef) -> PublicationReceipt | None:
        """The latest receipt of the target."""
        return self._publication("head", str(target))

    def of_campaign(self, run_key: str, kind: Kind = "publish") -> PublicationReceipt | None:
        """The publication of a campaign, or its rollback, if it was made."""
        return self._publication("of_campaign", run_key, kind)

    def receipt(self, receipt_id: str) -> PublicationReceipt | None:
        """The receipt of this id."""
        return self._publication("receipt", receipt_id)

    def record(self, receipt: PublicationReceipt) -> None:
        """Insert, in the swap's transaction; its time is the server's.

        Raises:
            GenerationStale: The position in the history is taken, or the campaign is published or rolled back already.
        """
        row = publication_row(receipt)
        query = filled(self._queries["record"], columns=", ".join(map(quoted, row)), marks=", ".join("?" for _ in row))
        predecessor = receipt.predecessor_receipt
        try:
            written = self._session.changed(query, *row.values(), predecessor is None, predecessor) == 1
        except ServerError as error:
            if error.number not in UNIQUE_VIOLATION:
                raise
            raise GenerationStale(
                f"publication {receipt.sequence} of {receipt.target} was recorded by another session"
            ) from None
        if not written:
            raise GenerationStale(f"the publication {receipt.predecessor_receipt} before it is not there")

    def close_head(self, receipt_id: str) -> bool:
        """CAS head pending → closed; False if it was not the pending head."""
        return self._moved("close_head", receipt_id)

    def record_drop(self, receipt_id: str, approved_by: str) -> bool:
        """CAS: the backup that this receipt names is dropped; False if that was recorded before."""
        return self._moved("record_drop", approved_by, receipt_id)

    def checkpoint(self, target: TableRef, generation: str) -> Checkpoint | None:
        """The checkpoint of one generation."""
        row = self._record("checkpoint", str(target), generation)
        return None if row is None else checkpoint_of(row)

    def handoff_owner(self, handoff_id: str) -> tuple[str, str] | None:
        """(source, target) that the handoff id was first used for."""
        row = self._record("handoff_owner", handoff_id)
        return None if row is None else (row["source"], row["target"])

    def seed_checkpoint(self, checkpoint: Checkpoint, source: str) -> bool:
        """Insert the first checkpoint of a generation; True also if the very same one is there already.

        Raises:
            HandoffRefused: The handoff id was used for another source or target.
        """
        pair = (source, checkpoint.target)
        self._moved("claim_handoff", checkpoint.handoff_id, *pair, checkpoint.handoff_id)
        prove_handoff_pair(checkpoint.handoff_id, self.handoff_owner(checkpoint.handoff_id), pair)
        seeded = self._moved(
            "seed",
            checkpoint.target,
            checkpoint.generation,
            checkpoint.handoff_id,
            checkpoint.publication_receipt,
            *anchor_row(checkpoint.anchor).values(),
            checkpoint.revision,
            checkpoint.reconciled,
            checkpoint.publication_receipt,
            checkpoint.target,
            checkpoint.generation,
        )
        if seeded:
            return True
        there = self._record("checkpoint", checkpoint.target, checkpoint.generation)
        return there is not None and checkpoint_of(there) == checkpoint

    def reopen_checkpoint(self, target: TableRef, generation: str) -> bool:
        """Its generation is live again: the next increment reconciles keys. False if there is no checkpoint."""
        return self._moved("reopen", str(target), generation)

    def advance_checkpoint(self, checkpoint: Checkpoint, to: Anchor, *, reconciled: bool) -> bool:
        """CAS on the revision; never backwards, never to another server's ids."""
        return self._moved(
            "advance",
            to.xid,
            to.identity.timeline,
            to.taken_at,
            reconciled,
            checkpoint.target,
            checkpoint.generation,
            checkpoint.revision,
            to.xid,
            to.identity.timeline,
            to.identity.system_identifier,
            to.identity.database_oid,
        )

    def rewind_checkpoint(self, checkpoint: Checkpoint, to: Anchor) -> bool:
        """CAS on the revision; backwards only, on the same server. The next increment reconciles."""
        return self._moved(
            "rewind",
            to.xid,
            to.taken_at,
            checkpoint.target,
            checkpoint.generation,
            checkpoint.revision,
            to.xid,
            to.identity.system_identifier,
            to.identity.database_oid,
        )

    def recorded_anchors(self, generation: str) -> list[RecordedAnchor]:
        """Where handoff and increments of a generation have put its checkpoint, as far as the audit rows tell."""
        rows = self._session.records(self._queries["recorded_anchors"], generation)
        return [RecordedAnchor.from_facts(row) for row in rows]

    def _moved(self, query: str, *values: object) -> bool:
        return self._session.changed(self._queries[query], *map(stored, values)) == 1

    def _publication(self, query: str, *values: object) -> PublicationReceipt | None:
        return publication_of(self._record(query, *values))

    def _record(self, query: str, *values: object) -> dict[str, Any] | None:
        found = self._session.records(self._queries[query], *values)
        return read(found[0]) if found else None
