"""The manifests of our own contenders: a shadow campaign, and chunks merged straight into the live table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks.cases import MERGE, Case
from benchmarks.tables import LIVE, SOURCE_SCHEMA, source_name

SOURCE_REF, TARGET_REF = "bench_source", "bench_target"
STATE_SCHEMA = "system"
_HANDOFF = {"incremental_strategy": "xmin", "xmin_execution": {"mode": "initial", "handoff_id": "bench_v1"}}


def write_manifest(case: Case, contender: str, file: Path) -> None:
    """Write the manifest of a case.

    Args:
        case: It.
        contender: `ours` or `merge`; the wire takes its ranges from that of `ours`.
        file: Where.
    """
    file.write_text(yaml.safe_dump(manifest(case, contender), sort_keys=False))


def manifest(case: Case, contender: str) -> dict[str, Any]:
    """As `write_manifest` writes it."""
    kind = "postgres" if case.route == "pg" else "mssql"
    merge = contender == MERGE
    source: dict[str, Any] = {
        "type": "postgres",
        "connection_ref": SOURCE_REF,
        "table": {"schema": SOURCE_SCHEMA, "name": source_name(case)},
    }
    return {
        "name": "bench",
        "source": source if merge else {**source, "options": _HANDOFF},
        "sink": {
            "type": kind,
            "connection_ref": TARGET_REF,
            "table": {"schema": LIVE.schema, "name": LIVE.name},
            "strategy": {
                "mode": "backfill",
                "unique_key": ["id"],
                "only_new_rows": False,
                "backfill": {
                    "inner_mode": "incremental_merge" if merge else "incremental_append",
                    "backfill_id": "bench_v1",
                    "parallel_workers": case.lanes,
                    "state": {"backend": "audit_schema", "schema": STATE_SCHEMA, "require_distributed_lock": True},
                    "publication": {"mode": "direct"}
                    if merge
                    else {"mode": "shadow_swap", "artifact_scope": "campaign"},
                    "chunk": _chunk(case),
                },
            },
        },
        "state": {"type": kind, "connection_ref": TARGET_REF, "atomicity": "target_atomic"},
    }


def _chunk(case: Case) -> Mapping[str, object]:
    if case.key == "uuid":
        return {"column": "id", "kind": "uuid", "buckets": case.chunks}
    # All rows of a sparse table are in its first chunk.
    step = case.rows if case.shape == "sparse" else math.ceil(case.rows / case.chunks)
    return {"column": "id", "kind": "integer", "from": 1, "to": step * case.chunks, "step": step}
