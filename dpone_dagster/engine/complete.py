"""Complete: a `direct` campaign whose last chunk is committed is published, for its rows are in the live table."""

from __future__ import annotations

from dpone_dagster.campaign.errors import ReceiptMismatch, ValidationBlocked
from dpone_dagster.campaign.ledger import FINISHED, CampaignRecord, Phase
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.audit import audited
from dpone_dagster.engine.sessions import hold_campaign, prepared_campaign, prove_not_cancelled, target_session
from dpone_dagster.engine.validate import DIGEST_CHECK, SEALABLE, Check, ValidationEvidence, receipts_complete
from dpone_dagster.ports.target import Connector, Target

DIFFERING = "chunks_with_other_row_counts"
OTHER_DIGESTS = "chunks_with_other_digests"
FIRST_OTHER_DIGESTS = "first_chunks_with_other_digests"
_ROWS = "actual_rows"
_SHOWN_CHUNKS = 20


def complete(spec: CampaignSpec, connector: Connector, run_id: str) -> ValidationEvidence | None:
    """Move a `direct` campaign to `published`, if every chunk of it is committed. Once it is, that changes nothing.

    Args:
        spec: The campaign.
        connector: Opens the connection.
        run_id: The run on whose behalf, for the audit rows.

    Returns:
        What its receipts say; None while chunks are missing.

    Raises:
        CampaignActive: A lane or another coordinator is at work.
        CampaignMissing: There is no campaign.
        CampaignCancelled: It was told to stop.
        ValidationBlocked: Receipts and chunks do not agree, or it was moved otherwise.
    """
    with target_session(connector, "complete") as target:
        if target.ledger.progress(spec.run_key).remaining:
            return None
        hold_campaign(spec, target)
        record = prepared_campaign(spec, target)
        if record.phase in FINISHED and record.validation is not None:
            return ValidationEvidence.from_dict(record.validation)
        prove_not_cancelled(record)
        with audited(spec, target, run_id, "campaign", "complete") as facts:
            whole = receipts_complete(target, record)
            if not whole.passed:
                raise ValidationBlocked(whole.problem, next_step=ReceiptMismatch.next_step)
            digests = (_digests(target, record),) if spec.digested else ()
            evidence = ValidationEvidence((whole, _parity(target, record), *digests))
            target.tables.drop_dead_stages(record.shadow, record.run_key)
            _publish(spec, target, evidence)
            facts["rows"] = evidence.numbers[_ROWS]
        return evidence


def _publish(spec: CampaignSpec, target: Target, evidence: ValidationEvidence) -> None:
    """The moves of every other campaign, in one transaction."""
    ledger, sealed, validated = target.ledger, frozenset({Phase.SEALED}), frozenset({Phase.VALIDATED})
    with target.transaction():
        moved = (
            ledger.move(spec.run_key, SEALABLE, Phase.SEALED)
            and ledger.move(spec.run_key, sealed, Phase.VALIDATED, validation=evidence.as_dict())
            and ledger.move(spec.run_key, validated, Phase.PUBLISHED)
        )
        if not moved:
            record = prepared_campaign(spec, target)
            prove_not_cancelled(record)
            raise ValidationBlocked(f"the campaign is {record.phase}")


def _parity(target: Target, record: CampaignRecord) -> Check:
    """How many chunks wrote another number of rows than they read. That is said; it stops nothing."""
    totals = target.ledger.receipt_totals(record)
    return Check("row_parity", True, {_ROWS: totals.rows, DIFFERING: totals.differing})


def _digests(target: Target, record: CampaignRecord) -> Check:
    """How many chunks wrote other rows than they read; likewise."""
    totals = target.ledger.digest_totals(record.run_key, _SHOWN_CHUNKS)
    numbers = {
        "digested_chunks": totals.receipts,
        "source_digest": str(totals.source),
        "target_digest": str(totals.target),
        OTHER_DIGESTS: totals.differing,
        FIRST_OTHER_DIGESTS: list(totals.first_differing),
    }
    return Check(DIGEST_CHECK, True, numbers)
