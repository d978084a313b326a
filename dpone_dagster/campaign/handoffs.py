"""Rules between the manifests of a project: a handoff id names one source, one target, and one set of increments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpone_dagster.campaign.errors import Finding
from dpone_dagster.campaign.spec import CampaignSpec, IncrementPolicy, RouteSpec

Named = tuple[str, RouteSpec]


def handoff_findings(found: Sequence[Named]) -> list[Finding]:
    """What is wrong between manifests that are right by themselves.

    Args:
        found: Each manifest's path and what it says.
    """
    by_id: dict[str, list[Named]] = {}
    for path, spec in found:
        if spec.handoff_id is not None:
            by_id.setdefault(spec.handoff_id, []).append((path, spec))
    return [finding for handoff_id, named in by_id.items() for finding in _shared(handoff_id, named)]


def _shared(handoff_id: str, named: list[Named]) -> Iterator[Finding]:
    (first, known), *others = named
    for path, spec in others:
        if (spec.source, spec.target) != (known.source, known.target):
            yield Finding(
                f"{path}: source.options.xmin_execution.handoff_id",
                f"`{handoff_id}` names {known.source} → {known.target} in {first}, not {spec.source} → {spec.target}",
                "use another handoff_id, or the same source and target",
            )
    increments = [entry for entry in named if not isinstance(entry[1], CampaignSpec)]
    for path, _ in increments[1:]:
        yield Finding(
            f"{path}: source.options.xmin_execution.handoff_id",
            f"the increments of `{handoff_id}` are those of {increments[0][0]} already",
            "keep one of the two",
        )
    for path, spec in named:
        if increments and isinstance(spec, CampaignSpec) and spec.increment != IncrementPolicy():
            yield Finding(
                f"{path}: dagster.incremental",
                f"the increments of `{handoff_id}` have a manifest of their own, {increments[0][0]}",
                "leave it out here, or take that manifest away",
            )
