"""Rollback: one transaction that swaps the retained backup back in and writes a receipt of its own."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from dpone_dagster.campaign.errors import CatalogDrift, DponeError, GenerationStale, RollbackRefused
from dpone_dagster.campaign.ledger import FINISHED, CampaignRecord, Phase
from dpone_dagster.campaign.names import TableRef, rolled_back_name
from dpone_dagster.campaign.receipts import Approval, PublicationReceipt
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.campaign.watermark import Checkpoint
from dpone_dagster.engine.advice import advice_for_commands
from dpone_dagster.engine.audit import audited
from dpone_dagster.engine.generation import is_generation
from dpone_dagster.engine.publish import LOCK_WAIT_SECONDS, until_unblocked
from dpone_dagster.engine.sessions import existing_campaign, target_session
from dpone_dagster.faultpoints import reach
from dpone_dagster.ports.tables import TargetTable
from dpone_dagster.ports.target import Connector, Target

_UNDO = "Undo the change, then `dpone backfill rollback MANIFEST` again."


@dataclass(frozen=True)
class RollbackPlan:
    """What a rollback would do.

    Attributes:
        record: The campaign.
        publication: Its receipt.
        head: The target's latest receipt: the publication, or the rollback of a later one.
        rolled_back: What the table that is live now is called afterwards; nothing is dropped.
        checkpoint: Where increments go on afterwards; None if they are skipped.
    """

    record: CampaignRecord
    publication: PublicationReceipt
    head: PublicationReceipt
    rolled_back: TableRef
    checkpoint: Checkpoint | None

    def as_dict(self) -> Mapping[str, object]:
        """The public JSON of the preview."""
        return {
            "target": str(self.record.target),
            "publication_receipt": self.publication.receipt_id,
            "published_at": str(self.publication.published_at),
            "backup": str(self.record.backup),
            "rolled_back": str(self.rolled_back),
            "checkpoint": None if self.checkpoint is None else str(self.checkpoint.anchor.taken_at),
        }


def preview_rollback(spec: CampaignSpec, connector: Connector) -> RollbackPlan:
    """What `rollback` would do now. Locks nothing, changes nothing.

    Args:
        spec: The campaign.
        connector: Opens the connection.

    Raises:
        RollbackRefused, GenerationStale, CatalogDrift: As `rollback` would.
    """
    with target_session(connector, "rollback preview") as target:
        plan = _plan(existing_campaign(spec, target), target)
        _prove_tables(plan, target)
        return plan


def rollback(spec: CampaignSpec, connector: Connector, approval: Approval) -> PublicationReceipt:
    """Swap the backup back in: live → its rolled-back name, backup → live, and a receipt. Nothing is dropped.

    With the receipt the checkpoint of the backup's generation counts again: an increment comes before or after, never
    in between.

    Args:
        spec: The campaign.
        connector: Opens the connection.
        approval: Who answers for it, and why it is made.

    Returns:
        The rollback's receipt.

    Raises:
        RollbackRefused: Not published, rolled back already, the backup is gone, or a later publication is live.
        GenerationStale: The live table or the backup is not the one that the receipts name.
        CatalogDrift: One of them was altered since.
        PublicationBlocked: A session keeps the tables; may be tried again.
        CampaignActive: Another session holds the campaign.
    """
    receipt_id = uuid.uuid4().hex
    with advice_for_commands():
        return until_unblocked(
            spec,
            connector,
            "rollback",
            lambda target: _once(spec, target, approval, receipt_id),
            lambda target: target.publications.receipt(receipt_id),
        )


def _once(spec: CampaignSpec, target: Target, approval: Approval, receipt_id: str) -> PublicationReceipt:
    with audited(spec, target, receipt_id, "campaign", "rollback") as facts:
        with target.transaction():
            receipt = _swap_back(existing_campaign(spec, target), target, approval, receipt_id)
            reach("before_rollback_commit")
        reach("after_rollback_commit")
        facts.update(receipt_id=receipt_id, rows=receipt.actual_rows, approved_by=approval.approved_by)
    done = target.publications.receipt(receipt_id)
    if done is None:
        raise DponeError(f"the rollback {receipt_id} has no receipt")
    return done


def _swap_back(record: CampaignRecord, target: Target, approval: Approval, receipt_id: str) -> PublicationReceipt:
    target.fence.lock_target(record.target, LOCK_WAIT_SECONDS)
    target.fence.lock_publication(record.target, LOCK_WAIT_SECONDS)
    plan = _plan(record, target)
    target.tables.lock_table(record.backup, LOCK_WAIT_SECONDS)
    rows = target.tables.count(record.backup)
    if not target.ledger.move(record.run_key, FINISHED, Phase.ROLLED_BACK, stop_reason=str(approval)):
        raise RollbackRefused(f"campaign {record.dataset} was moved while it was being rolled back")
    target.tables.lock_table(record.target, LOCK_WAIT_SECONDS)
    live, backup = _prove_tables(plan, target)
    # A table that no campaign had published bears no generation yet; from now on it has one, without a checkpoint.
    generation = record.live_generation or str(uuid.uuid4())
    target.tables.swap(live, backup, plan.rolled_back, generation)
    receipt = PublicationReceipt(
        receipt_id=receipt_id,
        target=str(record.target),
        sequence=plan.head.sequence + 1,
        kind="rollback",
        run_key=record.run_key,
        generation=generation,
        predecessor_receipt=plan.head.receipt_id,
        live_object_id=record.live_object_id,
        backup=str(plan.rolled_back),
        expected_rows=rows,
        actual_rows=rows,
        object_contract_sha256=record.object_contract_sha256,
        head="closed",
        handoff_id=None,
        approved_by=approval.approved_by,
        reason=approval.reason,
    )
    target.publications.record(receipt)
    target.publications.reopen_checkpoint(record.target, generation)
    return receipt


def _plan(record: CampaignRecord, target: Target) -> RollbackPlan:
    """The history allows it: this campaign's table is live, and its backup was not dropped."""
    if record.phase is Phase.ROLLED_BACK:
        raise RollbackRefused(f"campaign {record.dataset} was {record.stop_reason} already")
    if record.direct:
        raise RollbackRefused(
            f"campaign {record.dataset} is `direct`: it wrote into {record.target}, so there is no table from before",
            next_step="Load the range as it should be, with a new `backfill_id`; or restore the table from a backup of "
            "the database.",
        )
    publication = target.publications.of_campaign(record.run_key)
    head = target.publications.head(record.target)
    if record.phase not in FINISHED or publication is None or head is None:
        raise RollbackRefused(f"campaign {record.dataset} is {record.phase}, not published: there is nothing to undo")
    if head.generation != publication.generation:
        raise RollbackRefused(
            f"{record.target} was published by campaign {head.run_key[:12]} since (publication {head.sequence})",
            next_step="Roll back the later publication first, with its own manifest.",
        )
    if publication.backup_dropped_at is not None:
        raise RollbackRefused(
            f"the backup {record.backup} was dropped on {publication.backup_dropped_at:%Y-%m-%d %H:%M:%S%z}, approved "
            f"by {publication.backup_dropped_by}"
        )
    rolled_back = record.target.sibling(rolled_back_name(record.target, record.run_key))
    generation = record.live_generation
    checkpoint = None if generation is None else target.publications.checkpoint(record.target, generation)
    return RollbackPlan(record, publication, head, rolled_back, checkpoint)


def _prove_tables(plan: RollbackPlan, target: Target) -> tuple[TargetTable, TargetTable]:
    """Live table and backup are the objects, the generations and the shape that the receipts name."""
    record, publication = plan.record, plan.publication
    live, backup = target.tables.describe(record.target), target.tables.describe(record.backup)
    if live is None or not is_generation(live, publication.live_object_id, publication.generation, target.tables):
        raise GenerationStale(f"{record.target} is not the table of publication {publication.receipt_id} any more")
    if backup is None or not is_generation(backup, record.live_object_id, record.live_generation, target.tables):
        raise GenerationStale(f"{record.backup} is not the table that was live before any more")
    for table in (live, backup):
        if table.sha256 != publication.object_contract_sha256:
            problem = f"{table.table} was altered since publication {publication.receipt_id}"
            raise CatalogDrift(problem, next_step=_UNDO)
    if live.findings:
        problem = f"{record.target} gained something that a swap would lose"
        raise CatalogDrift(problem, findings=live.findings, next_step=_UNDO)
    return live, backup
