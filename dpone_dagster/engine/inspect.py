"""Look at a campaign without touching it: status for people and programs, doctor for the next action."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpone_dagster.campaign.errors import CampaignRolledBack, DponeError, Finding, PlanDrift, RightsMissing
from dpone_dagster.campaign.ledger import FINISHED, CampaignRecord, ChunkRecord, ChunkState, Holder, Phase
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.receipts import PublicationReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.campaign.statebackends import state_facts
from dpone_dagster.engine.card import validation_word
from dpone_dagster.engine.complete import DIFFERING, FIRST_OTHER_DIGESTS, OTHER_DIGESTS
from dpone_dagster.engine.neighbours import waiting
from dpone_dagster.engine.prepare import prove_campaign, prove_rights, prove_unchanged
from dpone_dagster.engine.sessions import prove_manifest, source_session, target_session
from dpone_dagster.engine.surroundings import around_source, around_target, outside
from dpone_dagster.engine.validate import ValidationEvidence
from dpone_dagster.ports.target import Connector, Target

_SHOWN_FAILURES = 20
_DIGEST_NUMBERS = ("digested_chunks", "source_digest", "target_digest", OTHER_DIGESTS, FIRST_OTHER_DIGESTS)
_MEND = "mend the findings, then run doctor again"


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
    """

    spec: CampaignSpec
    record: CampaignRecord | None
    progress: Progress
    publication: PublicationReceipt | None = None
    rollback: PublicationReceipt | None = None
    failed: tuple[ChunkRecord, ...] = ()
    holders: tuple[Holder, ...] = ()
    stages: tuple[str, ...] = ()

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
            "progress": self.progress.as_dict(),
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
    if status.holders:
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
        tuple(target.fence.holders(spec.run_key)),
        tuple(target.tables.stages(record.shadow, record.run_key)) if record.phase in FINISHED else (),
    )


@dataclass(frozen=True)
class Diagnosis:
    """What doctor found, and the one thing to do next.

    Attributes:
        findings: What is wrong.
        next_action: While something stands in the way of a run, to mend that.
        status: Where the campaign stands; None if that could not be read.
        notes: What is worth knowing and nobody's fault: sessions at work, rows that are out of scope.
    warnings: What is worth mending and stands in nobody's way: clocks, room, settings, what was left behind.
    """

    findings: tuple[Finding, ...]
    next_action: str
    status: CampaignStatus | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[Finding, ...] = ()

    def as_dict(self) -> Mapping[str, object]:
        """The public JSON of `dpone backfill doctor`."""
        return {
            "findings": [f.as_dict() for f in self.findings],
            "warnings": [f.as_dict() for f in self.warnings],
            "notes": list(self.notes),
            "next_action": self.next_action,
            "status": self.status.as_dict() if self.status else None,
        }


def doctor(spec: CampaignSpec, connector: Connector) -> Diagnosis:
    """Check reachability, tables, plan coverage, locks and state. Changes nothing.

    Args:
        spec: The campaign.
        connector: Opens the connections.
    """
    findings: list[Finding] = []
    notes: list[str] = []
    warnings: list[Finding] = []
    refused: list[DponeError] = []
    seen: CampaignStatus | None = None
    for place, look in _LOOKS:
        try:
            findings.extend(look(spec, connector))
        except DponeError as error:
            findings.extend(_refusal(place, error, refused))
            refused.append(error)
    in_the_way = bool(findings)
    try:
        with source_session(connector, "doctor") as source:
            notes.extend(outside(spec, source))
            warnings.extend(around_source(source))
        with target_session(connector, "doctor") as target:
            notes.extend(_waiting(spec, target))
            room, found = around_target(spec, target)
            notes.append(room)
            warnings.extend(found)
            seen = status_of(spec, target)
        stuck = {holder.session_id for _, holder in seen.stuck}
        at_work = (holder for holder in seen.holders if holder.session_id not in stuck)
        notes.extend(f"{holder}: leave it alone while its run is alive" for holder in at_work)
        findings.extend(_state_findings(seen))
    except DponeError as error:
        findings.extend(_refusal("state", error, refused))
    action = _MEND if seen is None or (in_the_way and not seen.drift) else seen.recommended_action
    told = {finding.path for finding in findings}
    left = tuple(warning for warning in warnings if warning.path not in told)
    return Diagnosis(tuple(dict.fromkeys(findings)), action, seen, tuple(notes), left)


def _refusal(place: str, error: DponeError, before: Sequence[DponeError]) -> list[Finding]:
    """What an error found, each by itself; the error as one finding where it has none. One cause is said once."""
    lacking = any(isinstance(known, RightsMissing) for known in before)
    if lacking and (isinstance(error, RightsMissing) or error.code == DponeError.code):
        return []
    if any((known.code, known.message) == (error.code, error.message) for known in before):
        return []
    return list(error.findings) or [Finding(place, f"{error.code}: {error.message}", error.advice)]


def _rights_findings(spec: CampaignSpec, connector: Connector) -> Iterator[Finding]:
    with target_session(connector, "doctor") as target:
        prove_rights(spec, target)
    yield from ()


def _prepare_findings(spec: CampaignSpec, connector: Connector) -> Iterator[Finding]:
    """What prepare would refuse."""
    with target_session(connector, "doctor") as target, source_session(connector, "doctor") as source:
        record = target.ledger.campaign(spec.run_key) if target.ledger.provisioned() else None
        if record is None:
            prove_campaign(spec, source, target)
        else:
            # Status names an edited manifest; what it says now is not what the tables are held to.
            with contextlib.suppress(PlanDrift, CampaignRolledBack):
                prove_unchanged(spec, source, target, record, "resume")
    yield from ()


def _waiting(spec: CampaignSpec, target: Target) -> Iterator[str]:
    """Other campaigns of the target that are unfinished and nobody's work."""
    for other in waiting(target, spec):
        yield (
            f"campaign {other.run_key[:12]} ({other.backfill_id or other.dataset}) of {spec.target} is "
            f"{other.phase} and nobody works on it: whichever is published first, the other cannot be"
        )


def _source_findings(spec: CampaignSpec, connector: Connector) -> Iterator[Finding]:
    with source_session(connector, "doctor") as source:
        source.describe(spec.source, spec.source_columns)
    yield from ()


def _target_findings(spec: CampaignSpec, connector: Connector) -> Iterator[Finding]:
    with target_session(connector, "doctor") as target, target_session(connector, "doctor witness") as witness:
        target.fence.prove_session_locks(witness.fence)
        live = target.tables.describe(spec.target)
        if live is None:
            yield Finding(str(spec.target), "the target table does not exist", "create it as reviewed")
            return
        yield from live.unwritable if spec.direct else live.findings


_LOOKS = (
    ("source", _source_findings),
    ("rights", _rights_findings),
    ("target", _target_findings),
    ("campaign", _prepare_findings),
)


def _state_findings(seen: CampaignStatus) -> Iterator[Finding]:
    yield from seen.findings
    for chunk, holder in seen.stuck:
        expired = f"{chunk.lease_expires_at:%Y-%m-%d %H:%M:%S%z}"
        yield Finding(
            f"chunk {chunk.index}",
            f"its lease ran out at {expired} and its lock is still held by {holder}; {chunk.worker} is stopped or cut "
            "off, and its run waits for it without end",
            f"look at that host; then dpone backfill release MANIFEST --chunk {chunk.index} --yes --approved-by NAME",
        )
    for stage in seen.stages:
        yield Finding(stage, "a stage table that was in use at the publication", "dpone backfill resume MANIFEST")
    stuck = {chunk.index for chunk, _ in seen.stuck}
    for chunk in (c for c in seen.failed if c.index not in stuck):
        yield Finding(
            f"chunk {chunk.index}", f"{chunk.effective_state}: {chunk.error_code or ''} {chunk.error or ''}".strip()
        )
