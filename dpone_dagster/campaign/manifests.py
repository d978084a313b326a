"""Both kinds of manifests: a campaign's, and one of increments only. `sink.strategy.mode` tells them apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from dpone_dagster.campaign.errors import Finding, ManifestInvalid
from dpone_dagster.campaign.increment_manifest import IncrementManifest
from dpone_dagster.campaign.interval import resolved
from dpone_dagster.campaign.manifest import Manifest, parsed
from dpone_dagster.campaign.manifest_modes import interval_findings
from dpone_dagster.campaign.manifest_paths import at
from dpone_dagster.campaign.manifest_rules import loads_once
from dpone_dagster.campaign.overrides import AS_WRITTEN, RunOptions, overridden

AnyManifest = Manifest | IncrementManifest


def parse_any(data: object, options: RunOptions = AS_WRITTEN) -> AnyManifest:
    """Read a manifest of either kind from plain data.

    Args:
        data: What the YAML says.
        options: What a command puts in place of it, and what its tokens stand for.

    Raises:
        IntervalInvalid: A window of whole days is asked for a part of a day.
        ManifestInvalid: All that is wrong, each with its path; no value of an unknown key is repeated.
    """
    if at(data, "sink.strategy.mode") == "incremental_merge":
        _prove_no_overrides(options)
        return parsed(data, IncrementManifest)
    if isinstance(data, Mapping) and (findings := list(interval_findings(data))):
        raise ManifestInvalid("the manifest has no intervals to load", findings=findings)
    changed = overridden(data, options.overrides)
    if isinstance(changed, Mapping) and not loads_once(changed):
        changed = resolved(changed, options.interval)
    return parsed(changed, Manifest)


def _prove_no_overrides(options: RunOptions) -> None:
    of_a_campaign = [name for name in options.overrides if name != "state_dir"]  # evidence goes there too
    if of_a_campaign:
        findings = [Finding(name, "is a campaign's, and this manifest has increments only") for name in of_a_campaign]
        raise ManifestInvalid(
            "the flags do not fit the manifest", findings=findings, next_step="Leave the named flags out."
        )


def schema_of_any() -> dict[str, Any]:
    """The JSON Schema of both kinds, for editors."""
    schema = TypeAdapter(AnyManifest).json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "dpone-dagster manifest"}
