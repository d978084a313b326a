"""The goals, each as a number out of one bench, with what it is calculated from; missed ones are said to be missed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.cases import COMMANDS, COMMANDS_CASE, DLT, DLT_DEFAULT, MERGE, OURS, WIRE, Case, short
from benchmarks.figures import Spread, paired_ratio, spread
from benchmarks.results import Results

LOAD, WHOLE = "load_seconds", "seconds"
_PG_1M, _PG_5M = "pg-narrow-int-1m-16c-2l", "pg-narrow-int-5m-16c-2l"
_MSSQL_1M, _MSSQL_5M = "mssql-narrow-int-1m-16c-2l", "mssql-narrow-int-5m-16c-2l"
_MANY, _MOST = "pg-narrow-int-1m-128c-2l", "pg-narrow-int-5m-1024c-2l"
_LANE_BYTES = "lane_peak_bytes"
_MB = 1_000_000
_NAMES = {LOAD: "first claim to last commit", WHOLE: "end to end"}


@dataclass(frozen=True)
class Goal:
    """One goal.

    Attributes:
        what: It.
        sign: Which side of the bound is right.
        bound: The bound.
        unit: Of bound and value: "" for a ratio, else ` ms`, ` s`, ` MB`.
        value: What was measured; None if it was not.
        origin: Cases, contenders and measures that it comes from.
    """

    what: str
    sign: Literal["≥", "≤", ">"]
    bound: float
    unit: str
    value: Spread | None
    origin: str

    @property
    def reached(self) -> bool | None:
        """Whether the median is on the right side; None if it was not measured."""
        if self.value is None:
            return None
        right = {"≥": self.value.median >= self.bound, ">": self.value.median > self.bound}
        return right.get(self.sign, self.value.median <= self.bound)


def judged(results: Results) -> list[Goal]:
    """Every goal, in the order of the page.

    Args:
        results: Of one commit.
    """
    parts: Sequence[Callable[[Results], Iterator[Goal]]] = (_wire, _merge, _dlt, _linear, _fixed, _memory, _commands)
    return [goal for part in parts for goal in part(results)]


def times_as_fast(results: Results, case: str, other: str, measure: str) -> Spread | None:
    """How many times as fast ours is as another contender, repeat by repeat.

    Args:
        results: Of one commit.
        case: Its name.
        other: The contender.
        measure: Seconds.
    """
    return paired_ratio(results.by_repeat(case, other, measure), results.by_repeat(case, OURS, measure))


def _against(results: Results, case: str, other: str, measure: str, bound: float) -> Goal:
    rows = short(Case.parse(case).rows).upper()
    what = f"{_route(case)}, {rows} rows: `ours` as fast as `{other}`, {_NAMES[measure]}"
    origin = f"`{case}`: seconds of `{other}` / of `ours`"
    return Goal(what, "≥", bound, "", times_as_fast(results, case, other, measure), origin)


def _wire(results: Results) -> Iterator[Goal]:
    yield _against(results, _PG_5M, WIRE, LOAD, 0.8)
    yield _against(results, _PG_5M, WIRE, WHOLE, 0.6)
    yield _against(results, _MSSQL_5M, WIRE, LOAD, 0.9)
    yield _against(results, _MSSQL_5M, WIRE, WHOLE, 0.7)


def _merge(results: Results) -> Iterator[Goal]:
    for case in (_PG_1M, _PG_5M, _MSSQL_1M):
        yield _against(results, case, MERGE, LOAD, 4)
        yield _against(results, case, MERGE, WHOLE, 4)
    for what, more, less in (("chunks", _MANY, _PG_1M), ("table size", _PG_5M, _PG_1M)):
        over = {case: _ratios(results, case, MERGE) for case in (more, less)}
        origin = f"`merge` / `ours` in `{more}` over the same in `{less}`, {_NAMES[LOAD]}"
        yield Goal(
            f"PostgreSQL: the ratio to `merge` grows with {what}",
            ">",
            1,
            "",
            paired_ratio(over[more], over[less]),
            origin,
        )


def _ratios(results: Results, case: str, other: str) -> dict[int, float]:
    theirs, ours = results.by_repeat(case, other, LOAD), results.by_repeat(case, OURS, LOAD)
    return {n: theirs[n] / ours[n] for n in theirs.keys() & ours.keys()}


def _dlt(results: Results) -> Iterator[Goal]:
    yield _against(results, _PG_5M, DLT, WHOLE, 8)
    yield _against(results, _PG_5M, DLT_DEFAULT, WHOLE, 8)


def _linear(results: Results) -> Iterator[Goal]:
    for case in (_MANY, _MOST):
        first, last = (results.by_repeat(case, OURS, f"chunk_{end}_decile_seconds") for end in ("first", "last"))
        origin = f"`{case}` `ours`: median chunk of the last tenth / of the first tenth"
        yield Goal("PostgreSQL: last decile's chunk / first decile's", "≤", 1.15, "", paired_ratio(last, first), origin)
    for small, large in ((_PG_1M, _PG_5M), (_MSSQL_1M, _MSSQL_5M)):
        for measure in (LOAD, WHOLE):
            ratio = paired_ratio(results.by_repeat(large, OURS, measure), results.by_repeat(small, OURS, measure))
            what = f"{_route(large)}: 5M rows / 1M rows, {_NAMES[measure]}"
            yield Goal(what, "≤", 5.3, "", ratio, f"`ours`: `{large}` / `{small}`")


def _fixed(results: Results) -> Iterator[Goal]:
    for route in ("pg", "mssql"):
        case = f"{route}-sparse-int-1k-400c-1l"
        chunk = _scaled(results, case, OURS, "claim_to_claim_seconds", 1_000)
        origin = f"`{case}` `ours`: median from one claim to the next, so with the event and the next claim"
        yield Goal(f"{_route(case)}: an empty chunk's lane time", "≤", 25, " ms", chunk, origin)
        start = _scaled(results, case, OURS, "run_start_to_first_claim_seconds", 1)
        yield Goal(f"{_route(case)}: run start to first claim", "≤", 5, " s", start, f"`{case}` `ours`")


def _memory(results: Results) -> Iterator[Goal]:
    for route in ("pg", "mssql"):
        one, five = (f"{route}-narrow-int-{rows}-1c-1l" for rows in ("1m", "5m"))
        for case, what in (
            (f"{route}-mb-int-300-1c-1l", "rows of 1 MB"),
            (one, "a chunk of 1M rows"),
            (five, "a chunk of 5M rows"),
        ):
            value = _scaled(results, case, OURS, _LANE_BYTES, 1 / _MB)
            yield Goal(f"{_route(case)}: a lane's memory, {what}", "≤", 200, " MB", value, f"`{case}` `ours`")
        ratio = paired_ratio(results.by_repeat(five, OURS, _LANE_BYTES), results.by_repeat(one, OURS, _LANE_BYTES))
        yield Goal(f"{_route(one)}: the same, 5M rows / 1M rows", "≤", 1.1, "", ratio, f"`ours`: `{five}` / `{one}`")


def _commands(results: Results) -> Iterator[Goal]:
    for name, what in (("help", "--help"), ("plan", "backfill plan` of 512 chunks"), ("status", "backfill status")):
        value = _scaled(results, COMMANDS_CASE, COMMANDS, f"{name}_seconds", 1)
        text = f"`dpone {what}" + ("" if "`" in what else "`")
        yield Goal(text, "≤", 0.4, " s", value, f"`{COMMANDS_CASE}`: median of 10 calls a repeat")


def _scaled(results: Results, case: str, contender: str, measure: str, factor: float) -> Spread | None:
    return spread([value * factor for value in results.by_repeat(case, contender, measure).values()])


def _route(case: str) -> str:
    return "PostgreSQL" if case.startswith("pg-") else "SQL Server"
