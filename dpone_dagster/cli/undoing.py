"""`dpone backfill cancel`, `rollback` and `drop-backup`: stop it, undo it, or make that impossible."""

from __future__ import annotations

from dpone_dagster.campaign.receipts import Approval
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.looking import open_campaign
from dpone_dagster.cli.report import Report, Table, command
from dpone_dagster.engine.cancel import cancel
from dpone_dagster.engine.dropbackup import drop_backup, preview_drop
from dpone_dagster.engine.rollback import preview_rollback, rollback


def cancel_report(manifest: Asked, reason: str, requested_by: str) -> Report:
    """Cancel and report what is recorded."""
    spec, connector = open_campaign(manifest)
    record = cancel(spec, connector, reason, requested_by)
    return Report(
        headline=f"{spec.dataset} is cancelled by {record.cancel_requested_by}: {record.cancel_reason}",
        data={
            "phase": str(record.phase),
            "requested_by": record.cancel_requested_by,
            "reason": record.cancel_reason,
        },
        notes=(
            f"Lanes at work finish the chunk in hand, for at most {spec.drain_timeout_seconds:,} s, and claim no more.",
            "What is committed stays committed; `run` is refused from now on, `resume` takes the campaign up again.",
        ),
        next_commands=(command("backfill", "status", manifest), command("backfill", "resume", manifest)),
    )


def rollback_preview(manifest: Asked) -> Report:
    """What a rollback would do now."""
    plan = preview_rollback(*open_campaign(manifest))
    target = plan.record.target
    after = "they are skipped: the table before has no checkpoint"
    if plan.checkpoint is not None:
        since = f"{plan.checkpoint.anchor.taken_at:%Y-%m-%d %H:%M:%S%z}"
        after = f"they go on from {since}, and the first one compares all keys"
    rows = (
        (str(target), f"becomes {plan.rolled_back}, and is kept"),
        (str(plan.record.backup), f"becomes {target}"),
        ("increments", after),
        ("the campaign", "is over: a new one needs a new backfill_id"),
    )
    return Report(
        headline=f"preview, nothing was touched. Publication {plan.publication.receipt_id} of {target} can be undone",
        data={"preview": True, **plan.as_dict()},
        tables=(Table(("what", "a rollback would do"), rows),),
        next_commands=(
            command("backfill", "rollback", manifest, "--yes", "--approved-by", "NAME", "--reason", "TEXT"),
        ),
    )


def rollback_report(manifest: Asked, approved_by: str, reason: str) -> Report:
    """Roll back and report the receipt."""
    receipt = rollback(*open_campaign(manifest), Approval(approved_by, reason))
    return Report(
        headline=f"{receipt.target} is again what it was before: {receipt.actual_rows:,} rows, receipt "
        f"{receipt.receipt_id}",
        data={
            "preview": False,
            "target": receipt.target,
            "receipt_id": receipt.receipt_id,
            "sequence": receipt.sequence,
            "rolled_back": receipt.backup,
            "rows": receipt.actual_rows,
            "approved_by": receipt.approved_by,
            "reason": receipt.reason,
            "rolled_back_at": str(receipt.published_at),
        },
        notes=(f"What was live is kept as {receipt.backup}.",),
        next_commands=(command("backfill", "status", manifest),),
    )


def drop_preview(manifest: Asked) -> Report:
    """What `drop-backup` would drop now."""
    backup = preview_drop(*open_campaign(manifest))
    return Report(
        headline=f"preview, nothing was touched. {backup.table} would be dropped",
        data={"preview": True, **backup.as_dict()},
        notes=(f"Receipt {backup.receipt.receipt_id} retains it. Once it is gone it cannot be swapped back in.",),
        next_commands=(command("backfill", "drop-backup", manifest, "--yes", "--approved-by", "NAME"),),
    )


def drop_report(manifest: Asked, approved_by: str) -> Report:
    """Drop the retained table and report what was recorded."""
    receipt = drop_backup(*open_campaign(manifest), approved_by)
    return Report(
        headline=f"{receipt.backup} is dropped",
        data={
            "preview": False,
            "backup": receipt.backup,
            "receipt_id": receipt.receipt_id,
            "dropped_by": receipt.backup_dropped_by,
            "dropped_at": str(receipt.backup_dropped_at),
        },
        next_commands=(command("backfill", "status", manifest),),
    )
