"""A reader of the live table in a process of its own: what does a dashboard see while the table is being replaced?"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection

import psycopg

from dpone_dagster.campaign.errors import DponeError

_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class State:
    """What one look saw: rows of the older generation and of the new one."""

    old_rows: int
    new_rows: int


@dataclass
class Observations:
    """All that the reader saw.

    Attributes:
        looks: How often it looked.
        states: Each state that differs from the one before it, in order.
        errors: Every error, once.
        longest_look_seconds: The longest that it had to wait for an answer.
        last_look_seconds: The last look, when nothing else went on: what counting alone takes.
    """

    looks: int = 0
    states: list[State] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    longest_look_seconds: float = 0.0
    last_look_seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """As plain data."""
        return asdict(self)

    def add(self, state: State, seconds: float) -> None:
        """One more look."""
        self.looks += 1
        self.last_look_seconds = round(seconds, 3)
        self.longest_look_seconds = max(self.longest_look_seconds, self.last_look_seconds)
        if not self.states or self.states[-1] != state:
            self.states.append(state)


class Reader:
    """Looks at the live table again and again, from `start` to `stop`.

    Args:
        look: Reads the live table once; something that can be sent to another process, where it is called.
        pause_seconds: Between two looks; after a longer look as long as that one, so that looking is no load.
    """

    def __init__(self, look: Callable[[], State], pause_seconds: float = _PAUSE_SECONDS) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        arguments = (look, there, pause_seconds)
        self._process = context.Process(target=_look_until_told, args=arguments, name="reader", daemon=True)
        self._process.start()
        there.close()
        self._here.recv()  # it has looked once

    def stop(self) -> Observations:
        """Let it look a last time and tell what it saw."""
        self._here.send("stop")
        seen = self._here.recv()
        self._process.join()
        if not isinstance(seen, Observations):
            raise TypeError(f"the reader answered {seen!r}")
        return seen


def _look_until_told(look: Callable[[], State], parent: Connection, pause_seconds: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    seen = Observations()
    took = _note(look, seen)
    parent.send("ready")
    while not parent.poll(max(pause_seconds, took)):
        took = _note(look, seen)
    parent.recv()  # raises EOFError where the parent is gone, which ends this process too
    _note(look, seen)
    parent.send(seen)


def _note(look: Callable[[], State], seen: Observations) -> float:
    """Look once; returns how long it took."""
    started = time.monotonic()
    try:
        state = look()
    except (psycopg.Error, DponeError) as error:
        if str(error) not in seen.errors:
            seen.errors.append(str(error))
        return 0.0
    seconds = time.monotonic() - started
    seen.add(state, seconds)
    return seconds
