"""The interval of a run, and the `{{ tokens }}` of a manifest that stand for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dpone_dagster.campaign.errors import Finding, IntervalInvalid
from dpone_dagster.campaign.plan import read_instant
from dpone_dagster.campaign.wording import shown

# What takes each token's value, for people who forgot it.
TOKENS: Mapping[str, str] = {
    "data_interval_start": "give --interval-start TIME, or set DPONE_INTERVAL_START",
    "data_interval_end": "give --interval-end TIME, or set DPONE_INTERVAL_END",
    "logical_date": "give --execution-date TIME or --interval-start TIME, or set DPONE_LOGICAL_DATE",
    "ds": "give --execution-date TIME or --interval-start TIME, or set DPONE_LOGICAL_DATE",
    "dag_run_id": "set DPONE_DAG_RUN_ID",
}
VARIABLES: Mapping[str, str] = {
    "start": "DPONE_INTERVAL_START",
    "end": "DPONE_INTERVAL_END",
    "logical_date": "DPONE_LOGICAL_DATE",
    "dag_id": "DPONE_DAG_ID",
    "dag_run_id": "DPONE_DAG_RUN_ID",
    "try_number": "DPONE_TRY_NUMBER",
}
FLAGS: Mapping[str, str] = {"start": "--interval-start", "end": "--interval-end", "logical_date": "--execution-date"}

_TOKEN = re.compile(r"\{\{\s*(\w+)\s*\}\}", re.ASCII)
_TIME_FORM = "write an ISO date or time such as 2024-03-31T00:00:00+01:00 (no zone means UTC)"
_DAY_FORM = "give the first instant of a day by its own zone; or write `kind: timestamp` for the chunks"
# What a host's template leaves behind where it has no value.
_NO_VALUE = frozenset({"", "None"})
_DEEPEST = 32


@dataclass(frozen=True)
class Interval:
    """The half-open time that a run stands for, as its host says it. Every time has its zone.

    Attributes:
        start: First instant; None where the run has no interval.
        end: First instant after it; None likewise.
        logical_date: The host's name for the run; the start if it says nothing else.
        dag_id: Of the host.
        dag_run_id: Of the host.
        try_number: Of the host.

    Raises:
        IntervalInvalid: It ends before it starts.
    """

    start: datetime | None = None
    end: datetime | None = None
    logical_date: datetime | None = None
    dag_id: str | None = None
    dag_run_id: str | None = None
    try_number: str | None = None

    def __post_init__(self) -> None:
        # By one clock: two times of one zone are else compared by their faces, which go back once a year.
        ends = [moment.astimezone(UTC) for moment in (self.start, self.end) if moment is not None]
        if self.start and self.end and ends[1] < ends[0]:
            problem = f"the interval ends at {self.end.isoformat()}, before it starts at {self.start.isoformat()}"
            raise IntervalInvalid(problem)

    @property
    def named(self) -> datetime | None:
        """The logical date, or the start that stands for it."""
        return self.logical_date or self.start

    @property
    def values(self) -> Mapping[str, str]:
        """The value of each token that has one. `ds` is the day by the logical date's own clock."""
        known = {
            "data_interval_start": self.start and self.start.isoformat(),
            "data_interval_end": self.end and self.end.isoformat(),
            "logical_date": self.named and self.named.isoformat(),
            "ds": self.named and self.named.date().isoformat(),
            "dag_run_id": self.dag_run_id,
        }
        return {token: value for token, value in known.items() if value}

    def as_dict(self) -> dict[str, str | None]:
        """As plain data, which `read_interval` reads again."""
        return {
            "start": self.start.isoformat() if self.start else None,
            "end": self.end.isoformat() if self.end else None,
            "logical_date": self.named.isoformat() if self.named else None,
            "dag_id": self.dag_id,
            "dag_run_id": self.dag_run_id,
            "try_number": self.try_number,
        }


NO_INTERVAL = Interval()


def read_interval(flags: Mapping[str, str | None], environ: Mapping[str, str]) -> Interval:
    """The interval that a command is asked for: a flag, else its variable.

    Args:
        flags: By the names of `Interval`'s attributes; None where a flag is not given.
        environ: The process's environment.

    Raises:
        IntervalInvalid: Texts that are no times, all of them, or an end before the start.
    """
    texts: dict[str, str] = {}
    findings: list[Finding] = []
    times: dict[str, datetime] = {}
    for name, variable in VARIABLES.items():
        flag = flags.get(name)
        text = flag if flag is not None else environ.get(variable, "").strip()
        if flag is None and text in _NO_VALUE:
            continue
        texts[name] = text
        if name not in FLAGS:
            continue
        try:
            times[name] = read_instant(text)
        except (ValueError, OverflowError):
            findings.append(Finding(variable if flag is None else FLAGS[name], f"found {shown(text)}", _TIME_FORM))
    if findings:
        raise IntervalInvalid("the run's interval cannot be read", findings=findings)
    return Interval(
        **times, dag_id=texts.get("dag_id"), dag_run_id=texts.get("dag_run_id"), try_number=texts.get("try_number")
    )


def resolved(data: Mapping[Any, Any], interval: Interval) -> Any:
    """A manifest's plain data with each token that has a value replaced; `token_problem` tells of the others.

    A chunk window of kind `date` holds whole days: `to` is its last day, so the interval's end, which is the first
    instant after it, becomes the day before.

    Args:
        data: What the YAML says.
        interval: Of the run.

    Raises:
        IntervalInvalid: A window of whole days is asked for a part of a day.
    """
    days = _whole_days(data, interval)
    replaced = _replaced(data, interval.values)
    if days:
        replaced["sink"]["strategy"]["backfill"]["chunk"].update(days)
    return replaced


def token_problem(text: str) -> tuple[str, str] | None:
    """What is wrong with a text that still holds `{{`, and what to do about it; None if it holds none."""
    if "{{" not in text:
        return None
    for name in _TOKEN.findall(text):
        if name in TOKENS:
            return f"`{{{{ {name} }}}}` has no value in this run", TOKENS[name]
    return "holds a `{{ … }}` that is no token", f"write one of {', '.join(f'`{{{{ {name} }}}}`' for name in TOKENS)}"


def _replaced(value: Any, values: Mapping[str, str], depth: int = 0) -> Any:
    if isinstance(value, str):
        return _TOKEN.sub(lambda found: values.get(found[1], found[0]), value)
    if depth >= _DEEPEST:  # a mapping that holds itself; whoever reads it next says so
        return value
    if isinstance(value, Mapping):
        return {key: _replaced(inner, values, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, values, depth + 1) for inner in value]
    return value


def _whole_days(data: Mapping[Any, Any], interval: Interval) -> dict[str, str]:
    """The bounds of a window of whole days; a time that is not the first of a day by its own clock is refused."""
    chunk: Any = data
    for key in ("sink", "strategy", "backfill", "chunk"):
        chunk = chunk.get(key) if isinstance(chunk, Mapping) else None
    if not isinstance(chunk, Mapping) or chunk.get("kind") != "date":
        return {}
    days: dict[str, str] = {}
    parts: list[Finding] = []
    for key in ("from", "to"):
        text = chunk.get(key)
        token = _TOKEN.fullmatch(text.strip()) if isinstance(text, str) else None
        end = {"data_interval_start": "start", "data_interval_end": "end"}.get(token[1] if token else "", "")
        moment: datetime | None = getattr(interval, end, None)
        if moment is None:
            continue
        if (before := _day_before(moment)) == moment.date():
            place = f"{FLAGS[end]} or {VARIABLES[end]}"
            parts.append(Finding(place, f"{moment.isoformat()} is in the middle of a day", _DAY_FORM))
        days[key] = (before if key == "to" else moment.date()).isoformat()
    if parts:
        raise IntervalInvalid("the window is of kind `date`, which has whole days", findings=parts)
    return days


def _day_before(moment: datetime) -> date:
    """The day of the last instant before a moment, by the moment's own clock, whatever its zone does that day."""
    return (moment.astimezone(UTC) - timedelta(microseconds=1)).astimezone(moment.tzinfo).date()
