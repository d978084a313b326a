"""The shipped example as plain data, to be changed by tests that need no server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders.yaml"


def manifest_of(*, chunks: int, lanes: int) -> dict[str, Any]:
    """The orders manifest with so many chunks and lanes, and nothing under `dagster`."""
    manifest: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    backfill = manifest["sink"]["strategy"]["backfill"]
    backfill["parallel_workers"] = lanes
    backfill["chunk"]["buckets"] = chunks
    del manifest["dagster"]
    return manifest
