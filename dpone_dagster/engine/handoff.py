"""Handoff: bind the anchor from before the first chunk to the publication, and close the publication's head."""

from __future__ import annotations

from dpone_dagster.campaign.errors import HandoffRefused
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.campaign.watermark import Checkpoint, anchor_facts
from dpone_dagster.engine.audit import audited
from dpone_dagster.engine.outcome import Step, settled
from dpone_dagster.engine.prepare import prove_handoff_owner, source_name
from dpone_dagster.engine.sessions import (
    prepared_campaign,
    target_session,
    xmin_session,
)
from dpone_dagster.faultpoints import reach
from dpone_dagster.ports.fence import EXCLUSIVE_WAIT_SECONDS
from dpone_dagster.ports.source import XminSource
from dpone_dagster.ports.target import Connector, Target


def commit_handoff(spec: CampaignSpec, connector: Connector, run_id: str) -> Checkpoint | None:
    """Seed the generation's checkpoint; from then on increments may run. Done twice, it is the same checkpoint.

    Args:
        spec: The campaign.
        connector: Opens the connections.
        run_id: The run on whose behalf, for the audit rows.

    Returns:
        The checkpoint, or None where the manifest asks for no handoff.

    Raises:
        HandoffRefused: Not published, another publication is live since, or the id belongs to another pair.
        OutcomeUnknown: The answer of COMMIT was lost, and it was not committed.
    """
    if spec.handoff_id is None:
        return None
    with target_session(connector, "handoff") as target, xmin_session(connector, "handoff") as source:
        record = prepared_campaign(spec, target)
        receipt = target.publications.of_campaign(spec.run_key)
        if receipt is None or record.anchor is None:
            raise HandoffRefused(f"campaign {spec.dataset} is {record.phase}, not published")
        prove_handoff_owner(spec, source, target)
        seed = Checkpoint(
            handoff_id=spec.handoff_id,
            target=str(spec.target),
            generation=receipt.generation,
            publication_receipt=receipt.receipt_id,
            anchor=record.anchor,
            revision=1,
            reconciled=False,
        )
        step = Step(run_id, "campaign", "handoff")

        def commit() -> Checkpoint:
            with audited(spec, target, step.run_id, step.kind, step.name) as facts:
                there = _commit(spec, source, target, seed)
                reach("after_checkpoint")
                facts.update(handoff_id=seed.handoff_id, **anchor_facts(seed.generation, seed.anchor))
            return there

        return settled(spec, connector, step, commit, lambda again: _closed(spec, again, seed)) or seed


def _commit(spec: CampaignSpec, source: XminSource, target: Target, seed: Checkpoint) -> Checkpoint:
    with target.transaction():
        target.fence.lock_target(spec.target, EXCLUSIVE_WAIT_SECONDS)
        head = target.publications.head(spec.target)
        if head is None or head.receipt_id != seed.publication_receipt:
            raise HandoffRefused(f"another publication of {spec.target} is live since")
        if head.head == "pending":
            if not target.publications.seed_checkpoint(seed, source_name(spec, source)):
                raise HandoffRefused(f"generation {seed.generation} has another checkpoint already")
            if not target.publications.close_head(head.receipt_id):
                raise HandoffRefused(f"publication {head.receipt_id} is not the pending head of {spec.target}")
        there = target.publications.checkpoint(spec.target, seed.generation)
        owner = (seed.handoff_id, seed.publication_receipt)
        if there is None or (there.handoff_id, there.publication_receipt) != owner:
            raise HandoffRefused(f"the checkpoint of generation {seed.generation} is not this publication's")
        target.ledger.move(spec.run_key, frozenset({Phase.PUBLISHED}), Phase.HANDOFF_COMMITTED)
        reach("before_checkpoint")
    return there


def _closed(spec: CampaignSpec, target: Target, seed: Checkpoint) -> Checkpoint | None:
    """The checkpoint of the publication, if its handoff is committed."""
    receipt = target.publications.receipt(seed.publication_receipt)
    if receipt is None or receipt.head == "pending":
        return None
    return target.publications.checkpoint(spec.target, seed.generation)
