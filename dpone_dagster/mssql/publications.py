"""The port `Publications` on SQL Server: publication receipts and xmin checkpoints."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dpone_dagster.campaign.errors import DponeError, GenerationStale, HandoffRefused
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.receipts import PublicationReceipt
from dpone_dagster.campaign.staterows import anchor_of, anchor_row
from dpone_dagster.campaign.watermark import Anchor, Checkpoint, RecordedAnchor
from dpone_dagster.mssql.faults import UNIQUE_VIOLATION, ServerError
from dpone_dagster.mssql.queries import load
from dpone_dagster.mssql.session import Session
from dpone_dagster.mssql.statevalues import read, stored

_RECEIPT_FIELDS = tuple(field.name for field in fields(PublicationReceipt))
_WRITTEN = tuple(name for name in _RECEIPT_FIELDS if name != "published_at")


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
        return _receipt(self._record("head", str(target)))

    def of_campaign(self, run_key: str) -> PublicationReceipt | None:
        """The publication of a campaign, if it was made."""
        return _receipt(self._record("of_campaign", run_key))

    def record(self, receipt: PublicationReceipt) -> None:
        """Insert, in the swap's transaction; its time is the server's.

        Raises:
            GenerationStale: The position in the history is taken, or the campaign is published already.
        """
        try:
            written = self._moved(
                "record",
                *(getattr(receipt, name) for name in _WRITTEN),
                receipt.predecessor_receipt is None,
                receipt.predecessor_receipt,
            )
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

    def checkpoint(self, target: TableRef, generation: str) -> Checkpoint | None:
        """The checkpoint of one generation."""
        row = self._record("checkpoint", str(target), generation)
        return None if row is None else _checkpoint(row)

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
        owner = self.handoff_owner(checkpoint.handoff_id)
        if owner is None or owner != pair:
            named = " → ".join(owner) if owner else "nobody"
            raise HandoffRefused(f"handoff_id `{checkpoint.handoff_id}` belongs to {named}")
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
        return there is not None and _checkpoint(there) == checkpoint

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
            anchor_row(to)["anchor_taken_at"],
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

    def _record(self, query: str, *values: object) -> dict[str, Any] | None:
        found = self._session.records(self._queries[query], *values)
        return read(found[0]) if found else None


def _receipt(row: dict[str, Any] | None) -> PublicationReceipt | None:
    if row is None:
        return None
    return PublicationReceipt(**{name: row[name] for name in _RECEIPT_FIELDS})


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
