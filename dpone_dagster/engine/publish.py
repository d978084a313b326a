"""Publish: one transaction that swaps shadow and live table and writes the publication's receipt."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from dpone_dagster.campaign.errors import (
    CatalogDrift,
    ConnectionLost,
    DponeError,
    OutcomeUnknown,
    PublicationBlocked,
    TransientFailure,
    ValidationBlocked,
)
from dpone_dagster.campaign.ledger import FINISHED, CampaignRecord, Phase
from dpone_dagster.campaign.receipts import PublicationReceipt
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.audit import audited
from dpone_dagster.engine.card import CampaignCard, show_card
from dpone_dagster.engine.outcome import said
from dpone_dagster.engine.sessions import hold_campaign, prepared_campaign, prove_not_cancelled, target_session
from dpone_dagster.engine.standing import prove_head, prove_live
from dpone_dagster.faultpoints import reach
from dpone_dagster.ports.tables import TargetTable
from dpone_dagster.ports.target import Connector, Target

# Waiting for the rename queues every reader of the live table, so the wait is short and repeated instead.
LOCK_WAIT_SECONDS = 2.0
TRIES = 10
_BACKOFF_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)
_Made = TypeVar("_Made")


def publish(
    spec: CampaignSpec, connector: Connector, run_id: str, show: Callable[[CampaignCard], None] | None = None
) -> PublicationReceipt:
    """Swap the validated shadow in. A published campaign returns its receipt again.

    The live table is locked for at most `LOCK_WAIT_SECONDS` a try and `TRIES` tries; it is whole at every instant.

    Args:
        spec: The campaign.
        connector: Opens the connection.
        run_id: The run on whose behalf, for the audit rows.
        show: Called with the campaign's card when it is done.

    Raises:
        CampaignCancelled: The campaign was told to stop.
        ValidationBlocked: It is not validated.
        PublicationBlocked: A session keeps the tables or reads from before the seal; may be tried again.
        GenerationStale: The live table is another generation than at prepare.
        CatalogDrift: Live table or shadow are not what they were.
        HandoffRefused: The publication before still waits for its handoff.
        CampaignActive: Another session holds the campaign.
    """

    def once(target: Target) -> PublicationReceipt:
        receipt = _publish_once(spec, target, run_id)
        show_card(spec, target, show)
        return receipt

    return until_unblocked(
        spec,
        connector,
        "publish",
        once,
        lambda target: target.publications.of_campaign(spec.run_key),
    )


def until_unblocked(
    spec: CampaignSpec,
    connector: Connector,
    purpose: str,
    once: Callable[[Target], _Made],
    look: Callable[[Target], _Made | None],
) -> _Made:
    """Try under the campaign's exclusive lock, each time on a new session, until nobody is in the way.

    Args:
        spec: The campaign.
        connector: Opens the connections.
        purpose: Goes into the application name.
        once: Does it.
        look: Finds what it has left behind; asked for where a try has lost its connection.

    Raises:
        CampaignActive: Another session holds the campaign.
        PublicationBlocked: After `TRIES` tries; as any other error of the last one.
    """
    lost: DponeError | None = None
    for attempt in range(TRIES):
        try:
            with target_session(connector, purpose) as target:
                hold_campaign(spec, target)
                done = None if lost is None else look(target)
                if isinstance(lost, OutcomeUnknown):
                    said(purpose, done)
                return once(target) if done is None else done
        except (PublicationBlocked, TransientFailure, ConnectionLost, OutcomeUnknown) as error:
            if attempt == TRIES - 1:
                raise
            lost = error if isinstance(error, (ConnectionLost, OutcomeUnknown)) else None
            time.sleep(_BACKOFF_SECONDS[min(attempt, len(_BACKOFF_SECONDS) - 1)])
    raise PublicationBlocked("no try left")


def _publish_once(spec: CampaignSpec, target: Target, run_id: str) -> PublicationReceipt:
    record = prepared_campaign(spec, target)
    if record.phase in FINISHED:
        return publication_of(record, target)
    prove_not_cancelled(record)
    if record.phase is not Phase.VALIDATED:
        raise ValidationBlocked(f"the shadow of {spec.dataset} is not validated: the campaign is {record.phase}")
    with audited(spec, target, run_id, "campaign", "publish") as facts:
        target.tables.drop_dead_stages(record.shadow, record.run_key)
        blockers = target.tables.settle_horizon(record.shadow, record.seal_horizon)
        if blockers:
            raise PublicationBlocked(
                "readers from before the seal would see the new table half empty: " + "; ".join(blockers)
            )
        with target.transaction():
            receipt = _swap(spec, record, _draft(spec, record), target)
            reach("before_publication_commit")
        reach("after_publication_commit")
        facts.update(receipt_id=receipt.receipt_id, rows=receipt.actual_rows)
    return publication_of(record, target)  # with the server's time


def publication_of(record: CampaignRecord, target: Target) -> PublicationReceipt:
    """The receipt of a published campaign."""
    receipt = target.publications.of_campaign(record.run_key)
    if receipt is None:
        raise DponeError(f"campaign {record.dataset} is {record.phase} but has no publication receipt")
    return receipt


def _draft(spec: CampaignSpec, record: CampaignRecord) -> PublicationReceipt:
    return PublicationReceipt(
        receipt_id=uuid.uuid4().hex,
        target=str(spec.target),
        sequence=0,
        kind="publish",
        run_key=record.run_key,
        generation=str(uuid.uuid4()),
        predecessor_receipt=record.predecessor_receipt,
        live_object_id=record.shadow_object_id,
        backup=str(record.backup),
        expected_rows=0,
        actual_rows=0,
        object_contract_sha256=record.object_contract_sha256,
        head="pending" if spec.handoff_id is not None else "closed",
        handoff_id=spec.handoff_id,
    )


def _swap(spec: CampaignSpec, record: CampaignRecord, draft: PublicationReceipt, target: Target) -> PublicationReceipt:
    target.fence.lock_target(spec.target, LOCK_WAIT_SECONDS)
    target.fence.lock_publication(spec.target, LOCK_WAIT_SECONDS)
    sequence = prove_head(record, target)
    target.tables.lock_table(record.shadow, LOCK_WAIT_SECONDS)
    expected = target.ledger.receipt_totals(record).rows
    actual = target.tables.count(record.shadow)
    if actual != expected:
        raise CatalogDrift(f"the shadow has {actual} rows, its receipts say {expected}")
    # The first write: its row lock settles the race with a cancel, where plain reads lock nothing. It comes after the
    # long count, so that nobody who looks at the campaign waits for that.
    if not target.ledger.move(
        record.run_key, frozenset({Phase.VALIDATED}), Phase.PUBLISHED, receipt_id=draft.receipt_id
    ):
        prove_not_cancelled(prepared_campaign(spec, target))
        raise ValidationBlocked("the campaign was moved while it was being published")
    target.tables.lock_table(spec.target, LOCK_WAIT_SECONDS)
    live, shadow = _prove_tables(record, target)
    # The UUID that the shadow has borne since it was made, where it bears one.
    generation = shadow.generation or draft.generation
    target.tables.swap(live, shadow, record.backup, generation)
    receipt = replace(draft, generation=generation, sequence=sequence, expected_rows=expected, actual_rows=actual)
    target.publications.record(receipt)
    return receipt


def _prove_tables(record: CampaignRecord, target: Target) -> tuple[TargetTable, TargetTable]:
    live, shadow = prove_live(record, target), target.tables.describe(record.shadow)
    if shadow is None:
        raise CatalogDrift(f"{record.shadow} is gone")
    owner = target.tables.shadow_owner(record.shadow)
    if shadow.object_id != record.shadow_object_id or owner != record.run_key:
        raise CatalogDrift(f"{record.shadow} is not this campaign's shadow any more")
    return live, shadow
