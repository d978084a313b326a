"""Match source and target columns into the column contract, or refuse with all findings at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpone_dagster.campaign.contract import (
    Column,
    ColumnBinding,
    ColumnContract,
    ColumnOption,
    ColumnType,
    Guard,
)
from dpone_dagster.campaign.errors import ColumnContractRefused, Finding
from dpone_dagster.campaign.typetable import (
    EXACT,
    EXACT_AS_TEXT,
    INTEGER_DIGITS,
    INTEGER_RANGES,
    MODIFIERS,
    REASONS,
    TEXT_HOMES,
)


@dataclass(frozen=True)
class _Home:
    """How one type is brought into another. No guards: every value fits."""

    cast: str | None = None
    guards: tuple[Guard, ...] = ()


class _NoHome(Exception):
    """There is no exact home; the text says why."""


def match_columns(
    source: Sequence[Column],
    target: Sequence[Column],
    *,
    options: Mapping[str, ColumnOption],
    wanted: tuple[str, ...] | None,
    key: tuple[str, ...],
) -> ColumnContract:
    """Find each source column's home by its exact name.

    Args:
        source: Columns of the source table.
        target: Columns of the target table.
        options: What the manifest says about target columns.
        wanted: Source columns to load; None for all.
        key: The unique key, which must be among the columns.

    Raises:
        ColumnContractRefused: Any column has no exact home; every finding at once.
    """
    homes = {column.name: column for column in target}
    chosen = [c for c in source if wanted is None or c.name in wanted]
    findings = [*_strays(source, chosen, target, options, wanted), *_lost_keys(chosen, key)]
    bindings: dict[str, ColumnBinding] = {}
    for column in chosen:
        home = homes.get(column.name)
        if home is None:
            findings.append(
                Finding(column.name, "has no column of this name in the target", "add it, or list `source.columns`")
            )
            continue
        try:
            bindings[home.name] = _bind(column, home, options.get(home.name, ColumnOption()))
        except _NoHome as reason:
            findings.append(Finding(column.name, str(reason), _advice(column.type)))
    if findings:
        raise ColumnContractRefused("the source's columns have no exact home in the target", findings=findings)
    return ColumnContract(tuple(bindings[c.name] for c in target if c.name in bindings), key)


def _strays(
    source: Sequence[Column],
    chosen: Sequence[Column],
    target: Sequence[Column],
    options: Mapping[str, ColumnOption],
    wanted: tuple[str, ...] | None,
) -> list[Finding]:
    """Names that lead nowhere, and target columns that nothing would fill."""
    names = {column.name for column in source}
    loaded = {column.name for column in chosen}
    findings = [
        Finding(f"source.columns.{name}", "the source has no such column", "correct the name")
        for name in wanted or ()
        if name not in names
    ]
    findings += [
        Finding(f"sink.columns.{name}", "no loaded column of this name", "correct the name")
        for name in options
        if name not in loaded
    ]
    findings += [
        Finding(column.name, "is NOT NULL in the target and the source has no such column", "give it a default")
        for column in target
        if column.name not in loaded and not column.nullable and not column.has_default
    ]
    return findings


def _lost_keys(chosen: Sequence[Column], key: tuple[str, ...]) -> list[Finding]:
    names = {column.name for column in chosen}
    return [
        Finding(name, "belongs to the unique key and is not loaded", "load it") for name in key if name not in names
    ]


def _advice(kind: ColumnType) -> str:
    if kind.kind in ("array", "composite") or "." in kind.name:
        return "set `representation: text` or `json` under `sink.columns`, with a text or json column in the target"
    return "change the target's type, or name a representation under `sink.columns`"


def _bind(source: Column, target: Column, option: ColumnOption) -> ColumnBinding:
    if source.nullable and not target.nullable:
        raise _NoHome("may be NULL in the source and is NOT NULL in the target")
    if option.on_bad_value == "null" and not target.nullable:
        raise _NoHome("`on_bad_value: null` needs a nullable column in the target")
    home = _represented(source.type, target.type, option) if option.representation else _home(source.type, target.type)
    return ColumnBinding(
        source=source.name,
        target=target.name,
        source_type=str(source.type),
        target_type=str(target.type),
        cast=home.cast,
        guards=home.guards,
        on_bad_value=option.on_bad_value,
    )


def _represented(source: ColumnType, target: ColumnType, option: ColumnOption) -> _Home:
    homes = {"text": TEXT_HOMES, "json": frozenset({"json", "jsonb"})}[option.representation or "text"]
    if target.name not in homes or target.args:
        raise _NoHome(f"`representation: {option.representation}` needs a column of {' or '.join(sorted(homes))}")
    if source.name == target.name:
        return _Home()
    return _Home(target.name if option.representation == "text" else f"to_{target.name}")


def _home(source: ColumnType, target: ColumnType) -> _Home:
    if source.name == target.name:
        return _same(source, target)
    pair = (source.name, target.name)
    if pair in EXACT:
        return _Home(_spelled(target))
    if target.name in TEXT_HOMES and (source.name in EXACT_AS_TEXT or source.kind == "enum"):
        return _as_text(source, target)
    if source.name in INTEGER_DIGITS and target.name in ("numeric", *INTEGER_RANGES):
        return _integer(source, target)
    if source.name == "numeric" and target.name in INTEGER_RANGES:
        low, high = INTEGER_RANGES[target.name]
        return _Home(target.name, (Guard("fraction or range", "integral", (low, high)),))
    raise _NoHome(f"{source} has no exact home in {target}{': ' + REASONS[pair] if pair in REASONS else ''}")


def _same(source: ColumnType, target: ColumnType) -> _Home:
    if source.kind in ("enum", "composite") or "." in source.name:
        raise _NoHome(f"{source} is a type of its own on each server")
    if not target.args or target.args == source.args:
        return _Home()
    check = "equal" if source.kind != "base" else MODIFIERS.get(source.name, "equal")
    if check == "length":
        return _Home(guards=_length(source, target))
    if check == "numeric":
        return _Home(_spelled(target), _numeric(source, target))
    if check == "fraction":
        narrower = not source.args or target.args[0] < source.args[0]
        guards = (Guard("fraction of a second", "fraction", (source.name, *target.args)),) if narrower else ()
        return _Home(guards=guards)
    raise _NoHome(f"{source} and {target} differ")


def _as_text(source: ColumnType, target: ColumnType) -> _Home:
    cast = None if source.name in TEXT_HOMES else "text"
    return _Home(cast, _length(source, target))


def _length(source: ColumnType, target: ColumnType) -> tuple[Guard, ...]:
    if not target.args or (source.name in TEXT_HOMES and source.args and source.args[0] <= target.args[0]):
        return ()
    return (Guard("length", "length", target.args),)


def _numeric(source: ColumnType, target: ColumnType) -> tuple[Guard, ...]:
    precision, scale = target.args
    if source.args:
        wide_enough = precision - scale >= source.args[0] - source.args[1]
        if wide_enough and scale >= source.args[1]:
            return ()
    return (Guard("digits", "numeric", (precision, scale)),)


def _integer(source: ColumnType, target: ColumnType) -> _Home:
    if target.name == "numeric":
        if not target.args or (target.args[0] - target.args[1] >= INTEGER_DIGITS[source.name] and target.args[1] >= 0):
            return _Home(_spelled(target))
        return _Home(_spelled(target), (Guard("digits", "numeric", target.args),))
    low, high = INTEGER_RANGES[target.name]
    return _Home(target.name, (Guard("range", "integral", (low, high)),))


def _spelled(target: ColumnType) -> str:
    return f"{target.name}({','.join(map(str, target.args))})" if target.args else target.name
