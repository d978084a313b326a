"""What was measured, a JSON line a run, written when the run ends, so that an interrupted bench can go on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Session:
    """One call of `make bench`.

    Attributes:
        session: Its name, the moment at which it began.
        commit: Of what was measured; ends in `+` and a digest where files differ from it.
        machine: Processors, memory, system.
        versions: Of whatever takes part.
        servers: Facts of each.
        load: The machine's load average at that moment: what others were doing.
    """

    session: str
    commit: str
    machine: str
    versions: Mapping[str, str]
    servers: Mapping[str, Mapping[str, str]]
    load: float


@dataclass(frozen=True)
class Run:
    """One run of one contender.

    Attributes:
        session: In which it was made.
        commit: Likewise.
        case: Its name.
        contender: Who.
        repeat: From 1.
        measures: Numbers by name; units are in the names, `seconds` and `load_seconds` among them.
        phases: Seconds from one mark of the run to the next, in order; empty where nobody tells.
    """

    session: str
    commit: str
    case: str
    contender: str
    repeat: int
    measures: Mapping[str, float]
    phases: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What a bench that goes on does not run again."""
        return self.commit, self.case, self.contender, self.repeat


@dataclass(frozen=True)
class Results:
    """Everything in a file.

    Attributes:
        sessions: In order.
        runs: In order; of two with one key the later one counts.
    """

    sessions: Sequence[Session]
    runs: Sequence[Run]

    def of_last_commit(self) -> Results:
        """Only what was measured of the commit that was measured last."""
        commit = self.runs[-1].commit if self.runs else ""
        runs = [run for run in self.runs if run.commit == commit]
        named = {run.session for run in runs}
        return Results([session for session in self.sessions if session.session in named], runs)

    def by_repeat(self, case: str, contender: str, measure: str) -> dict[int, float]:
        """One measure of one contender in one case, by repeat."""
        found = (run for run in self.runs if (run.case, run.contender) == (case, contender))
        return {run.repeat: run.measures[measure] for run in found if measure in run.measures}


def append(file: Path, entry: Session | Run) -> None:
    """Write one entry at the end of the file, at once.

    Args:
        file: Made if it is not there.
        entry: What was learned.
    """
    kind = "session" if isinstance(entry, Session) else "run"
    with file.open("a") as lines:
        lines.write(json.dumps({"kind": kind, **asdict(entry)}) + "\n")


def read(file: Path) -> Results:
    """What a file has; nothing if there is none.

    Args:
        file: As `append` writes it.
    """
    return parse(file.read_text().splitlines() if file.exists() else [])


def parse(lines: Iterable[str]) -> Results:
    """The entries of some lines; a last line that was cut off is left out."""
    sessions: list[Session] = []
    runs: dict[tuple[str, str, str, int], Run] = {}
    for line in lines:
        entry = _entry(line)
        if isinstance(entry, Session):
            sessions.append(entry)
        elif entry is not None:
            runs[entry.key] = entry
    return Results(sessions, list(runs.values()))


def _entry(line: str) -> Session | Run | None:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return Session(**found) if found.pop("kind") == "session" else Run(**found)
