"""Both kinds of manifests: a campaign's, and one of increments only. `sink.strategy.mode` tells them apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from dpone_dagster.campaign.increment_manifest import IncrementManifest
from dpone_dagster.campaign.manifest import Manifest, parsed

AnyManifest = Manifest | IncrementManifest


def parse_any(data: object) -> AnyManifest:
    """Read a manifest of either kind from plain data.

    Args:
        data: What the YAML says.

    Raises:
        ManifestInvalid: All that is wrong, each with its path; no value of an unknown key is repeated.
    """
    return parsed(data, IncrementManifest) if _merges(data) else parsed(data, Manifest)


def _merges(data: Any) -> bool:
    for key in ("sink", "strategy", "mode"):
        data = data.get(key) if isinstance(data, Mapping) else None
    return bool(data == "incremental_merge")


def schema_of_any() -> dict[str, Any]:
    """The JSON Schema of both kinds, for editors."""
    schema = TypeAdapter(AnyManifest).json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "dpone-dagster manifest"}
