"""Whether unique key and chunk column tell every row apart: the rows of a chunk, and a row's place in the target."""

from __future__ import annotations

from dpone_dagster.campaign.chunkbounds import Bounds, chunk_bound_type
from dpone_dagster.campaign.contract import Column
from dpone_dagster.campaign.errors import Finding, KeyInvalid
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.slices import ACTIONS
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.campaign.typetable import TypeTable
from dpone_dagster.ports.tables import TargetTable

# Instants of SQL Server that are rounded when they are stored, and not to a power of ten.
_COARSE = frozenset({"datetime", "smalldatetime"})


def prove_keys(spec: CampaignSpec, source: tuple[Column, ...], live: TargetTable, types: TypeTable) -> None:
    """No row is left out or matched wrongly.

    Args:
        spec: The campaign.
        source: Columns of the source.
        live: The live table.
        types: Of the pair of servers.

    Raises:
        KeyInvalid: Some may be; everything that is wrong.
    """
    findings = []
    wanted = [(str(spec.source), name, source) for name in dict.fromkeys((*spec.unique_key, spec.chunk.column))]
    wanted += [(str(spec.target), name, live.columns) for name in spec.unique_key]
    for table, name, columns in wanted:
        column = next((c for c in columns if c.name == name), None)
        role = "unique key column" if name in spec.unique_key else "chunk column"
        if column is None:
            findings.append(Finding(f"{table}.{name}", f"the {role} does not exist", "name an existing column"))
        elif column.nullable:
            findings.append(
                Finding(f"{table}.{name}", f"the {role} is nullable", "declare it NOT NULL, or use another one")
            )
    findings += _unfit_chunk_column(spec, spec.source, source, types.source_bounds)
    findings += _without_unique_index(spec, live)
    findings += _unfit_slices(spec, live, types)
    findings += _keys_that_cannot_be_compared(spec, live.columns, types)
    if findings:
        raise KeyInvalid("rows could be left out or matched wrongly", findings=findings)


def _without_unique_index(spec: CampaignSpec, live: TargetTable) -> list[Finding]:
    """Without one nothing keeps duplicates out: after a validation has looked, or while two lanes merge."""
    if spec.direct and ACTIONS[spec.inner_mode] != "merge":
        return []  # rows are not matched by their keys
    if live.keeps_apart(spec.unique_key):
        return []
    problem = f"no unique index holds ({', '.join(spec.unique_key)}) apart"
    lasting = "" if spec.direct else "; the campaign reproduces it"
    advice = f"create a unique index on it, without a condition and not deferrable{lasting}"
    return [Finding(str(spec.target), problem, advice)]


def _unfit_slices(spec: CampaignSpec, live: TargetTable, types: TypeTable) -> list[Finding]:
    """Only a range that can be told in the target too can be deleted there."""
    if not spec.direct or ACTIONS[spec.inner_mode] != "replace":
        return []
    name = spec.chunk.column
    option = spec.column_options.get(name)
    if option is not None and option.on_bad_value == "null":
        advice = "let bad values fail"
        return [Finding(f"sink.columns.{name}", "`on_bad_value: null` would take rows out of their chunk", advice)]
    if any(c.name == name for c in live.columns) and name in (spec.source_columns or (name,)):
        return _unfit_chunk_column(spec, spec.target, live.columns, types.bounds)
    problem = f"is not loaded into {spec.target}, so no chunk can be replaced there by its range"
    return [Finding(f"{spec.target}.{name}", problem, "load it, or use another chunk column or inner mode")]


def _unfit_chunk_column(
    spec: CampaignSpec, table: TableRef, columns: tuple[Column, ...], bounds: Bounds
) -> list[Finding]:
    """Bounds must be exact values of the column's own type, or its index is of no use and rows fall between them."""
    kind, name = spec.chunk.kind, spec.chunk.column
    column = next((c for c in columns if c.name == name), None)
    if column is None:
        return []
    if kind == "timestamp" and column.type.name == "date" and not _whole_days(spec):
        problem = "a date cannot be cut at a time of day that is not midnight in UTC"
        return [Finding(f"{table}.{name}", problem, "write `kind: date` under `sink.strategy.backfill.chunk`")]
    if kind == "timestamp" and column.type.name in _COARSE and not _whole_seconds(spec):
        problem = f"a {column.type} cannot be cut at a fraction of a second: it is kept in steps of its own"
        return [Finding(f"{table}.{name}", problem, "let the window begin and end with whole seconds")]
    if chunk_bound_type(kind, column.type, bounds) is not None:
        return []
    problem = f"{column.type} cannot be cut into chunks of kind `{kind}`"
    return [Finding(f"{table}.{name}", problem, "choose another chunk column or kind")]


def _whole_days(spec: CampaignSpec) -> bool:
    """Whether a window of instants begins and ends with a day of UTC, as a date's own instants do."""
    whole = spec.plan.whole()
    return all("T00:00:00+00:00" in bound for bound in (whole.lower, whole.upper))


def _whole_seconds(spec: CampaignSpec) -> bool:
    whole = spec.plan.whole()
    return not any("." in bound for bound in (whole.lower, whole.upper))


def _keys_that_cannot_be_compared(spec: CampaignSpec, live: tuple[Column, ...], types: TypeTable) -> list[Finding]:
    """Increments find deleted rows by comparing the keys of two servers as text."""
    if spec.handoff_id is None:
        return []
    problem = "has no text that source and target share, so increments could not find deleted rows by their keys"
    advice = "use a unique key without it, or leave `source.options.xmin_execution` out"
    return [
        Finding(f"{spec.target}.{column.name}", f"a {column.type} {problem}", advice)
        for column in live
        if column.name in spec.unique_key and column.type.name in types.no_shared_text
    ]
