"""`dpone backfill plan --advisor`: what the evidence says about step and lanes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dpone_dagster.campaign.advisor import Advice, Profile, advise
from dpone_dagster.campaign.errors import DponeError, EvidenceInvalid, Finding
from dpone_dagster.campaign.evidence import FORMS, Evidence, read_evidence
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.looking import open_campaign
from dpone_dagster.cli.plan import plan_report
from dpone_dagster.cli.report import Report, Table, command, pasteable
from dpone_dagster.engine.advise import ledger_evidence
from dpone_dagster.settings import load_spec

_FLAGS = {"step": "--step", "buckets": "--buckets", "parallel_workers": "--parallel-workers"}


def advised_plan_report(manifest: Asked, profile: Profile, files: tuple[Path, ...]) -> Report:
    """The plan, and what the advisor says of it. Changes nothing.

    Args:
        manifest: What is asked for.
        profile: Whom to spare.
        files: Evidence besides the campaign's own ledger.

    Raises:
        EvidenceInvalid: A file cannot be read.
    """
    report = plan_report(manifest)
    seen, notes = Evidence(), []
    for path in files:
        seen = seen.and_(_read(path))
    try:
        seen = seen.and_(ledger_evidence(*open_campaign(manifest)))
    except DponeError as error:
        notes.append(f"The campaign's ledger was not looked at: {error.code}: {error.message}")
    spec = load_spec(manifest.path, manifest.options)
    advice = advise(spec, profile, seen)
    return replace(
        report,
        heartbeat=_line(advice),
        data={**report.data, "advisor": advice.as_dict()},
        tables=(Table(("", ""), tuple(_rows(advice))),),
        notes=(*(pasteable(warning, manifest) for warning in advice.warnings), *notes),
        next_commands=(_tried(advice, spec, manifest),) if advice.overrides else report.next_commands,
    )


def _line(advice: Advice) -> str:
    return f"advisor ({advice.profile}): {advice.recommendation.replace('_', ' ')}, risk {advice.risk}"


def _rows(advice: Advice) -> Iterator[tuple[str, str]]:
    yield from ((path, str(value)) for path, value in advice.overrides.items())
    yield "lanes at most", str(advice.lanes)
    yield "evidence", ", ".join(advice.evidence.sources) or "none"
    for name, value in advice.evidence.as_dict().items():
        if value:
            yield name.replace("_", " "), json.dumps(value) if isinstance(value, dict) else str(value)


def _tried(advice: Advice, spec: CampaignSpec, manifest: Asked) -> str:
    """The plan with what is recommended; where that makes other chunks, of a campaign with another pinned id."""
    flags = {_FLAGS[path.rpartition(".")[2]]: str(value) for path, value in advice.overrides.items()}
    wider = advice.step or advice.buckets
    if wider is not None and spec.backfill_id is not None:
        flags["--backfill-id"] = f"{spec.backfill_id}_{wider}"
    return command("backfill", "plan", manifest.retyped(flags))


def _read(path: Path) -> Evidence:
    try:
        return read_evidence(json.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError):
        problem = "is not JSON"
    raise EvidenceInvalid("the evidence cannot be read", findings=[Finding(str(path), problem, f"give JSON: {FORMS}")])
