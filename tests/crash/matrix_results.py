"""What the matrix has found, as a page of the papers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.observer import Seen

PAGE_VARIABLE = "DPONE_MATRIX_PAGE"
_ACTIONS = ("kill", "stop", "raise")


@dataclass(frozen=True)
class Case:
    """One case: what was done where, what the victim said in the end, what the reader saw."""

    server: str
    point: str
    step: str
    action: str
    said: str
    seen: Seen


@dataclass
class Results:
    """Cases in the order in which they were played; only those that passed count."""

    cases: list[Case] = field(default_factory=list)

    def add(self, case: Case) -> None:
        """One more that passed."""
        self.cases.append(case)

    def write(self) -> None:
        """Write the page that the environment names, if it names one."""
        if page := os.environ.get(PAGE_VARIABLE):
            Path(page).write_text("\n".join(self._lines()) + "\n")

    def _lines(self) -> Iterator[str]:
        yield "# The matrix, as it was last played"
        yield ""
        yield "Written by `make matrix`. [reliability.md](reliability.md) says what a case is and what it proves."
        for server in dict.fromkeys(case.server for case in self.cases):
            cases = [case for case in self.cases if case.server == server]
            looks, longest = sum(c.seen.looks for c in cases), max(c.seen.longest_seconds for c in cases)
            yield from ("", f"## {server}", "")
            yield f"{len(cases)} cases, all passed. The reader looked {looks:,} times, saw old or new rows only, and"
            yield f"waited {longest:.2f} s at most. In each cell: the reader's longest wait; and what the process said"
            yield "that was stopped, released, taken over and continued."
            yield from ("", "| point | kill | stop | raise |", "|---|---|---|---|")
            for point, step in dict.fromkeys((c.point, c.step) for c in cases):
                found = {c.action: c for c in cases if (c.point, c.step) == (point, step)}
                name = f"`{point}`" if step == "run" else f"`{point}` ({step})"
                yield f"| {name} | {' | '.join(_cell(found.get(action)) for action in _ACTIONS)} |"


def _cell(case: Case | None) -> str:
    if case is None:
        return "-"
    said = f", `{case.said}`" if case.action == "stop" else ""
    return f"{case.seen.longest_seconds:.2f} s{said}"
