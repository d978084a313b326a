"""What each state backend asks of the rest of the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpone_dagster.campaign.errors import Finding
from dpone_dagster.campaign.manifest_paths import at
from dpone_dagster.campaign.wording import shown

_BACKFILL = "sink.strategy.backfill"
_STATE = f"{_BACKFILL}.state"
_LOCK = f"{_STATE}.require_distributed_lock"
_SCHEMA = f"{_STATE}.schema"
_TABLES = "or write `backend: audit_schema`"
_REPEATABLE = ("replace", "partition_replace", "incremental_merge", "full_refresh")


def state_findings(data: Mapping[Any, Any]) -> Iterator[Finding]:
    """What does not go with the state backend; nothing where that is none at all.

    Args:
        data: The manifest.
    """
    state = at(data, _STATE)
    if not isinstance(state, Mapping):
        return
    if state.get("backend") == "audit_schema":
        yield from _audit_schema(state)
    elif state.get("backend") == "local_file":
        yield from _lock_and_tables(data, state)
        yield from _one_machine(data)


def _audit_schema(state: Mapping[Any, Any]) -> Iterator[Finding]:
    if "schema" not in state:
        advice = "write the state tables' schema, such as `system`: letters, digits and `_`"
        yield Finding(_SCHEMA, "is missing", advice)
    lock, advice = (
        state.get("require_distributed_lock"),
        "write `require_distributed_lock: true`: lanes may run anywhere",
    )
    if lock is None:
        yield Finding(_LOCK, "is missing", advice)
    elif lock is False:
        yield Finding(_LOCK, f"found {shown(lock)}", advice)


def _lock_and_tables(data: Mapping[Any, Any], state: Mapping[Any, Any]) -> Iterator[Finding]:
    if state.get("require_distributed_lock") is True:
        problem = "cannot be had beside `local_file`, whose lock keeps out processes of one machine alone"
        yield Finding(_LOCK, problem, f"leave it out, {_TABLES}")
    if "schema" in state:
        yield Finding(_SCHEMA, "has no meaning beside `local_file`, which makes no tables", f"leave it out, {_TABLES}")
    if at(data, "state") is not None:
        yield Finding("state", "has no meaning beside `local_file`, which makes no tables", f"leave it out, {_TABLES}")


def _one_machine(data: Mapping[Any, Any]) -> Iterator[Finding]:
    if at(data, f"{_BACKFILL}.publication.mode") == "shadow_swap":
        problem = "found 'shadow_swap' beside `local_file`: a swap needs receipts that commit with their rows"
        yield Finding(f"{_BACKFILL}.publication.mode", problem, "write `mode: direct`, " + _TABLES)
        return
    inner_mode = at(data, f"{_BACKFILL}.inner_mode")
    if inner_mode == "incremental_append":
        problem = "found 'incremental_append' beside `local_file`: a chunk whose answer was lost would be there twice"
        yield Finding(f"{_BACKFILL}.inner_mode", problem, f"write one of {', '.join(_REPEATABLE)}, {_TABLES}")
    workers = at(data, f"{_BACKFILL}.parallel_workers")
    if isinstance(workers, int) and workers > 1:
        problem = f"{workers} lanes beside `local_file`, which has one"
        yield Finding(f"{_BACKFILL}.parallel_workers", problem, f"leave it out, {_TABLES}")
    for path in ("dagster.interval", "dagster.mapping.mode"):
        if at(data, path) not in (None, "internal"):
            problem = "lets runs of Dagster share a campaign's state, and `local_file` is on one machine"
            yield Finding(path, problem, f"leave it out, {_TABLES}")
