"""Doctor: everything that a run would refuse, what is worth mending besides, and the one thing to do next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpone_dagster.campaign.errors import (
    CampaignRolledBack,
    ConnectionInvalid,
    DponeError,
    Finding,
    KeyInvalid,
    LoginRefused,
    PlanDrift,
    RightsMissing,
    ServerUnreachable,
)
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.inspect import CampaignStatus, status_of
from dpone_dagster.engine.neighbours import waiting
from dpone_dagster.engine.prepare import (
    prove_campaign,
    prove_one_domain,
    prove_rights,
    prove_state_may_be_made,
    prove_unchanged,
)
from dpone_dagster.engine.sessions import source_session, target_session
from dpone_dagster.engine.surroundings import around_source, around_target, outside
from dpone_dagster.ports.source import Source
from dpone_dagster.ports.target import Connector, Target

_OF_CONNECTIONS = (ConnectionInvalid, LoginRefused, ServerUnreachable)
_MEND = "mend the findings, then run doctor again"


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
            findings.extend(_refusal(_place(spec, place, error), error, refused))
            refused.append(error)
    in_the_way = bool(findings)
    try:
        with source_session(connector, "doctor") as source:
            notes.extend(_outside(spec, source, refused))
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
        findings.extend(_refusal(_place(spec, "state", error), error, refused))
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


def _place(spec: CampaignSpec, looked_at: str, error: DponeError) -> str:
    """Where the fault is: with the connection that the message begins with, whatever was to be looked at over it."""
    named = error.message.partition(":")[0]
    refs = (spec.source_ref, spec.sink_ref, spec.state.connection_ref)
    return f"connection {named}" if isinstance(error, _OF_CONNECTIONS) and named in refs else looked_at


def _outside(spec: CampaignSpec, source: Source, before: Sequence[DponeError]) -> Sequence[str]:
    """Rows out of scope. That they cannot be counted by a column that is refused already is no news."""
    try:
        return list(outside(spec, source))
    except DponeError:
        if any(isinstance(known, KeyInvalid) for known in before):
            return ()
        raise


def _rights_findings(spec: CampaignSpec, connector: Connector) -> Iterator[Finding]:
    with target_session(connector, "doctor") as target:
        prove_rights(spec, target)
    yield from ()


def _domain_findings(spec: CampaignSpec, connector: Connector) -> Iterator[Finding]:
    with target_session(connector, "doctor") as target:
        prove_one_domain(spec, connector, target)
        if not target.ledger.provisioned():
            prove_state_may_be_made(spec)
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
    ("state", _domain_findings),
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
            f"chunk {chunk.index}",
            f"{chunk.effective_state}: {chunk.error_code or ''} {chunk.error or ''}".strip(),
            seen.advice_on(chunk),
        )
