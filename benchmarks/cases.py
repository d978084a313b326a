"""Which cases there are, what they are called, and which contenders run in each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from typing import Literal

Route = Literal["pg", "mssql"]
Shape = Literal["narrow", "wide", "mb", "sparse"]
Key = Literal["int", "uuid"]

WIRE, OURS, MERGE, DLT, DLT_DEFAULT, COMMANDS = "wire", "ours", "merge", "dlt", "dlt-default", "commands"
# In the order in which they run within a repeat.
CONTENDERS = (WIRE, OURS, MERGE, DLT, DLT_DEFAULT)
_FORM = re.compile(r"(pg|mssql)-(narrow|wide|mb|sparse)-(int|uuid)-(\d+)(k|m)?-(\d+)c-(\d+)l", re.ASCII)
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}
COMMANDS_CASE = "pg-commands"


@dataclass(frozen=True, order=True)
class Case:
    """One table, cut into so many chunks and loaded by so many lanes.

    Attributes:
        route: Of the target; the source is always PostgreSQL.
        shape: `narrow` (6 columns), `wide` (24 columns), `mb` (a text of 1 MB in each row), or `sparse`: narrow, with
            every row in the first chunk, so that all others are empty.
        key: Type of the key, which is the chunk column too.
        rows: Of the source.
        chunks: Of the plan.
        lanes: Processes that load at once.
    """

    route: Route
    shape: Shape
    key: Key
    rows: int
    chunks: int
    lanes: int

    @property
    def name(self) -> str:
        """Such as `pg-narrow-int-1m-16c-2l`."""
        return f"{self.route}-{self.table}-{self.chunks}c-{self.lanes}l"

    @property
    def table(self) -> str:
        """The source table's part of the name."""
        return f"{self.shape}-{self.key}-{short(self.rows)}"

    @classmethod
    def parse(cls, name: str) -> Case:
        """The case of a name.

        Args:
            name: As `name` writes it.

        Raises:
            ValueError: It is none.
        """
        found = _FORM.fullmatch(name)
        if found is None:
            raise ValueError(f"`{name}` is not a case's name; one is pg-narrow-int-1m-16c-2l")
        route, shape, key, number, unit, chunks, lanes = found.groups()
        return cls(route, shape, key, int(number) * _UNITS[unit or ""], int(chunks), int(lanes))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Entry:
    """A case, and who runs in it.

    Attributes:
        case: None for the one that times commands.
        contenders: In their order.
    """

    case: Case | None
    contenders: tuple[str, ...]

    @property
    def name(self) -> str:
        """The case's."""
        return self.case.name if self.case else COMMANDS_CASE


def short(rows: int) -> str:
    """A number of rows as it stands in names: 1m, 50k, 300."""
    for unit in ("m", "k"):
        if rows and rows % _UNITS[unit] == 0:
            return f"{rows // _UNITS[unit]}{unit}"
    return str(rows)


def contenders_of(route: Route) -> tuple[str, ...]:
    """Who can run on a route; dlt runs to PostgreSQL only."""
    return CONTENDERS if route == "pg" else (WIRE, OURS, MERGE)


# What `make bench` runs: each goal has its case, and each axis a neighbour of the first case.
_DEFAULT = (
    ("pg-narrow-int-1m-16c-2l", "wire ours merge dlt dlt-default"),
    ("pg-narrow-int-1m-16c-1l", "wire ours"),
    ("pg-narrow-int-1m-16c-4l", "wire ours"),
    ("pg-narrow-int-1m-128c-2l", "wire ours merge"),
    ("pg-narrow-uuid-1m-16c-2l", "wire ours"),
    ("pg-wide-int-1m-16c-2l", "wire ours"),
    ("pg-narrow-int-5m-16c-2l", "wire ours merge dlt dlt-default"),
    ("pg-wide-int-5m-16c-2l", "wire ours"),
    ("pg-narrow-int-5m-1024c-2l", "wire ours"),
    ("pg-sparse-int-1k-400c-1l", "ours"),
    ("pg-narrow-int-1m-1c-1l", "ours"),
    ("pg-narrow-int-5m-1c-1l", "ours"),
    ("pg-mb-int-300-1c-1l", "ours"),
    (COMMANDS_CASE, COMMANDS),
    ("mssql-narrow-int-1m-16c-2l", "wire ours merge"),
    ("mssql-narrow-int-5m-16c-2l", "wire ours"),
    ("mssql-wide-uuid-1m-16c-2l", "wire ours"),
    ("mssql-sparse-int-1k-400c-1l", "ours"),
    ("mssql-narrow-int-1m-1c-1l", "ours"),
    ("mssql-narrow-int-5m-1c-1l", "ours"),
    ("mssql-mb-int-300-1c-1l", "ours"),
)
# Patterns look through the default list, or with `grid:` before them through every combination of these.
_GRID_PREFIX = "grid:"
_GRID: tuple[
    tuple[Route, ...], tuple[Shape, ...], tuple[Key, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]
] = (
    ("pg", "mssql"),
    ("narrow", "wide"),
    ("int", "uuid"),
    (1_000_000, 5_000_000),
    (16, 128, 1024),
    (1, 2, 4),
)


def default_entries() -> list[Entry]:
    """What runs if nothing is asked for."""
    return [Entry(None if name == COMMANDS_CASE else Case.parse(name), tuple(who.split())) for name, who in _DEFAULT]


def grid_entries() -> Iterator[Entry]:
    """Every combination of the axes, with everybody who can run there."""
    for values in product(*_GRID):
        case = Case(*values)
        yield Entry(case, contenders_of(case.route))


def chosen_entries(cases: str, contenders: str) -> list[Entry]:
    """What was asked for.

    Args:
        cases: Parted by commas: patterns, for cases of the list with its contenders, or full names, for everybody who
            can run there. Empty for the list.
        contenders: Patterns of those that are kept; empty for all.

    Raises:
        ValueError: A pattern finds nothing.
    """
    entries = default_entries() if not cases else [entry for word in _words(cases) for entry in _found(word)]
    patterns = _words(contenders) or ["*"]
    known = list(dict.fromkeys(who for entry in entries for who in entry.contenders))
    for pattern in patterns:
        if not any(fnmatchcase(who, pattern) for who in known):
            raise ValueError(f"no contender of these cases is `{pattern}`; they are {', '.join(known)}")
    unique = {entry.name: entry for entry in reversed(entries)}
    chosen = [unique[name] for name in dict.fromkeys(entry.name for entry in entries)]
    return [kept for entry in chosen if (kept := _only(entry, patterns)).contenders]


def _found(pattern: str) -> list[Entry]:
    if pattern == COMMANDS_CASE:
        return [Entry(None, (COMMANDS,))]
    everything = pattern.startswith(_GRID_PREFIX)
    known = grid_entries() if everything else default_entries()
    found = [entry for entry in known if fnmatchcase(entry.name, pattern.removeprefix(_GRID_PREFIX))]
    if found and pattern not in {entry.name for entry in found}:
        return found
    case = Case.parse(pattern)
    return [Entry(case, contenders_of(case.route))]


def _only(entry: Entry, patterns: Sequence[str]) -> Entry:
    kept = (who for who in entry.contenders if any(fnmatchcase(who, pattern) for pattern in patterns))
    return Entry(entry.case, tuple(kept))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
