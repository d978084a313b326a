"""The Dagster entry point: every manifest of `campaigns/`, or of DPONE_MANIFESTS, as definitions. Reads files only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from dagster import Definitions

from dpone_dagster.assets.names import asset_key
from dpone_dagster.campaign.errors import DponeError, Finding, ManifestInvalid
from dpone_dagster.campaign.handoffs import handoff_findings
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec
from dpone_dagster.campaign_definitions import (
    build_alerts,
    build_campaign,
    build_increments,
    build_initial_load,
    build_intervals,
)
from dpone_dagster.jobs import executor_for
from dpone_dagster.resources.connections import RESOURCE_NAME, DponeConnections
from dpone_dagster.settings import load_template, manifest_paths, project_root


def build_defs(environ: Mapping[str, str], root: Path, connections: DponeConnections | None = None) -> Definitions:
    """Definitions of all manifests.

    Args:
        environ: `DPONE_MANIFESTS` and `DPONE_EXECUTOR` are read from it.
        root: The folder whose `campaigns/` is looked into.
        connections: Opens connections when a step runs; by this process's environment if left out.

    Raises:
        ManifestInvalid: Any manifest is broken, or two name the same dataset; everything that is wrong in all of them.
    """
    opener = connections or DponeConnections()
    found = _read_all(manifest_paths(environ, root))
    # Partition backfills run under this executor; jobs bring the same with their own lanes.
    executor = executor_for([spec for _, spec in found], environ)
    shared = Definitions(executor=executor, resources={RESOURCE_NAME: opener})
    return Definitions.merge(shared, *_parts(found, opener), build_alerts([spec for _, spec in found], opener))


def _parts(found: list[tuple[Path, RouteSpec]], opener: DponeConnections) -> Iterator[Definitions]:
    """Each manifest's definitions; increments with a manifest of their own leave the campaign's."""
    campaigns = {s.handoff_id: s for _, s in found if isinstance(s, CampaignSpec) and s.handoff_id is not None}
    apart = {spec.handoff_id for _, spec in found if not isinstance(spec, CampaignSpec)}
    for path, spec in found:
        if not isinstance(spec, CampaignSpec):
            campaign = campaigns.get(spec.handoff_id or "")
            yield build_increments(spec, asset_key(campaign, "xmin_handoff") if campaign else None, opener)
        elif spec.interval is not None:
            yield build_intervals(spec, spec.interval, path, opener)
        elif spec.handoff_id is not None and spec.handoff_id in apart:
            yield build_initial_load(spec, path, opener)
        else:
            yield build_campaign(spec, path, opener)


def _read_all(paths: list[Path]) -> list[tuple[Path, RouteSpec]]:
    # One broken manifest fails the whole location, on purpose. Left out with a log line, its campaign would vanish
    # from the UI and its increments would stop without anybody being told. A location that does not load is seen at
    # once, and a rolling deployment keeps the one before; `dpone manifest check` finds the same before deploying.
    found: dict[str, tuple[Path, RouteSpec]] = {}
    findings: list[Finding] = []
    for path in paths:
        try:
            spec = load_template(path)
        except DponeError as error:
            findings += _findings_of(path, error)
            continue
        if spec.dataset in found:
            problem = f"the dataset `{spec.dataset}` is also that of {found[spec.dataset][0]}"
            findings.append(Finding(str(path), problem, "give one of them another `name`"))
        found[spec.dataset] = (path, spec)
    findings += handoff_findings([(str(path), spec) for path, spec in found.values()])
    if findings:
        raise ManifestInvalid("not all manifests of this project can be loaded", findings=findings)
    return list(found.values())


def _findings_of(path: Path, error: DponeError) -> list[Finding]:
    if not error.findings:
        return [Finding(str(path), error.message, error.advice)]
    return [Finding(f"{path}: {f.path}" if f.path else str(path), f.problem, f.advice) for f in error.findings]


defs = build_defs(os.environ, project_root(Path.cwd()))
