"""Rules between keys of the manifest. They read plain data, so that they speak up beside any other error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dpone_dagster.campaign.errors import Finding
from dpone_dagster.campaign.interval import token_problem
from dpone_dagster.campaign.manifest_modes import mode_findings
from dpone_dagster.campaign.manifest_paths import at, names
from dpone_dagster.campaign.manifest_state import state_findings
from dpone_dagster.campaign.wording import nearest, shown

_DATASET = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_DEEPEST = 32
_STRATEGY = "sink.strategy"
_XMIN = "source.options"
_INCREMENTAL = "dagster.incremental"
_MAPPING = "dagster.mapping"
_MAPPED_NEEDS = {
    "max_items": "say how many runs a backfill may be, 1 to 200",
    "max_active": "say how many lanes may work at once, 1 to 64",
    "pool": "name a Dagster pool, such as dpone_backfill: its slots bound the lanes of all runs",
}


def loads_once(data: Mapping[Any, Any]) -> bool:
    """Whether the manifest is for one load, whatever interval a run has: a swap, or increments."""
    mode = at(data, f"{_STRATEGY}.backfill.publication.mode")
    return bool(mode == "shadow_swap" or at(data, f"{_STRATEGY}.mode") == "incremental_merge")


def token_findings(data: Mapping[Any, Any]) -> list[Finding]:
    """Every `{{ token }}` that is left: a campaign that swaps loads one fixed range, others need the run's interval."""
    once = loads_once(data)
    advice = "write the value itself: shadow_swap loads one fixed range once"
    findings: list[Finding] = []
    for path, text in _texts(data, "", 0):
        if problem := token_problem(text):
            findings.append(
                Finding(path, "holds an unresolved `{{ token }}`", advice) if once else Finding(path, *problem)
            )
    return findings


def cross_findings(data: Mapping[Any, Any]) -> list[Finding]:
    """Everything that is wrong between keys that are right by themselves."""
    return [
        *_name(data),
        *_key(data),
        *mode_findings(data),
        *state_findings(data),
        *_columns(data),
        *_one_database(data),
        *_lanes(data),
        *_mapping(data),
        *_increments(data),
        *_deletes(data),
    ]


def _name(data: Mapping[Any, Any]) -> Iterator[Finding]:
    name = at(data, "name")
    dataset = at(data, "sink.table.name") if name is None else name
    if isinstance(dataset, str) and not _DATASET.fullmatch(dataset):
        found = (
            f"found {shown(dataset)}"
            if name is not None
            else f"is missing, and the table's {shown(dataset)} cannot be one"
        )
        yield Finding(
            "name", found, "write letters, digits and `_`, a letter first: it names assets, jobs and commands"
        )


def _key(data: Mapping[Any, Any]) -> Iterator[Finding]:
    key = names(data, f"{_STRATEGY}.unique_key")
    if len(set(key)) < len(key):
        yield Finding(f"{_STRATEGY}.unique_key", "names a column twice", "name each column once")


def _columns(data: Mapping[Any, Any]) -> Iterator[Finding]:
    columns = names(data, "source.columns")
    if not columns:
        return
    if len(set(columns)) < len(columns):
        yield Finding("source.columns", "names a column twice", "name each column once")
    for column in names(data, f"{_STRATEGY}.unique_key"):
        if column not in columns:
            yield Finding(f"{_STRATEGY}.unique_key", f"{shown(column)} is not loaded", "add it to `source.columns`")
    options = at(data, "sink.columns")
    for column in options if isinstance(options, Mapping) else ():
        if column not in columns:
            near = nearest(str(column), columns)
            advice = f"did you mean `{near}`?" if near else "add it to `source.columns`"
            yield Finding(f"sink.columns.{column}", "is not loaded", advice)


def _one_database(data: Mapping[Any, Any]) -> Iterator[Finding]:
    sink, state = at(data, "sink.type"), at(data, "state.type")
    if isinstance(sink, str) and isinstance(state, str) and sink != state:
        yield Finding(
            "state.type",
            f"found {shown(state)} beside sink.type {shown(sink)}",
            "let the state live in the sink's database",
        )
    ends = [(_ref(data, side), at(data, f"{side}.table")) for side in ("source", "sink")]
    if ends[0] == ends[1] and None not in ends[0]:
        yield Finding("sink.table", "is the source table itself", "name another table or connection")


def _lanes(data: Mapping[Any, Any]) -> Iterator[Finding]:
    lanes, workers = at(data, "dagster.lanes"), at(data, f"{_STRATEGY}.backfill.parallel_workers")
    most = 1 if workers is None else workers
    if isinstance(lanes, int) and isinstance(most, int) and lanes > most:
        yield Finding(
            "dagster.lanes", f"{lanes} is above parallel_workers {most}", "it may only lower `parallel_workers`"
        )


def _mapping(data: Mapping[Any, Any]) -> Iterator[Finding]:
    mode, items, active = (at(data, f"{_MAPPING}.{key}") for key in ("mode", "max_items", "max_active"))
    if isinstance(items, int) and isinstance(active, int) and active > items > 0:
        yield Finding(f"{_MAPPING}.max_active", f"{active} is above max_items {items}", "write at most as many")
    if mode not in ("summary", "visible"):
        return
    for key, advice in _MAPPED_NEEDS.items():
        if at(data, f"{_MAPPING}.{key}") is None and (key != "max_items" or mode == "summary"):
            yield Finding(f"{_MAPPING}.{key}", f"is missing beside mode: {mode}", advice)
    path = f"{_STRATEGY}.backfill.parallel_workers"
    workers = at(data, path)
    if isinstance(workers, int) and workers > 1:
        advice = "write `parallel_workers: 1`: a mapped run has one lane, and `max_active` says how many work at once"
        yield Finding(path, f"{workers} lanes a run would multiply with the runs of mapping mode {mode}", advice)


def _increments(data: Mapping[Any, Any]) -> Iterator[Finding]:
    strategy, handoff = at(data, f"{_XMIN}.incremental_strategy"), at(data, f"{_XMIN}.xmin_execution")
    whole = (
        "write `incremental_strategy: xmin` and `xmin_execution: {mode: initial, handoff_id: …}` under source.options"
    )
    if strategy is None and handoff is not None:
        yield Finding(f"{_XMIN}.incremental_strategy", "is missing beside xmin_execution", whole)
    if strategy is not None and handoff is None:
        yield Finding(f"{_XMIN}.xmin_execution", "is missing beside incremental_strategy", whole)
    if at(data, _INCREMENTAL) is not None and strategy is None and handoff is None:
        yield Finding(_INCREMENTAL, "has no handoff to start from", whole)


def _deletes(data: Mapping[Any, Any]) -> Iterator[Finding]:
    mode, column = at(data, f"{_INCREMENTAL}.delete_mode"), at(data, f"{_INCREMENTAL}.soft_delete_column")
    if mode == "soft" and column is None:
        advice = "name the target's nullable timestamp or boolean that marks deleted rows"
        yield Finding(f"{_INCREMENTAL}.soft_delete_column", "is missing beside delete_mode: soft", advice)
    if mode != "soft" and column is not None:
        yield Finding(f"{_INCREMENTAL}.delete_mode", "deletes rows, so no column marks them", "write `soft`")
    if column is not None and column in names(data, "source.columns"):
        yield Finding(f"{_INCREMENTAL}.soft_delete_column", "is loaded from the source", "name another column")


# ---------------------------------------------------------------- reading plain data


def _ref(data: Mapping[Any, Any], side: str) -> str | None:
    ref = at(data, f"{side}.connection_ref") or at(data, f"{side}.connection_id")
    return ref.upper() if isinstance(ref, str) else None


def _texts(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Every text with its path; a mapping that holds itself ends at a depth that no manifest has."""
    if isinstance(value, str):
        yield path, value
    elif depth < _DEEPEST and isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif depth < _DEEPEST and isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _texts(inner, f"{path}.{number}", depth + 1)
