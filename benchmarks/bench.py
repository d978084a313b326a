"""Every case, every contender in turn, as often as asked; each result is written down when its run ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import results
from benchmarks.campaigns import Campaigns
from benchmarks.cases import COMMANDS, DLT, DLT_DEFAULT, MERGE, OURS, WIRE, Case, Entry
from benchmarks.commands import CASE as COMMANDS_TABLE
from benchmarks.commands import time_commands
from benchmarks.ground import FOLDER, SOURCE_DATABASE, Ground, Servers, checkpoint, opened_servers
from benchmarks.machine import commit, machine, versions
from benchmarks.others import DLT_TABLE, WIRE_TABLE, Others, install_dlt
from benchmarks.processes import RunFailed
from benchmarks.results import Results, Run, Session
from benchmarks.tables import LIVE, fill_source
from dpone_dagster.campaign.errors import DponeError

_DLTS = (DLT, DLT_DEFAULT)
Measured = tuple[dict[str, float], dict[str, float]]


@dataclass(frozen=True)
class Asked:
    """What to run.

    Attributes:
        entries: Cases and contenders.
        repeats: Of each.
        budget_seconds: No run is begun after it.
    """

    entries: tuple[Entry, ...]
    repeats: int
    budget_seconds: float


@dataclass(frozen=True)
class Turn:
    """One run that is to be made."""

    entry: Entry
    contender: str
    repeat: int


def turns(asked: Asked, done: Results, of_commit: str) -> list[Turn]:
    """What is left to run: all contenders of a case one after the other, all cases, then the next repeat.

    Args:
        asked: Everything.
        done: What is there already.
        of_commit: What is measured now.
    """
    keys = {run.key for run in done.runs}
    return [
        Turn(entry, contender, repeat)
        for repeat in range(1, asked.repeats + 1)
        for entry in asked.entries
        for contender in entry.contenders
        if (of_commit, entry.name, contender, repeat) not in keys
    ]


def bench(asked: Asked, file: Path) -> int:
    """Run what is left; returns how many runs failed.

    Args:
        asked: What to run.
        file: Where results go, and where those of before are.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + asked.budget_seconds
    left = turns(asked, results.read(file), commit())
    routes = frozenset(turn.entry.case.route for turn in left if turn.entry.case)
    absent = install_dlt(FOLDER) if any(turn.contender in _DLTS for turn in left) else None
    failed, load = 0, round(os.getloadavg()[0], 1)
    with opened_servers(routes) as servers:
        began = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z"
        session = Session(began, commit(), machine(), versions(absent), servers.facts, load)
        results.append(file, session)
        for turn in _possible(left, servers, absent):
            if time.monotonic() > deadline:
                print("the budget is spent; `make bench` goes on from here", flush=True)
                break
            try:
                results.append(file, _run(turn, servers, session))
            except (RunFailed, DponeError, ValueError) as error:
                failed += 1
                print(f"  FAILED: {error}", flush=True)
    return failed


def _possible(left: list[Turn], servers: Servers, absent: str | None) -> Iterator[Turn]:
    told: set[str] = set()
    for turn in left:
        route = turn.entry.case.route if turn.entry.case else "pg"
        reason = "there is no SQL Server" if route not in servers.grounds else None
        if turn.contender in _DLTS and absent:
            reason = f"dlt is {absent}"
        if reason is None:
            yield turn
        elif reason not in told:
            told.add(reason)
            print(f"left out: {reason}", flush=True)


def _run(turn: Turn, servers: Servers, session: Session) -> Run:
    case = turn.entry.case or COMMANDS_TABLE
    source_bytes = fill_source(servers.source, SOURCE_DATABASE, case)
    ground = servers.grounds[case.route]
    ground.make(case)
    try:
        before = ground.written()
        measures, phases = _contender(turn, case, ground.url, servers)()
        after = ground.written()
        if turn.contender != COMMANDS:
            _prove_rows(ground, turn, case)
            measures |= {"rows": float(case.rows), "source_bytes": float(source_bytes)}
        if before is not None and after is not None:
            measures["log_bytes"] = float(after - before)
    finally:
        ground.drop()
        checkpoint(servers.source)
    _say(turn, measures)
    rounded = {name: round(value, 4) for name, value in measures.items()}
    steps = {name: round(value, 4) for name, value in phases.items()}
    return Run(session.session, session.commit, turn.entry.name, turn.contender, turn.repeat, rounded, steps)


def _contender(turn: Turn, case: Case, target: str, servers: Servers) -> Callable[[], Measured]:
    source = servers.source.url(SOURCE_DATABASE)
    campaigns, others = Campaigns(FOLDER, source, target), Others(FOLDER, source, target)
    return {
        WIRE: lambda: (others.wire(case, campaigns.manifest(case, OURS)), {}),
        OURS: lambda: campaigns.run(case, OURS),
        MERGE: lambda: campaigns.run(case, MERGE),
        **dict.fromkeys(_DLTS, lambda: (others.dlt(case, turn.contender), {})),
        COMMANDS: lambda: (time_commands(campaigns), {}),
    }[turn.contender]


def _prove_rows(ground: Ground, turn: Turn, case: Case) -> None:
    found = ground.rows({WIRE: WIRE_TABLE, **dict.fromkeys(_DLTS, DLT_TABLE)}.get(turn.contender, LIVE))
    if found != case.rows:
        raise RunFailed(f"{turn.contender} has left {found:,} rows where {case.rows:,} were to be loaded")


def _say(turn: Turn, measures: dict[str, float]) -> None:
    told = [f"{turn.entry.name} {turn.contender} #{turn.repeat}:"]
    told += [
        f"{name.removesuffix('_seconds')} {measures[name]:.2f} s"
        for name in ("seconds", "load_seconds", "help_seconds", "plan_seconds", "status_seconds")
        if name in measures
    ]
    print(" ".join(told), flush=True)
