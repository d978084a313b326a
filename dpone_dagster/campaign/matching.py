"""Matches source and target columns into the column contract, or refuses with every finding at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpone_dagster.campaign.contract import Column, ColumnBinding, ColumnContract, ColumnOption
from dpone_dagster.campaign.errors import ColumnContractRefused, Finding
from dpone_dagster.campaign.homes import FindHome, NoHome
from dpone_dagster.campaign.wording import nearest

_NO_OPTION = ColumnOption()


def match_columns(
    source: Sequence[Column],
    target: Sequence[Column],
    *,
    options: Mapping[str, ColumnOption],
    wanted: tuple[str, ...] | None,
    key: tuple[str, ...],
    find_home: FindHome,
) -> ColumnContract:
    """Find each loaded column's exact home: the target column of exactly its name.

    Args:
        source: Columns of the source table.
        target: Columns of the target table.
        options: What the manifest says about loaded columns, by name.
        wanted: Source columns to load; None for all.
        key: The unique key, which must be loaded.
        find_home: The type table of the pair of servers.

    Raises:
        ColumnContractRefused: Something has no exact home; all findings at once.
    """
    loaded = [column for column in source if wanted is None or column.name in wanted]
    bindings: dict[str, ColumnBinding] = {}
    findings = [*_wrong_names(source, loaded, options, wanted, key), *_unfilled(loaded, target)]
    homes = {column.name: column for column in target}
    for column in loaded:
        found = _bind(column, homes, options.get(column.name, _NO_OPTION), find_home)
        if isinstance(found, ColumnBinding):
            bindings[found.target] = found
        else:
            findings += found
    findings += [_nulled_key(name) for name in key if options.get(name, _NO_OPTION).on_bad_value == "null"]
    if findings:
        raise ColumnContractRefused(
            f"{len(findings)} finding(s) between the columns of source and target", findings=findings
        )
    return ColumnContract(tuple(bindings[column.name] for column in target if column.name in bindings), key)


def _wrong_names(
    source: Sequence[Column],
    loaded: Sequence[Column],
    options: Mapping[str, ColumnOption],
    wanted: tuple[str, ...] | None,
    key: tuple[str, ...],
) -> Iterator[Finding]:
    in_source = [column.name for column in source]
    in_load = [column.name for column in loaded]
    for name in dict.fromkeys(wanted or ()):
        if name not in in_source:
            yield _stray(f"source.columns.{name}", name, "the source has no such column", in_source)
        elif wanted and wanted.count(name) > 1:
            yield Finding(f"source.columns.{name}", "is named more than once", "name it once")
    for name in options:
        if name not in in_load:
            yield _stray(f"sink.columns.{name}", name, "no column of this name is loaded", in_load)
    for name in key:
        if name not in in_load:
            yield _stray(f"sink.strategy.unique_key.{name}", name, "no column of this name is loaded", in_load)


def _stray(path: str, name: str, problem: str, names: Sequence[str]) -> Finding:
    meant = nearest(name, names)
    return Finding(path, problem, f"did you mean `{meant}`?" if meant else "correct the name, or leave it out")


def _unfilled(loaded: Sequence[Column], target: Sequence[Column]) -> Iterator[Finding]:
    names = {column.name for column in loaded}
    for column in target:
        if column.name not in names and not column.nullable and not column.has_default:
            yield Finding(
                f"target.{column.name}",
                "nothing is loaded into it, and it is NOT NULL without a default",
                "give it a default, allow NULL, or load a column of this name",
            )


def _bind(
    column: Column, homes: Mapping[str, Column], option: ColumnOption, find_home: FindHome
) -> ColumnBinding | list[Finding]:
    path = f"source.{column.name}"
    target = homes.get(column.name)
    if target is None:
        return [Finding(path, "the target has no column of this name", _advice_on_missing(column.name, homes))]
    findings = []
    if column.nullable and not target.nullable:
        advice = "allow NULL in the target, or declare the source column NOT NULL"
        findings.append(Finding(path, "is nullable, and NOT NULL in the target", advice))
    if option.on_bad_value == "null" and not target.nullable:
        advice = "allow NULL in the target, or let bad values fail"
        findings.append(Finding(f"sink.columns.{column.name}", "`on_bad_value: null` goes into NOT NULL", advice))
    home = find_home(column.type, target.type, option.representation)
    if isinstance(home, NoHome):
        return [*findings, Finding(path, home.problem, home.advice)]
    return findings or ColumnBinding(
        source=column.name,
        target=target.name,
        source_type=str(column.type),
        target_type=str(target.type),
        cast=home.cast,
        guards=home.guards,
        on_bad_value=option.on_bad_value,
    )


def _advice_on_missing(name: str, homes: Mapping[str, Column]) -> str:
    alike = next((home for home in homes if home.casefold() == name.casefold()), None)
    if alike is not None:
        return f"rename the target column `{alike}`: names are compared exactly"
    return "add it to the target, or leave it out of `source.columns`"


def _nulled_key(name: str) -> Finding:
    return Finding(
        f"sink.columns.{name}", "`on_bad_value: null` on a column of the unique key", "let bad values of keys fail"
    )
