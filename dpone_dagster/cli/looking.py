"""`dpone backfill status` and `doctor`: look at a campaign's state in the database."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from dpone_dagster.campaign.errors import Finding
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.display import clock
from dpone_dagster.cli.report import Report, Table, advised, pasteable
from dpone_dagster.cli.slots import slot_warnings
from dpone_dagster.cli.terminal import waiting
from dpone_dagster.connections import Connections
from dpone_dagster.engine import inspect
from dpone_dagster.engine.complete import DIFFERING, FIRST_OTHER_DIGESTS, OTHER_DIGESTS
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.inspect import CampaignStatus
from dpone_dagster.ports.target import Connector
from dpone_dagster.settings import dagster_home, load_route, load_spec
from dpone_dagster.wiring import open_connector

_VERIFIED = ("digested_chunks", DIFFERING, OTHER_DIGESTS, FIRST_OTHER_DIGESTS)


def open_campaign(manifest: Asked) -> tuple[CampaignSpec, Connector]:
    """The campaign of a manifest and what opens its connections, by this process's environment."""
    spec = load_spec(manifest.path, manifest.options)
    return spec, open_connector(spec, Connections.from_environment(os.environ))


def open_route(manifest: Asked) -> tuple[RouteSpec, Connector]:
    """As `open_campaign`, also for a manifest of increments only."""
    spec = load_route(manifest.path, manifest.options)
    return spec, open_connector(spec, Connections.from_environment(os.environ))


def operator() -> str:
    """Who gives the command: `user@host`."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def status_report(manifest: Asked) -> Report:
    """Where the campaign stands."""
    return report_of(inspect.status(*open_campaign(manifest)), manifest)


def report_of(status: CampaignStatus, manifest: Asked) -> Report:
    """A status as a report."""
    action = _action(status, manifest)
    tables = [_publication_table(status)]
    if status.failed:
        rows = tuple(
            (
                str(c.index),
                str(c.effective_state),
                str(c.tries),
                c.error_code or "",
                c.error or "",
                pasteable(status.advice_on(c), manifest),
            )
            for c in status.failed
        )
        tables.append(Table(("chunk", "state", "tries", "code", "error", "advice"), rows))
    if status.holders:
        tables.append(Table(("held by",), tuple((str(holder),) for holder in status.holders)))
    notes, commands = advised(action, manifest)
    if status.findings:
        tables.append(Table(("where", "what", "advice"), _rows(status.findings, manifest)))
    return Report(
        headline=headline(status),
        heartbeat=heartbeat(status),
        data={**status.as_dict(), "backfill": backfill_dict(status, manifest), "recommended_action": action},
        tables=tuple(tables),
        notes=(*window_notes(status.spec, manifest), *notes),
        next_commands=commands,
    )


def _action(status: CampaignStatus, manifest: Asked) -> str:
    """The one thing to do next; where flags have made another plan, that they have."""
    if status.drift and manifest.options.plan_changes:
        return manifest.another_plan
    return pasteable(status.recommended_action, manifest)


def backfill_dict(status: CampaignStatus, manifest: Asked) -> dict[str, object]:
    """The `backfill` object of the public JSON, with what this command knows besides."""
    facts = status.backfill_dict()
    publication = {**status.publication_dict(), "recommended_action": _action(status, manifest)}
    return {**facts, "publication": publication, "interval": manifest.options.interval.as_dict()}


def heartbeat(status: CampaignStatus) -> str:
    """How far, how fast, since when, in one line; nothing for a campaign that was never prepared."""
    progress, record = status.progress, status.record
    if record is None:
        return ""
    counts = ((_running(status), progress.running), ("pending", progress.pending), ("failed", progress.failed))
    parts = ["nobody works on it"] if status.unattended else []
    parts += [f"{number:,} {word}" for word, number in counts if number]
    if progress.committed and not status.unattended:
        parts.append(f"{progress.rows_per_second:,.0f} rows/s")
    if progress.remaining and progress.running and not status.unattended and (eta := progress.eta_seconds):
        parts.append(f"{clock(eta)} to go")
    if record.updated_at is not None:
        parts.append(f"campaign last moved {record.updated_at:%Y-%m-%d %H:%M:%S%z}")
    return ", ".join(parts)


def window_notes(spec: CampaignSpec, manifest: Asked) -> tuple[str, ...]:
    """What the campaign's window leaves out, if it leaves anything out."""
    return (pasteable(spec.window, manifest),) if spec.window else ()


def headline(status: CampaignStatus) -> str:
    """The campaign in one line."""
    progress = status.progress
    parts = [f"{progress.committed:,} of {progress.total:,} chunks", f"{progress.rows_loaded:,} rows"]
    parts += [f"{number} {word}" for word, number in _unusual(status) if number]
    if status.record and status.record.stop_reason and status.phase is not Phase.CANCELLED:
        parts.append(status.record.stop_reason if status.rollback else f"stopped: {status.record.stop_reason}")
    return f"{status.spec.dataset}: {status.phase}, {', '.join(parts)}"


def _unusual(status: CampaignStatus) -> tuple[tuple[str, int], ...]:
    progress = status.progress
    left = (_running(status), progress.running)
    return left, ("failed", progress.failed), ("lease expired", progress.lease_expired)


def _running(status: CampaignStatus) -> str:
    """What chunks are whose lease is alive: with nobody at work, those that the dead had in hand."""
    return "left in hand" if status.unattended else "running"


def _publication_table(status: CampaignStatus) -> Table:
    facts = status.publication_dict()
    shown = (
        "target", "shadow", "backup", "validation", "expected_rows", "actual_rows", "duplicate_keys", "receipt_id",
        "retained",
    )  # fmt: skip
    rows = [(name.replace("_", " "), _shown(facts[name])) for name in shown if facts[name] is not None]
    return Table(("", ""), (*_cancel_rows(status), *rows, *_verification_rows(status.verification_dict())))


def _cancel_rows(status: CampaignStatus) -> Iterator[tuple[str, str]]:
    if status.record and status.phase is Phase.CANCELLED:
        yield "cancelled by", f"{status.record.cancel_requested_by}: {status.record.cancel_reason}"


def _verification_rows(facts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """How read and written rows compare, where anything but their number was compared or something differs."""
    if facts["status"] != "warning" and (facts["compared"] != "digest" or facts["digested_chunks"] is None):
        return
    numbers = {name: facts[name] for name in _VERIFIED if facts[name]}
    told = (f"{_shown(number)} {name.replace('_', ' ')}" for name, number in numbers.items())
    yield "verification", f"{facts['compared']} {facts['status']}: {', '.join(told)}"


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _rows(findings: Iterable[Finding], manifest: Asked) -> tuple[tuple[str, str, str], ...]:
    return tuple((f.path, f.problem, pasteable(f.advice, manifest)) for f in findings)


def doctor_report(manifest: Asked) -> Report:
    """What is wrong and what to do next."""
    spec, connector = open_campaign(manifest)
    with waiting(f"{spec.dataset}: looking at servers, tables and state"):
        diagnosis = doctor(spec, connector)
        warnings = (*diagnosis.warnings, *slot_warnings(dagster_home(), spec.lanes))
    number = len(diagnosis.findings)
    found = "nothing wrong" if not number else f"{number} finding{'s' if number > 1 else ''}"
    drifted = diagnosis.status is not None and diagnosis.status.drift and manifest.options.plan_changes
    action = manifest.another_plan if drifted else pasteable(diagnosis.next_action, manifest)
    notes, commands = advised(action, manifest)
    shown = (("where", _rows(diagnosis.findings, manifest)), ("in nobody's way", _rows(warnings, manifest)))
    seen = report_of(diagnosis.status, manifest).data if diagnosis.status else None
    if warnings:
        found += f", {len(warnings)} warning{'s' if len(warnings) > 1 else ''}"
    where = f" ({headline(diagnosis.status)})" if diagnosis.status else ""
    return Report(
        headline=f"{spec.dataset}: {found}{where}",
        heartbeat=heartbeat(diagnosis.status) if diagnosis.status else "",
        data={
            **replace(diagnosis, warnings=warnings).as_dict(),
            "status": seen,
            "backfill": seen["backfill"] if seen else None,
            "next_action": action,
        },
        tables=tuple(Table((where, "what", "advice"), lines) for where, lines in shown if lines),
        notes=(*diagnosis.notes, *notes),
        next_commands=commands,
        exit_code=1 if number else 0,
    )
