"""Drop a backup: the one place where a table that held rows is dropped, and only on somebody's word."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from dpone_dagster.campaign.errors import BackupRefused, DponeError
from dpone_dagster.campaign.ledger import CampaignRecord
from dpone_dagster.campaign.names import TableRef, rolled_back_name
from dpone_dagster.campaign.receipts import PublicationReceipt
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.advice import advice_for_commands
from dpone_dagster.engine.audit import audited
from dpone_dagster.engine.generation import is_generation
from dpone_dagster.engine.publish import LOCK_WAIT_SECONDS, until_unblocked
from dpone_dagster.engine.sessions import existing_campaign, target_session
from dpone_dagster.faultpoints import reach
from dpone_dagster.ports.target import Connector, Target

_NOTHING = "Nothing is left to drop: `dpone backfill status MANIFEST` shows what the campaign retains."


@dataclass(frozen=True)
class Backup:
    """The table that a campaign retains, as its latest receipt has it.

    After a publication that is the table that was live before; after a rollback, the campaign's own table.

    Attributes:
        record: The campaign.
        receipt: The receipt that names the table.
        table: The table.
        object_id: Its object id.
        generation: Its generation, None for nobody's.
    """

    record: CampaignRecord
    receipt: PublicationReceipt
    table: TableRef
    object_id: int
    generation: str | None

    def as_dict(self) -> Mapping[str, object]:
        """The public JSON of the preview."""
        return {
            "target": str(self.record.target),
            "backup": str(self.table),
            "receipt_id": self.receipt.receipt_id,
            "kind": self.receipt.kind,
            "rollback_possible_afterwards": False,
        }


def preview_drop(spec: CampaignSpec, connector: Connector) -> Backup:
    """What `drop_backup` would drop now. Locks nothing, changes nothing.

    Args:
        spec: The campaign.
        connector: Opens the connection.

    Raises:
        BackupRefused: As `drop_backup` would.
    """
    with target_session(connector, "drop preview") as target:
        backup = _retained(existing_campaign(spec, target), target)
        _prove_not_live(backup, target)
        return backup


def drop_backup(spec: CampaignSpec, connector: Connector, approved_by: str) -> PublicationReceipt:
    """Drop the table that the campaign retains, and record who approved it. No rollback is possible afterwards.

    Args:
        spec: The campaign.
        connector: Opens the connection.
        approved_by: Who answers for it.

    Returns:
        The receipt that named the table, with when and by whom it was dropped.

    Raises:
        BackupRefused: No receipt names one, it was dropped before, it is not the table that the receipt names, it is
            live, or something depends on it.
        PublicationBlocked: A session keeps the table; may be tried again.
        CampaignActive: Another session holds the campaign.
    """
    drop_id = uuid.uuid4().hex
    with advice_for_commands():
        return until_unblocked(
            spec,
            connector,
            "drop backup",
            lambda target: _once(spec, target, approved_by, drop_id),
            lambda target: _dropped(spec, target, approved_by),
        )


def _once(spec: CampaignSpec, target: Target, approved_by: str, drop_id: str) -> PublicationReceipt:
    record = existing_campaign(spec, target)
    with audited(spec, target, drop_id, "campaign", "drop_backup") as facts:
        with target.transaction():
            backup = _drop(record, target, approved_by)
            reach("before_drop_commit")
        reach("after_drop_commit")
        facts.update(backup=str(backup.table), approved_by=approved_by)
    dropped = target.publications.receipt(backup.receipt.receipt_id)
    if dropped is None:
        raise DponeError(f"the receipt {backup.receipt.receipt_id} vanished")
    return dropped


def _dropped(spec: CampaignSpec, target: Target, approved_by: str) -> PublicationReceipt | None:
    """The campaign's latest receipt, if its table was dropped on this word."""
    run_key = existing_campaign(spec, target).run_key
    receipt = target.publications.of_campaign(run_key, "rollback") or target.publications.of_campaign(run_key)
    return receipt if receipt is not None and receipt.backup_dropped_by == approved_by else None


def _drop(record: CampaignRecord, target: Target, approved_by: str) -> Backup:
    target.fence.lock_target(record.target, LOCK_WAIT_SECONDS)
    target.fence.lock_publication(record.target, LOCK_WAIT_SECONDS)
    backup = _retained(record, target)
    _prove_not_live(backup, target)
    target.tables.lock_table(backup.table, LOCK_WAIT_SECONDS)
    _prove_not_live(backup, target)
    target.tables.drop(backup.table)
    if not target.publications.record_drop(backup.receipt.receipt_id, approved_by):
        raise DponeError(f"the drop of {backup.table} was recorded by somebody else under the target's lock")
    return backup


def _retained(record: CampaignRecord, target: Target) -> Backup:
    """What the campaign's latest receipt retains."""
    if record.direct:
        raise BackupRefused(
            f"campaign {record.dataset} is `direct`: it wrote into {record.target}, so there is none",
            next_step=_NOTHING,
        )
    publication = target.publications.of_campaign(record.run_key)
    if publication is None:
        raise BackupRefused(
            f"campaign {record.dataset} is {record.phase}, not published: it retains no backup", next_step=_NOTHING
        )
    rollback = target.publications.of_campaign(record.run_key, "rollback")
    receipt = rollback or publication
    if receipt.backup_dropped_at is not None:
        raise BackupRefused(
            f"{receipt.backup} was dropped on {receipt.backup_dropped_at:%Y-%m-%d %H:%M:%S%z} already, approved by "
            f"{receipt.backup_dropped_by}",
            next_step=_NOTHING,
        )
    if rollback is None:
        return Backup(record, receipt, record.backup, record.live_object_id, record.live_generation)
    own = record.target.sibling(rolled_back_name(record.target, record.run_key))
    return Backup(record, receipt, own, record.shadow_object_id, publication.generation)


def _prove_not_live(backup: Backup, target: Target) -> None:
    """The table of this name is the one that the receipt names, and another one is live."""
    table, live = target.tables.describe(backup.table), target.tables.describe(backup.record.target)
    if table is None:
        raise BackupRefused(f"{backup.table} is gone, and no receipt says who dropped it")
    if str(backup.table) != backup.receipt.backup:
        raise BackupRefused(f"receipt {backup.receipt.receipt_id} names {backup.receipt.backup}, not {backup.table}")
    if not is_generation(table, backup.object_id, backup.generation, target.tables):
        raise BackupRefused(f"{backup.table} is not the table that receipt {backup.receipt.receipt_id} retains")
    head = target.publications.head(backup.record.target)
    if live is None or live.object_id == table.object_id or head is None or head.live_object_id == table.object_id:
        raise BackupRefused(f"{backup.table} is not proven to be out of use: {backup.record.target} may be it")
