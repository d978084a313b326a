"""`dpone state inspect` and `rewind`: where increments start, and the gated way back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpone_dagster.campaign.errors import DponeError, OutputUnwritable, UsageInvalid
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.evidence import put_evidence
from dpone_dagster.cli.looking import open_route, operator
from dpone_dagster.cli.report import Report, Table, command
from dpone_dagster.cli.targets import Wanted, manifest_of
from dpone_dagster.engine.checkpoint import CheckpointStatus, inspect_checkpoint
from dpone_dagster.engine.rewind import Rewind, RewindRequest, preview_rewind, rewind

_SHOWN = 20


@dataclass(frozen=True)
class Approval:
    """How a rewind was asked for.

    Attributes:
        yes: Whether `--yes` was given.
        approved_by: Who approved it; None if nobody is named.
        evidence: Where the evidence goes; None for nowhere but the answer.
    """

    yes: bool
    approved_by: str | None
    evidence: Path | None


def inspect_report(wanted: Wanted) -> Report:
    """Where the increments of a target stand."""
    return checkpoint_report(Asked(manifest_of(wanted)))


def checkpoint_report(manifest: Asked) -> Report:
    """Where the increments of a manifest stand."""
    status = inspect_checkpoint(*open_route(manifest))
    return Report(
        headline=_headline(status),
        data=status.as_dict(),
        tables=_tables(status),
        notes=tuple(_notes(status)),
        next_commands=(command("increment", "run", manifest),) if status.reason is None else (),
    )


def _notes(status: CheckpointStatus) -> Iterator[str]:
    if status.source_problem:
        yield f"The source did not say where it is: {status.source_problem}"
    if status.checkpoint is not None and not status.spec.increment.settles_deletes:
        yield (
            "Rows that are deleted in the source stay in the target: after the first increment nothing compares keys. "
            "Set dagster.incremental.reconcile_cron, or reconcile_deletes: always."
        )


def _headline(status: CheckpointStatus) -> str:
    spec = status.spec
    if status.checkpoint is None:
        return f"{spec.target}: no increment may run: {status.reason}"
    parts = [f"{spec.target}: checkpoint {status.checkpoint.anchor.xid}"]
    if status.lag_transactions is not None and status.lag_seconds is not None:
        parts.append(f"{status.lag_transactions:,} transactions and {status.lag_seconds:,.0f} s behind the source")
    if status.reason is not None:
        parts.append(f"no increment may run: {status.reason}")
    return ", ".join(parts)


def _tables(status: CheckpointStatus) -> tuple[Table, ...]:
    stored = status.checkpoint
    if stored is None:
        return ()
    facts = (
        ("handoff", stored.handoff_id),
        ("generation", stored.generation),
        ("publication receipt", stored.publication_receipt),
        ("anchor", f"{stored.anchor.xid}, taken {stored.anchor.taken_at.isoformat(sep=' ', timespec='seconds')}"),
        ("revision", str(stored.revision)),
        ("keys reconciled since handoff or rewind", "yes" if stored.reconciled else "no, the next increment does"),
    )
    tables = [Table(("", ""), facts)]
    if status.places:
        rows = tuple((str(place.xid), place.taken_at.isoformat(sep=" ")) for place in status.places[-_SHOWN:])
        tables.append(Table(("recorded anchor", "taken at"), rows, "Where it can be rewound to by date, oldest first"))
    return tuple(tables)


def rewind_report(wanted: Wanted, to: str, reason: str, approval: Approval) -> Report:
    """Rewind a checkpoint, or show what that would do: both `--yes` and `--approved-by` make it real.

    Args:
        wanted: The target.
        to: Where to.
        reason: Why.
        approval: Whether, by whom, and where the evidence goes.
    """
    if not reason.strip():
        raise UsageInvalid("a rewind needs a reason", next_step="Say why: --reason TEXT.")
    manifest = Asked(manifest_of(wanted))
    spec, connector = open_route(manifest)
    request = RewindRequest(to, reason, operator(), approval.approved_by or None)
    seen = preview_rewind(spec, connector, request)
    if approval.evidence is not None:
        _write(approval.evidence, seen)  # before anything is moved, for a move without evidence is none
    approved = approval.yes and request.approved_by is not None
    if approved:
        seen = rewind(spec, connector, request, f"rewind-{uuid.uuid4()}")
        if approval.evidence is not None:
            _write(approval.evidence, seen)
    return Report(
        headline=_rewind_line(seen),
        data=seen.as_dict(),
        tables=(Table(("", ""), _rewind_facts(seen)),),
        notes=_rewind_notes(seen, approval),
        next_commands=(command("increment", "run", manifest),) if seen.done else (),
    )


def _rewind_line(seen: Rewind) -> str:
    move = f"{seen.checkpoint.target}: checkpoint {seen.checkpoint.anchor.xid} → {seen.to.xid}"
    return move if seen.done else f"preview, nothing was changed. {move}"


def _rewind_facts(seen: Rewind) -> tuple[tuple[str, str], ...]:
    facts = seen.as_dict()
    shown = ("transactions_back", "transactions_to_read", "reason", "requested_by", "approved_by")
    return tuple((name.replace("_", " "), "-" if facts[name] is None else str(facts[name])) for name in shown)


def _rewind_notes(seen: Rewind, approval: Approval) -> tuple[str, ...]:
    notes = ["The next increment reads again every row changed since there, upserts it, and compares all keys."]
    if not seen.done:
        notes.append("It is done with --yes and --approved-by WHO, both.")
    if approval.evidence is not None:
        notes.append(f"Evidence: {approval.evidence}")
    return tuple(notes)


def _write(path: Path, seen: Rewind) -> None:
    """Put the evidence in place whole or not at all."""
    try:
        put_evidence(path, seen.as_dict())
    except OSError as error:
        problem = f"the evidence cannot be written to {path}: {error.strerror}"
        if seen.done:
            advice = "Keep this command's answer; the same facts stand in `__dpone__load_steps`."
            raise DponeError(f"the checkpoint was rewound, but {problem}", next_step=advice) from None
        raise OutputUnwritable(problem, next_step="Name a file that can be written: --evidence-output FILE.") from None
