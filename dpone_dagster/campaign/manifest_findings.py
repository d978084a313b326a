"""Turns the validator's errors into findings: path, what was found, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from dpone_dagster.campaign.errors import Finding
from dpone_dagster.campaign.manifest_values import FINDINGS_ERROR
from dpone_dagster.campaign.wording import nearest, shown

_BACKFILL = "sink.strategy.backfill"
_LATER = "is not in this version"
_IDENTITY = "write letters, digits, `_`, `-`, `+`, `.` or `:`, such as orders_v1; a plain number needs quotes"

# What to write, by path. Where nothing stands here, the allowed values or the key itself are said.
_ADVICE: Mapping[str, str] = {
    "source.type": "write `type: postgres`; or `type: mssql`, for publication mode `direct`",
    "sink.type": "write `type: postgres` or `type: mssql`",
    "sink.strategy.mode": "write `mode: backfill`, with increments under `dagster.incremental`; or `incremental_merge`",
    "sink.strategy.unique_key": "name the not-null columns that identify a row, such as `unique_key: [id]`",
    "sink.strategy.only_new_rows": "write `only_new_rows: false`: a chunk loads every row of its range",
    f"{_BACKFILL}.inner_mode": "write `incremental_append`, `incremental_merge`, `replace`, `partition_replace` or "
    "`full_refresh`; `shadow_swap` takes `incremental_append` alone",
    f"{_BACKFILL}.verification": "write `verification: row_count`, or `digest` to compare whole rows too",
    f"{_BACKFILL}.publication.mode": "write `mode: direct`, the default, or `mode: shadow_swap`",
    f"{_BACKFILL}.publication.retain_backup": "write `retain_backup: true`: dropping a backup is a command of its own",
    f"{_BACKFILL}.state": "write `state: {backend: audit_schema, schema: system, require_distributed_lock: true}`",
    f"{_BACKFILL}.state.backend": "write `backend: audit_schema`; or `local_file`, for `direct` on one machine",
    f"{_BACKFILL}.state.require_distributed_lock": "write `require_distributed_lock: true`: lanes may run anywhere",
    f"{_BACKFILL}.state.schema": "write the state tables' schema, such as `system`: letters, digits and `_`",
    f"{_BACKFILL}.backfill_id": _IDENTITY,
    "source.options.xmin_execution.handoff_id": _IDENTITY,
    "source.options.xmin_execution.mode": "write `mode: initial` in a campaign, whose increments are set "
    "under `dagster.incremental`; `incremental` goes with `sink.strategy.mode: incremental_merge`",
    "state.atomicity": "write `atomicity: target_atomic`: a receipt commits with its rows",
    "dagster.mapping.pool": "name a Dagster pool without spaces, such as dpone_backfill",
    "dagster.owners": "write e-mail addresses or `team:name`",
    "dagster.tags": "use letters, digits, `_`, `-` and `.`, at most 63 of them",
}
_KINDS: Mapping[str, str] = {
    "model_type": "write a mapping of keys",
    "dict_type": "write a mapping of keys",
    "list_type": "write a list, such as `[a, b]`",
    "bool_type": "write `true` or `false`",
    "bool_parsing": "write `true` or `false`",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "string_type": "write a text",
}
_NAMED_SOURCES: Mapping[object, str] = {
    "clickhouse": "ClickHouse is not supported as a source: it has no xmin to hand over",
    "kafka": "Kafka is not supported as a source: a topic has no table to cut into chunks",
}


def findings_of(error: ValidationError, root: type[BaseModel]) -> list[Finding]:
    """All findings of a failed validation, without the values of unknown keys.

    Args:
        error: The validator's.
        root: The model that was validated.
    """
    findings: list[Finding] = []
    meant: set[str] = set()
    for item in error.errors(include_url=False):
        kind, place = item["type"], item["loc"]
        if kind == FINDINGS_ERROR:
            findings += item["ctx"]["findings"]
        elif kind == "extra_forbidden":
            near, finding = _unknown_key(place, root)
            meant.add(near)
            findings.append(finding)
        else:
            findings.append(_finding(kind, tuple(part for part in place if part != "[key]"), item, root))
    # A misspelt key is one fault, not an unknown key and a missing one.
    return [finding for finding in findings if not (finding.path in meant and finding.problem == "is missing")]


def _path(place: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in place)


def _finding(kind: str, place: tuple[int | str, ...], item: Any, root: type[BaseModel]) -> Finding:
    path = _path(place)
    if kind == "missing":
        return Finding(path, "is missing", _advice(place) or f"add `{place[-1]}`")
    if place and place[-1] == "connection_ref":
        # Somebody may have written the URL itself here.
        advice = "write a plain name such as postgres_dwh; its URL belongs into DPONE_CONNECTION_<REF>"
        return Finding(path, "is not a plain name", advice)
    found = item["input"]
    if path == "source.type" and isinstance(found, str) and found in _NAMED_SOURCES:
        return Finding(path, f"found {shown(found)}: {_NAMED_SOURCES[found]}", _ADVICE[path])
    return Finding(path, f"found {shown(found)}", _advice(place) or _limits(place, root) or _allowed(kind, item))


def _advice(place: tuple[int | str, ...]) -> str | None:
    """The advice for the place, or for the block it is an item of."""
    path = _path(place)
    parent = _path(place[:-1])
    return _ADVICE.get(path) or (_ADVICE.get(parent) if parent in ("dagster.owners", "dagster.tags") else None)


def _limits(place: tuple[int | str, ...], root: type[BaseModel]) -> str | None:
    """The range of a number, as its field has it."""
    field = _field_at(_model_at(root, place[:-1]), place[-1]) if place else None
    metadata = field.metadata if field else []
    limits = {end: getattr(item, end) for item in metadata for end in ("ge", "le") if hasattr(item, end)}
    if "ge" not in limits:
        return None
    if "le" not in limits:
        return f"write a number of at least {limits['ge']}"
    return f"write a number from {limits['ge']} to {limits['le']}"


def _allowed(kind: str, item: Any) -> str:
    if kind == "literal_error":
        return "write " + str(item["ctx"]["expected"]).replace("'", "`")
    if kind == "string_type" and isinstance(item["input"], int | float) and not isinstance(item["input"], bool):
        return "write it in quotes"
    if kind in _KINDS:
        return _KINDS[kind]
    message = str(item["msg"])
    return (
        message.replace("Input should be", "write")
        .replace("String should", "it must")
        .replace("List should", "it must")
    )


def _unknown_key(place: tuple[int | str, ...], root: type[BaseModel]) -> tuple[str, Finding]:
    allowed = _keys_of(_model_at(root, place[:-1]))
    near = nearest(str(place[-1]), allowed)
    advice = f"did you mean `{near}`?" if near else f"allowed: {', '.join(allowed)}"
    return _path((*place[:-1], near or "")), Finding(_path(place), "unknown key", advice)


def _keys_of(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(model: type[BaseModel], place: tuple[int | str, ...]) -> type[BaseModel]:
    """The block at a place; a mapping's own keys (column names) lead to its block."""
    for part in place:
        field = _field_at(model, part)
        if field is not None and (inner := _block_in(field.annotation)):
            model = inner
    return model


def _field_at(model: type[BaseModel], key: int | str) -> FieldInfo | None:
    return next((field for name, field in model.model_fields.items() if (field.alias or name) == key), None)


def _block_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _block_in(part))), None)
