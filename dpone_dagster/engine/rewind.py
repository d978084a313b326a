"""Rewind: put a target's checkpoint back, so that the next increment reads again what came since and reconciles."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from dpone_dagster.campaign.errors import GenerationStale, OutcomeUnknown
from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.campaign.watermark import Anchor, Checkpoint, RecordedAnchor, rewind_anchor
from dpone_dagster.engine.checkpoint import places_behind
from dpone_dagster.engine.increment import live_checkpoint
from dpone_dagster.engine.prepare import prove_handoff_owner
from dpone_dagster.engine.sessions import hold_target, target_session, xmin_session
from dpone_dagster.ports.source import XminSource
from dpone_dagster.ports.target import Connector, Target


@dataclass(frozen=True)
class RewindRequest:
    """What somebody asks for.

    Attributes:
        to: `anchor`, a 64-bit transaction id, or a date or time.
        reason: Why.
        requested_by: Who gave the command, such as `user@host`.
        approved_by: Who approved it; None for a preview.
    """

    to: str
    reason: str
    requested_by: str
    approved_by: str | None = None


@dataclass(frozen=True)
class Rewind:
    """A rewind, planned or done. Its plain form is the evidence of the approval.

    Attributes:
        request: What was asked for.
        checkpoint: Where it stands, or stood.
        to: Where it goes, or went.
        source_now: The source's anchor when it was asked.
        decided_at: By this machine's clock.
        done: Whether the checkpoint was moved.
    """

    request: RewindRequest
    checkpoint: Checkpoint
    to: Anchor
    source_now: Anchor
    decided_at: datetime
    done: bool

    def as_dict(self) -> dict[str, object]:
        """The public JSON; holds no secret."""
        stored = self.checkpoint
        return {
            "operation": "state rewind",
            "state_type": "xmin",
            "outcome": "done" if self.done else "preview",
            "target": stored.target,
            "generation": stored.generation,
            "handoff_id": stored.handoff_id,
            "publication_receipt": stored.publication_receipt,
            "system_identifier": stored.anchor.identity.system_identifier,
            "asked_for": self.request.to,
            "from": RecordedAnchor.of(stored.anchor).as_dict(),
            "to": RecordedAnchor.of(self.to).as_dict(),
            "source_now": RecordedAnchor.of(self.source_now).as_dict(),
            "transactions_back": stored.anchor.transactions_since(self.to),
            "transactions_to_read": self.source_now.transactions_since(self.to),
            "revision": stored.revision + self.done,
            "reason": self.request.reason,
            "requested_by": self.request.requested_by,
            "approved_by": self.request.approved_by,
            "decided_at": self.decided_at.isoformat(),
        }


def preview_rewind(spec: RouteSpec, connector: Connector, request: RewindRequest) -> Rewind:
    """What the rewind would do. Changes nothing.

    Args:
        spec: The campaign or its increments.
        connector: Opens the connections.
        request: What is asked for.

    Raises:
        HandoffMissing: There is no checkpoint to rewind.
        HandoffRefused: The manifest's source is not the handoff's.
        RewindRefused: It cannot go there.
    """
    with target_session(connector, "rewind") as target, xmin_session(connector, "rewind") as source:
        return _planned(spec, source, target, request)


def rewind(spec: RouteSpec, connector: Connector, request: RewindRequest, load_id: str) -> Rewind:
    """Move the checkpoint back, under the target's lock, with its audit rows in the same transaction.

    Args:
        spec: The campaign or its increments.
        connector: Opens the connections.
        request: What is asked for; approved.
        load_id: Of the audit rows.

    Raises:
        HandoffMissing, HandoffRefused, RewindRefused: As `preview_rewind`.
        CampaignActive: An increment, a publication or a rollback holds the target.
        GenerationStale: The checkpoint was moved meanwhile.
    """
    started = time.monotonic()
    with target_session(connector, "rewind") as target, xmin_session(connector, "rewind") as source:
        planned = _planned(spec, source, target, request)
        done = Rewind(request, planned.checkpoint, planned.to, planned.source_now, datetime.now(UTC), done=True)
        with _unanswered(spec), target.transaction():
            hold_target(target, spec.target)
            _, checkpoint = live_checkpoint(spec, target)
            if checkpoint != done.checkpoint or not target.publications.rewind_checkpoint(checkpoint, done.to):
                raise GenerationStale(
                    f"the checkpoint of {spec.target} was moved meanwhile", next_step="Run the rewind again."
                )
            facts = done.as_dict()
            target.ledger.start_load(load_id, spec.dataset, "rewind", load_id)
            target.ledger.record_step(load_id, "rewind", "succeeded", time.monotonic() - started, facts)
            target.ledger.finish_load(load_id, "succeeded", facts)
    return done


@contextlib.contextmanager
def _unanswered(spec: RouteSpec) -> Iterator[None]:
    try:
        yield
    except OutcomeUnknown as error:
        advice = f"`dpone state inspect {spec.target}` shows whether it was rewound; then run the rewind again if not."
        raise OutcomeUnknown(error.message, next_step=advice) from None


def _planned(spec: RouteSpec, source: XminSource, target: Target, request: RewindRequest) -> Rewind:
    record, checkpoint = live_checkpoint(spec, target)
    prove_handoff_owner(spec, source, target)
    now = source.capture_anchor()
    to = rewind_anchor(request.to, checkpoint, places_behind(checkpoint, record, target), now)
    return Rewind(request, checkpoint, to, now, datetime.now(UTC), done=False)
