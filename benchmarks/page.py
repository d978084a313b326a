"""Writes docs/benchmarks.md from results: `python -m benchmarks.page`. The same results give the same page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import results as stored
from benchmarks import wording
from benchmarks.cases import COMMANDS, CONTENDERS, MERGE, OURS, WIRE
from benchmarks.figures import Spread, paired_ratio, spread
from benchmarks.goals import LOAD, WHOLE, Goal, judged
from benchmarks.results import Results, Session
from demo.place import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
_RESULTS = ROOT / ".dpone" / "bench" / "results.jsonl"
_VERDICTS = {True: "yes", False: "**no**", None: "not measured"}


def write_page(results: Path = _RESULTS) -> Path:
    """Write it, of the commit that was measured last; returns where.

    Args:
        results: The file of results.
    """
    PAGE.write_text(render(stored.read(results).of_last_commit()))
    return PAGE


def render(results: Results) -> str:
    """The page.

    Args:
        results: Of one commit.
    """
    parts = (
        [wording.TITLE],
        _ground(results.sessions, results),
        ["## Goals", wording.GOALS, _table(wording.GOAL_COLUMNS, map(_goal, judged(results)))],
        ["## What was measured", wording.CONTENDERS, *_cases(results)],
        ["## Chunks of our campaigns", wording.CHUNKS, _table(wording.CHUNK_COLUMNS, _chunks(results))],
        ["## Where the seconds of a campaign go", wording.PHASES, *_phases(results)],
        ["## Commands", _table(wording.COMMAND_COLUMNS, _commands(results))],
        [wording.NOT_MEASURED],
    )
    return "\n\n".join(text for part in parts for text in part if text) + "\n"


# ---------------------------------------------------------------- its parts


def _ground(sessions: Sequence[Session], results: Results) -> Iterator[str]:
    yield "## Machine, versions, how to repeat"
    commits = ", ".join(f"`{commit}`" for commit in dict.fromkeys(session.commit for session in sessions))
    yield wording.REPEAT
    facts = [f"Commit, the last that touched the code: {commits or 'none'}; {len(results.runs)} runs"]
    facts += [f"Machine: {machine}" for machine in dict.fromkeys(session.machine for session in sessions)]
    loads = [f"{session.load:g} at {session.session}" for session in sessions]
    facts.append(f"Load of the machine when it began: {', '.join(loads) or 'none'}")
    versions = {name: text for session in sessions for name, text in session.versions.items()}
    facts.append("Versions: " + ", ".join(f"{name} {text}" for name, text in versions.items()))
    servers = {name: told for session in sessions for name, told in session.servers.items()}
    facts += [
        f"{name}: " + ", ".join(f"{key} {value}" for key, value in told.items()) for name, told in servers.items()
    ]
    yield "\n".join(f"* {fact}" for fact in facts)


def _goal(goal: Goal) -> Sequence[str]:
    bound = f"{goal.sign} {goal.bound:g}{goal.unit}"
    return goal.what, bound, _value(goal.value, goal.unit), _VERDICTS[goal.reached], goal.origin


def _cases(results: Results) -> Iterator[str]:
    for case in _case_names(results, CONTENDERS):
        yield f"### `{case}`"
        rows = (_case_row(results, case, who) for who in CONTENDERS if results.by_repeat(case, who, WHOLE))
        yield _table(wording.CASE_COLUMNS, rows)


def _case_row(results: Results, case: str, who: str) -> Sequence[str]:
    def of(measure: str) -> Spread | None:
        return spread(list(results.by_repeat(case, who, measure).values()))

    rate = _rates(results, case, who, LOAD, "rows")
    whole_rate = _rates(results, case, who, WHOLE, "rows")
    megabytes = _rates(results, case, who, LOAD, "source_bytes")
    against = paired_ratio(results.by_repeat(case, OURS, WHOLE), results.by_repeat(case, who, WHOLE))
    seconds = of(WHOLE)
    return (
        f"`{who}`",
        str(seconds.runs) if seconds else "",
        _value(seconds, " s"),
        _value(of(LOAD), " s"),
        _number(whole_rate),
        _number(rate),
        _number(megabytes, 1e-6),
        f"{against.median:.2f}" if against else "",
        _value(of("with_index_seconds"), " s"),
        _value(of("client_cpu_seconds"), " s"),
        _value(of("lanes_cpu_seconds"), " s"),
        _number(of("lane_peak_bytes"), 1e-6),
        _number(of("peak_total_bytes"), 1e-6),
        _number(of("log_bytes"), 1e-6),
    )


def _chunks(results: Results) -> Iterator[Sequence[str]]:
    for case in _case_names(results, CONTENDERS):
        for who in CONTENDERS:
            names = (
                "chunk_median",
                "chunk_first_decile",
                "chunk_last_decile",
                "chunk_max",
                "claim_to_claim",
                "lanes_apart",
            )
            found = [spread(list(results.by_repeat(case, who, f"{name}_seconds").values())) for name in names]
            if found[0] is not None and who in (WIRE, OURS, MERGE):
                yield f"`{case}`", f"`{who}`", *(_milliseconds(value) for value in found)


def _phases(results: Results) -> Iterator[str]:
    named = [run for run in results.runs if run.phases]
    for table in dict.fromkeys((run.contender, run.case.partition("-")[0]) for run in named):
        who, route = table
        mine = [run for run in named if run.contender == who and run.case.startswith(f"{route}-")]
        runs = {case: [run.phases for run in mine if run.case == case] for case in dict.fromkeys(r.case for r in mine)}
        names = dict.fromkeys(name for run in mine for name in run.phases)
        columns = [f"`{who}` in `{route}-`", *(f"`{case.removeprefix(f'{route}-')}`" for case in runs)]
        yield _table(columns, ([name, *(_phase(found, name) for found in runs.values())] for name in names))


def _phase(runs: Sequence[Mapping[str, float]], name: str) -> str:
    found = spread([phases[name] for phases in runs if name in phases])
    return f"{found.median:.2f}" if found else ""


def _commands(results: Results) -> Iterator[Sequence[str]]:
    for case in _case_names(results, (COMMANDS,)):
        for name in ("help", "plan", "status"):
            found = spread(list(results.by_repeat(case, COMMANDS, f"{name}_seconds").values()))
            yield name, _value(found, " s")


# ---------------------------------------------------------------- numbers and tables


def _case_names(results: Results, contenders: Iterable[str]) -> list[str]:
    wanted = set(contenders)
    return list(dict.fromkeys(run.case for run in results.runs if run.contender in wanted))


def _rates(results: Results, case: str, who: str, seconds: str, amount: str) -> Spread | None:
    """Amount a second, run by run."""
    return paired_ratio(results.by_repeat(case, who, amount), results.by_repeat(case, who, seconds))


def _value(value: Spread | None, unit: str) -> str:
    if value is None:
        return ""
    digits = 0 if unit in (" MB", " ms") and value.median >= 100 else 2
    spread_text = f" ({value.low:.{digits}f} to {value.high:.{digits}f})" if value.runs > 1 else ""
    return f"{value.median:.{digits}f}{unit}{spread_text}"


def _milliseconds(value: Spread | None) -> str:
    return f"{value.median * 1_000:.1f}" if value else ""


def _number(value: Spread | None, factor: float = 1.0) -> str:
    return f"{value.median * factor:,.0f}" if value else ""


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    if not lines:
        return "Not measured."
    head = "| " + " | ".join(columns) + " |"
    return "\n".join([head, "|" + "---|" * len(columns), *lines])


if __name__ == "__main__":
    print(write_page())
