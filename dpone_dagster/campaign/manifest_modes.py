"""What each publication mode asks of the rest of the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpone_dagster.campaign.errors import Finding
from dpone_dagster.campaign.manifest_paths import at, names
from dpone_dagster.campaign.slices import ACTIONS
from dpone_dagster.campaign.wording import nearest, shown

_KEY = "sink.strategy.unique_key"
_BACKFILL = "sink.strategy.backfill"
_CHUNK = f"{_BACKFILL}.chunk"
_MODE = f"{_BACKFILL}.publication.mode"
_XMIN = "source.options.xmin_execution"
_INTERVAL = "dagster.interval"
_REPEATABLE = ("replace", "partition_replace", "incremental_merge")
_LEAVE_IT_OUT = "leave it out"
_NAME_A_KEY = "name the not-null columns that identify a row, such as `unique_key: [id]`"


def mode_findings(data: Mapping[Any, Any]) -> Iterator[Finding]:
    """What does not go with the publication mode; nothing where that is no mode at all."""
    if at(data, "sink.strategy.mode") != "backfill":
        return
    mode = at(data, _MODE) or "direct"
    if at(data, "source.type") == "mssql":
        yield from _from_mssql(data, mode)
    if mode == "shadow_swap":
        yield from _shadow_swap(data)
    elif mode == "direct":
        yield from _direct(data)


def _from_mssql(data: Mapping[Any, Any], mode: Any) -> Iterator[Finding]:
    """What only a source with xmin can do, and chunks that no index of a SQL Server table serves."""
    if mode == "shadow_swap":
        advice = "write `publication: {mode: direct}`, and leave `source.options` and `dagster.incremental` out"
        yield Finding(_MODE, "found shadow_swap beside source.type `mssql`, which has no xmin to hand over", advice)
    elif at(data, "source.options") is not None:
        yield Finding("source.options", "SQL Server has no xmin by which increments could be read", _LEAVE_IT_OUT)
    if at(data, f"{_CHUNK}.kind") == "uuid" or at(data, f"{_CHUNK}.buckets") is not None:
        problem = "uuid chunks of a SQL Server table are in an order that no index has, so each would read all of it"
        yield Finding(f"{_CHUNK}.kind", problem, "chunk by a date, a timestamp or an integer column")


def _shadow_swap(data: Mapping[Any, Any]) -> Iterator[Finding]:
    if at(data, "source.type") == "mssql":
        return
    inner_mode = at(data, f"{_BACKFILL}.inner_mode")
    if inner_mode in ACTIONS and inner_mode != "incremental_append":
        advice = "write `inner_mode: incremental_append`: a shadow is empty, and each chunk is appended to it once"
        yield Finding(f"{_BACKFILL}.inner_mode", f"found {shown(inner_mode)} beside shadow_swap", advice)
    if at(data, _INTERVAL) is not None:
        yield Finding(_INTERVAL, "has no meaning beside shadow_swap, which loads one fixed range once", _LEAVE_IT_OUT)
    key, column = names(data, _KEY), at(data, f"{_CHUNK}.column")
    if _lacks_a_key(data):
        yield Finding(_KEY, "is missing", _NAME_A_KEY)
    if key and isinstance(column, str) and column not in key and at(data, f"{_CHUNK}.immutable") is not True:
        problem = f"{shown(column)} is not part of unique_key [{', '.join(map(shown, key))}]"
        advice = "chunk by a key column, or write `immutable: true` if a row never changes it (else it may load twice)"
        yield Finding(f"{_CHUNK}.column", problem, advice)


def _direct(data: Mapping[Any, Any]) -> Iterator[Finding]:
    if at(data, f"{_BACKFILL}.inner_mode") == "incremental_merge" and _lacks_a_key(data):
        yield Finding(_KEY, "is missing beside incremental_merge", _NAME_A_KEY)
    if at(data, _XMIN) is not None and at(data, "source.type") != "mssql":
        advice = "write `publication: {mode: shadow_swap}`; or leave `source.options` out, for a load without a handoff"
        yield Finding(_XMIN, "binds a handoff to a publication, and `direct` makes none", advice)
    for name in ("retain_backup", "artifact_scope"):
        if at(data, f"{_BACKFILL}.publication.{name}") is not None:
            advice = "leave it out, or write `mode: shadow_swap`"
            yield Finding(f"{_BACKFILL}.publication.{name}", "has no meaning beside mode `direct`", advice)
    if at(data, _INTERVAL) is not None:
        yield from _intervals(data)


def _intervals(data: Mapping[Any, Any]) -> Iterator[Finding]:
    inner_mode, mapping = at(data, f"{_BACKFILL}.inner_mode"), at(data, "dagster.mapping.mode")
    if inner_mode in ACTIONS and inner_mode not in _REPEATABLE:
        problem = f"found {shown(inner_mode)} beside dagster.interval, whose partitions may be loaded again"
        advice = "write `partition_replace`, or `incremental_merge` with a key"
        yield Finding(f"{_BACKFILL}.inner_mode", problem, advice)
    if mapping in ("summary", "visible"):
        problem = f"found {shown(mapping)} beside dagster.interval, whose backfills are one run a range"
        yield Finding("dagster.mapping.mode", problem, _LEAVE_IT_OUT)
    if at(data, "dagster.alerts") is not None:
        problem = "has no meaning beside dagster.interval, each of whose runs is a campaign that is not watched"
        yield Finding("dagster.alerts", problem, f"{_LEAVE_IT_OUT}: runs that fail are told of all the same")


def interval_findings(data: Mapping[Any, Any]) -> Iterator[Finding]:
    """An interval that the chunks do not follow: every partition would load the same range.

    Args:
        data: As it is written, its tokens in place.
    """
    if at(data, _INTERVAL) is None or at(data, _MODE) == "shadow_swap":
        return
    for bound, token in (("from", "data_interval_start"), ("to", "data_interval_end")):
        if token not in str(at(data, f"{_CHUNK}.{bound}")):
            yield Finding(f"{_CHUNK}.{bound}", "does not follow dagster.interval", f'write "{{{{ {token} }}}}"')


def _lacks_a_key(data: Mapping[Any, Any]) -> bool:
    """Whether nothing is said of a key; one that is misspelt is a fault of its own."""
    strategy = at(data, "sink.strategy")
    return "unique_key" not in strategy and not any(nearest(str(name), ["unique_key"]) for name in strategy)
