"""What a campaign is like and what happens to it: every choice comes from its seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from dpone_dagster.campaign.plan import ChunkKind

Action = Literal[
    "kill lane",
    "kill run",
    "kill all",
    "terminate",
    "cancel",
    "restart fast",
    "restart immediate",
    "fault",
    "kill daemon",
]
Route = Literal["engine", "dagster", "daemon"]
FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
DAYS = 90
NUMBERS = 10_000
COLUMN = {"uuid": "id", "integer": "n", "date": "day", "timestamp": "placed_at"}
# By the last digit of the seed; the others take the engine's.
ROUTES: Mapping[int, Route] = {0: "dagster", 3: "daemon"}
_FAULTS = (
    ("after_claim", "mid_extract", "after_stage", "before_chunk_commit", "after_chunk_commit", "after_ledger"),
    ("after_seal", "after_indexes", "before_validated", "after_validated", "between_renames"),
    ("before_publication_commit", "after_publication_commit", "before_checkpoint", "after_checkpoint"),
)
_INCREMENT_FAULTS = (None, None, "before_increment_commit", "after_increment_commit")
_ACTIONS = get_args(Action)
_WEIGHTS = (4, 2, 3, 2, 2, 1, 1, 5, 0)
# What happens after the first event where daemons drive a backfill; instead of everything else a daemon is killed.
_BESIDE_A_DAEMON = frozenset({"kill lane", "restart fast", "restart immediate"})


@dataclass(frozen=True)
class Event:
    """What happens to one run.

    Attributes:
        action: What.
        progress: Once this part of the chunks that were left is committed; 0 for while it starts.
        delay_seconds: So much later. A run that has ended by then goes unharmed.
        fault: For `fault`: as `DPONE_FAULT` has it.
    """

    action: Action
    progress: float
    delay_seconds: float
    fault: str = ""

    def __str__(self) -> str:
        return self.fault if self.action == "fault" else f"{self.action} at {self.progress:.0%}"


@dataclass(frozen=True)
class Shape:
    """One campaign.

    Attributes:
        key: The unique key; where it lacks the chunk column, no row ever moves.
        skew: 0 for rows spread evenly; the higher, the more of them are in few chunks.
        writes: Whether the source is written to meanwhile.
        increment_fault: Where the first increment is killed.
        route: What drives it: the engine's use cases in plain processes, `dpone` with Dagster, or a partition backfill
            that Dagster's daemons carry out.
    """

    seed: int
    kind: ChunkKind
    key: tuple[str, ...]
    rows: int
    chunks: int
    lanes: int
    skew: float
    writes: bool
    events: tuple[Event, ...]
    increment_fault: str | None
    route: Route

    @property
    def chunk(self) -> dict[str, Any]:
        """The manifest's `chunk` block."""
        block: dict[str, Any] = {"column": COLUMN[self.kind], "kind": self.kind}
        if self.kind == "uuid":
            return block | {"buckets": self.chunks}
        block["immutable"] = COLUMN[self.kind] not in self.key
        if self.kind == "integer":
            return block | {"from": "0", "to": str(NUMBERS - 1), "step": str(-(-NUMBERS // self.chunks))}
        last = FIRST_DAY + timedelta(days=DAYS - 1 if self.kind == "date" else DAYS)
        if self.kind == "date":
            step = f"{-(-DAYS // self.chunks)}d"
            return block | {"from": f"{FIRST_DAY:%Y-%m-%d}", "to": f"{last:%Y-%m-%d}", "step": step}
        return block | {
            "from": FIRST_DAY.isoformat(),
            "to": last.isoformat(),
            "step": f"{-(-DAYS * 24 // self.chunks)}h",
        }

    def __str__(self) -> str:
        happens = ", ".join(map(str, self.events)) or "nothing"
        return (
            f"{self.rows} rows, ~{self.chunks} {self.kind} chunks (skew {self.skew:.1f}), {self.lanes} lanes, "
            f"{self.route}{', writes' if self.writes else ''}: {happens}"
        )


def shape_of(seed: int) -> Shape:
    """The campaign of a seed."""
    dice = random.Random(seed)
    route = ROUTES.get(seed % 10, "engine")
    kind: ChunkKind = dice.choice(("uuid", "integer", "date", "timestamp"))
    column = COLUMN[kind]
    key = ("id",) if column == "id" or dice.random() < 0.5 else ("id", column)
    chunks = dice.choice((1, dice.randint(2, 60), dice.randint(20, 60)))
    return Shape(
        seed=seed,
        kind=kind,
        key=key,
        rows=dice.choices((0, 1, dice.randint(2, 300), dice.randint(300, 4_000)), (1, 1, 3, 10))[0],
        chunks=chunks,
        lanes=dice.randint(1, 4),
        skew=dice.choice((0.0, 1.0, 5.0)),
        writes=dice.random() < 0.8,
        events=tuple(_on(route, number, _event(dice, chunks)) for number in range(dice.randint(1, 4))),
        increment_fault=dice.choice(_INCREMENT_FAULTS),
        route=route,
    )


def _on(route: Route, number: int, event: Event) -> Event:
    if route != "daemon" or (number > 0 and event.action in _BESIDE_A_DAEMON):
        return event
    return replace(event, action="kill daemon", fault="")


def _event(dice: random.Random, chunks: int) -> Event:
    (action,) = dice.choices(_ACTIONS, _WEIGHTS)
    fault = ""
    if action == "fault":
        points = dice.choice(_FAULTS)
        point = dice.choice(points)
        chunk = f":{dice.randrange(chunks)}" if points is _FAULTS[0] else ""
        fault = f"{point}{chunk}={dice.choice(('kill', 'kill', 'drop', 'raise'))}"
    starting = dice.random() < 0.2
    progress, delay = (0.0, dice.uniform(0, 1.5)) if starting else (dice.uniform(0, 0.95), dice.choice((0.0, 0.02)))
    return Event(action, progress, delay, fault)
