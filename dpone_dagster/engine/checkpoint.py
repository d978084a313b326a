"""Look at the checkpoint of a target's live generation: where increments start, and whether one may run."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_dagster.campaign.errors import CampaignActive, DponeError, HandoffMissing
from dpone_dagster.campaign.ledger import CampaignRecord
from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.campaign.watermark import MAX_DISTANCE, Anchor, Checkpoint, RecordedAnchor, rewind_places
from dpone_dagster.engine.increment import live_checkpoint
from dpone_dagster.engine.neighbours import prove_no_campaign
from dpone_dagster.engine.sessions import target_session, xmin_session
from dpone_dagster.ports.target import Connector, Target


@dataclass(frozen=True)
class CheckpointStatus:
    """Where a target's increments stand.

    Attributes:
        spec: The campaign or its increments.
        reason: Why no increment may run now; None if one may.
        checkpoint: Of the live generation; None if it has none.
        places: Recorded anchors behind the checkpoint, oldest first: where it can be rewound to.
        source_now: The source's anchor at this moment; None if the source did not say.
        source_problem: Why it did not.
    """

    spec: RouteSpec
    reason: str | None
    checkpoint: Checkpoint | None = None
    places: tuple[RecordedAnchor, ...] = ()
    source_now: Anchor | None = None
    source_problem: str | None = None

    @property
    def lag_transactions(self) -> int | None:
        """Transactions of the source since the checkpoint; None where there is no telling."""
        if self.checkpoint is None or self.source_now is None:
            return None
        return self.source_now.transactions_since(self.checkpoint.anchor)

    @property
    def lag_seconds(self) -> float | None:
        """Seconds since the checkpoint's anchor, by the source's clock."""
        if self.checkpoint is None or self.source_now is None:
            return None
        return self.source_now.seconds_since(self.checkpoint.anchor)

    def as_dict(self) -> dict[str, object]:
        """The public JSON of `dpone state inspect`."""
        stored, lag = self.checkpoint, self.lag_transactions
        return {
            "dataset": self.spec.dataset,
            "target": str(self.spec.target),
            "state_type": "xmin",
            "may_run": self.reason is None,
            "reason": self.reason,
            "handoff_id": self.spec.handoff_id,
            "generation": stored.generation if stored else None,
            "publication_receipt": stored.publication_receipt if stored else None,
            "revision": stored.revision if stored else None,
            "reconciled": stored.reconciled if stored else None,
            "settles_deletes": self.spec.increment.settles_deletes,
            "anchor": RecordedAnchor.of(stored.anchor).as_dict() if stored else None,
            "lag_transactions": lag,
            "lag_seconds": self.lag_seconds,
            "transactions_left": None if lag is None else MAX_DISTANCE - lag,
            "source_problem": self.source_problem,
            "recorded": [place.as_dict() for place in self.places],
        }


def inspect_checkpoint(spec: RouteSpec, connector: Connector) -> CheckpointStatus:
    """Read where the increments stand. Changes nothing.

    Args:
        spec: The campaign or its increments.
        connector: Opens the connections.
    """
    with target_session(connector, "inspect") as target:
        try:
            record, checkpoint = live_checkpoint(spec, target)
        except HandoffMissing as error:
            return CheckpointStatus(spec, error.message)
        places = places_behind(checkpoint, record, target)
        reason = _held_up(spec, target)
    now, problem = _source_now(connector)
    return CheckpointStatus(spec, reason, checkpoint, tuple(places), now, problem)


def places_behind(checkpoint: Checkpoint, record: CampaignRecord, target: Target) -> list[RecordedAnchor]:
    """Recorded anchors that a checkpoint can be rewound to, oldest first.

    Args:
        checkpoint: Of the live generation.
        record: The campaign that published it.
        target: The connection.
    """
    recorded = target.publications.recorded_anchors(checkpoint.generation)
    return rewind_places(checkpoint, record.anchor or checkpoint.anchor, recorded)


def _held_up(spec: RouteSpec, target: Target) -> str | None:
    try:
        prove_no_campaign(target, spec.target)
    except CampaignActive as error:
        return error.message
    return None


def _source_now(connector: Connector) -> tuple[Anchor | None, str | None]:
    # A source that is down must not hide where the target stands.
    try:
        with xmin_session(connector, "inspect") as source:
            return source.capture_anchor(), None
    except DponeError as error:
        return None, f"{error.code}: {error.message}"
