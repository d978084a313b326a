"""Look at a campaign without touching it: where it stands, for people and programs, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_dagster.campaign.chunkadvice import advice_on_chunk
from dpone_dagster.campaign.errors import Finding, PlanDrift
from dpone_dagster.campaign.ledger import FINISHED, CampaignRecord, ChunkRecord, ChunkState, Holder, Neighbour, Phase
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.receipts import PublicationReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.campaign.statebackends import state_facts
from dpone_dagster.engine.card import validation_word
from dpone_dagster.engine.complete import DIFFERING, FIRST_OTHER_DIGESTS, OTHER_DIGESTS
from dpone_dagster.engine.sessions import prove_manifest, target_session
from dpone_dagster.engine.validate import ValidationEvidence
from dpone_dagster.ports.target import Connector, Target

_SHOWN_FAILURES = 20
_OVER = FINISHED | {Phase.ROLLED_BACK}
_DIGEST_NUMBERS = ("digested_chunks", "source_digest", "target_digest", OTHER_DIGESTS, FIRST_OTHER_DIGESTS)


@dataclass(frozen=True)
class CampaignStatus:
    """Where a campaign stands.

    Attributes:
        spec: The campaign.
        record: Its row, None if it was never prepared.
        progress: Its counters.
        publication: Its receipt, None if it is not published.
        rollback: The receipt of its rollback, None if there was none.
        failed: Failed and expired chunks, at most 20.
        holders: Sessions that hold a lock of it.
        stages: Stage tables of a published campaign, which nobody needs any more.
        held: Whether a session holds the lock of an unfinished campaign, be it one that this login cannot name.
    """

    spec: CampaignSpec
    record: CampaignRecord | None
    progress: Progress
    publication: PublicationReceipt | None = None
    rollback: PublicationReceipt | None = None
    failed: tuple[ChunkRecord, ...] = ()
    holders: tuple[Holder, ...] = ()
    stages: tuple[str, ...] = ()
    held: bool = False

    @property
    def unattended(self) -> bool:
        """Whether the campaign is begun and unfinished, and nobody works on it, whatever its chunks were at last."""
        unfinished = self.record is not None and self.phase not in _OVER
        return unfinished and not self.holders and not self.held

    @property
    def phase(self) -> Phase:
        """The phase; `planned` if it was never prepared."""
        return self.record.phase if self.record else Phase.PLANNED

    @property
    def drift(self) -> Finding | None:
        """That the manifest is no longer the one that the campaign was prepared with."""
        if self.record is None:
            return None
        try:
            prove_manifest(self.spec, self.record)
        except PlanDrift as error:
            return Finding("manifest", f"{error.code}: {error.message}", error.advice)
        return None

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """The checks that the last validation of a blocked campaign found red, each with its own next step."""
        if self.record is None or self.record.validation is None or self.phase is not Phase.BLOCKED:
            return ()
        red = ValidationEvidence.from_dict(self.record.validation).red
        return tuple(Finding(check.name, check.problem, check.next_step) for check in red)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What keeps the campaign from going on as it is."""
        return (*((self.drift,) if self.drift else ()), *self.blocking)

    @property
    def stuck(self) -> tuple[tuple[ChunkRecord, Holder], ...]:
        """Chunks whose lease has run out and whose lock is held all the same: the process is stopped or cut off."""
        expired = {f"chunk {c.index}": c for c in self.failed if c.effective_state is ChunkState.LEASE_EXPIRED}
        return tuple((expired[holder.lock], holder) for holder in self.holders if holder.lock in expired)

    def advice_on(self, chunk: ChunkRecord) -> str:
        """What to do about a failed or expired chunk."""
        return advice_on_chunk(self.spec, chunk.error_code if chunk.effective_state is ChunkState.FAILED else None)

    @property
    def recommended_action(self) -> str:
        """The one thing to do next."""
        return _recommend(self)

    def as_dict(self) -> dict[str, object]:
        """The public JSON of `dpone backfill status`."""
        return {
            "dataset": self.spec.dataset,
            "backfill_id": self.spec.backfill_id,
            "run_key": self.spec.run_key,
            "phase": str(self.phase),
            "stop_reason": self.record.stop_reason if self.record else None,
            "cancel_reason": self.record.cancel_reason if self.record else None,
            "backfill": self.backfill_dict(),
            "failed_chunks": [
                {
                    "chunk": c.index,
                    "state": str(c.effective_state),
                    "tries": c.tries,
                    "code": c.error_code,
                    "error": c.error,
                    "next_step": self.advice_on(c),
                }
                for c in self.failed
            ],
            "findings": [f.as_dict() for f in self.findings],
            "holders": [str(holder) for holder in self.holders],
            "stuck_chunks": [chunk.index for chunk, _ in self.stuck],
            "recommended_action": self.recommended_action,
        }

    def backfill_dict(self) -> dict[str, object]:
        """The `backfill` object of the public JSON."""
        return {
            "progress": self.progress.as_dict() | ({"eta_seconds": None} if self.unattended else {}),
            "publication": self.publication_dict(),
            "verification": self.verification_dict(),
            "retry_policy": self.spec.retry_policy,
            **state_facts(self.spec, there=self.record is not None),
        }

    def verification_dict(self) -> dict[str, object]:
        """The `backfill.verification` object of the public JSON: what was read against what was written."""
        numbers = _validation_numbers(self.record)
        differs = numbers.get(DIFFERING) or numbers.get(OTHER_DIGESTS)
        return {
            "status": "warning" if differs else validation_word(self.record),
            "compared": self.spec.verification,
            DIFFERING: numbers.get(DIFFERING),
            **{name: numbers.get(name) for name in _DIGEST_NUMBERS},
        }

    def publication_dict(self) -> dict[str, object]:
        """The `backfill.publication` object of the public JSON."""
        numbers = _validation_numbers(self.record)
        receipt = self.publication
        latest = self.rollback or receipt
        return {
            "mode": self.spec.publication.mode,
            "phase": str(self.phase),
            "target": str(self.spec.target),
            "inner_mode": self.spec.inner_mode,
            "shadow": None if self.spec.direct else str(self.spec.shadow),
            "backup": None if self.spec.direct else str(self.spec.backup),
            "committed_chunks": self.progress.committed,
            "validation": validation_word(self.record),
            "expected_rows": receipt.expected_rows if receipt else numbers.get("expected_rows"),
            "actual_rows": receipt.actual_rows if receipt else numbers.get("actual_rows"),
            "duplicate_keys": numbers.get("duplicate_keys"),
            "receipt_id": receipt.receipt_id if receipt else None,
            "backup_retained": latest is not None and latest is receipt and latest.backup_dropped_at is None,
            "retained": latest.backup if latest and latest.backup_dropped_at is None else None,
            "rollback": _rollback_dict(self.rollback),
            "recommended_action": self.recommended_action,
        }


def _rollback_dict(receipt: PublicationReceipt | None) -> dict[str, object] | None:
    if receipt is None:
        return None
    return {
        "receipt_id": receipt.receipt_id,
        "approved_by": receipt.approved_by,
        "reason": receipt.reason,
        "rolled_back_at": str(receipt.published_at),
    }


def _validation_numbers(record: CampaignRecord | None) -> dict[str, object]:
    numbers: dict[str, object] = {}
    if record is not None and record.validation is not None:
        for check in record.validation["checks"]:  # type: ignore[attr-defined]
            numbers.update(check["numbers"])
    return numbers


def _recommend(status: CampaignStatus) -> str:
    phase, progress = status.phase, status.progress
    if status.drift:
        return status.drift.advice
    if status.stages and phase in FINISHED:
        return "dpone backfill resume MANIFEST"
    if phase is Phase.HANDOFF_COMMITTED or (phase is Phase.PUBLISHED and status.spec.handoff_id is None):
        return "nothing to do: the campaign is finished"
    if phase is Phase.ROLLED_BACK:
        return "nothing to do: the campaign is rolled back; a new one needs a new `backfill_id`"
    if status.stuck:
        return f"dpone backfill release MANIFEST --chunk {status.stuck[0][0].index}"
    if status.holders or status.held:
        return "nothing to do: the campaign is being worked on; look again"
    if phase is Phase.PLANNED:
        return "dpone backfill run MANIFEST --execute"
    if status.blocking:
        return status.blocking[0].advice
    if progress.failed:
        return (
            "mend the failed chunks' cause; then dpone backfill resume MANIFEST, or only them: "
            "dpone backfill retry-failed MANIFEST --execute"
        )
    return "dpone backfill resume MANIFEST"


def status(spec: CampaignSpec, connector: Connector) -> CampaignStatus:
    """Read where the campaign stands. Changes nothing.

    Args:
        spec: The campaign.
        connector: Opens the connection.
    """
    with target_session(connector, "status") as target:
        return status_of(spec, target)


def status_of(spec: CampaignSpec, target: Target) -> CampaignStatus:
    """Where the campaign stands, over a connection that is there already."""
    record = target.ledger.campaign(spec.run_key) if target.ledger.provisioned() else None
    if record is None:
        return CampaignStatus(spec, None, Progress(spec.plan.count, 0, 0, 0, 0, 0, 0, 0.0, 0.0))
    holders = tuple(target.fence.holders(spec.run_key))
    wrong = target.ledger.chunks(
        spec.run_key, ChunkSelection.all(record.chunk_count), only=("failed", "lease_expired"), limit=_SHOWN_FAILURES
    )
    return CampaignStatus(
        spec,
        record,
        target.ledger.progress(spec.run_key),
        target.publications.of_campaign(spec.run_key),
        target.publications.of_campaign(spec.run_key, "rollback"),
        tuple(wrong),
        holders,
        tuple(target.tables.stages(record.shadow, record.run_key)) if record.phase in FINISHED else (),
        held=not holders and record.phase not in _OVER and _held(record, target),
    )


def _held(record: CampaignRecord, target: Target) -> bool:
    own = Neighbour(
        record.run_key, record.dataset, record.backfill_id, str(record.phase), direct=record.direct, slices=None
    )
    return bool(target.fence.held([own]))
