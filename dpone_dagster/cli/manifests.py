"""`dpone manifest`: check files, print the schema."""

from __future__ import annotations

import json
import os
from pathlib import Path

from dpone_dagster.campaign.errors import Finding, ManifestInvalid, Refused
from dpone_dagster.campaign.handoffs import handoff_findings
from dpone_dagster.campaign.manifests import schema_of_any
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec
from dpone_dagster.cli.report import Report, Table, command
from dpone_dagster.settings import load_template, manifest_paths, project_root


def check_report(paths: tuple[Path, ...]) -> Report:
    """Read every manifest.

    Args:
        paths: The files; all that this project serves if empty.

    Raises:
        ManifestInvalid: One or more are wrong; each finding names its file.
    """
    chosen = list(paths) or manifest_paths(os.environ, project_root(Path.cwd()))
    rows: list[tuple[str, ...]] = []
    findings: list[Finding] = []
    served: list[tuple[str, RouteSpec]] = []
    for path in chosen:
        try:
            spec = load_template(path)
        except Refused as error:
            said = error.findings or (Finding("", error.message, error.advice),)
            findings += [Finding(f"{path}: {f.path}" if f.path else str(path), f.problem, f.advice) for f in said]
            continue
        chunks = str(spec.plan.count) if isinstance(spec, CampaignSpec) else ""
        rows.append((str(path), spec.dataset, chunks, f"{spec.source} → {spec.target}"))
        served.append((str(path), spec))
    findings += handoff_findings(served)
    if findings:
        raise ManifestInvalid(_counted(len(findings), "finding") + f" in {len(chosen)} manifest(s)", findings=findings)
    return Report(
        headline=_counted(len(chosen), "manifest") + ", nothing wrong" if chosen else "no manifest in campaigns/",
        data={"manifests": [dict(zip(("path", "dataset", "chunks", "route"), row, strict=True)) for row in rows]},
        tables=(Table(("manifest", "dataset", "chunks", "route"), tuple(rows)),) if rows else (),
        next_commands=tuple(command(*_look(row[2]), row[0]) for row in rows[:3]),
    )


def _look(chunks: str) -> tuple[str, str]:
    return ("backfill", "plan") if chunks else ("increment", "status")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def schema_text() -> str:
    """The manifest's JSON Schema."""
    return json.dumps(schema_of_any(), indent=2)
