"""A reader of the live table in a process of its own: what does a dashboard see while the table is being replaced?"""

from __future__ import annotations

import multiprocessing
import signal
import time
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection

import psycopg

from demo.orders import NEW_SINCE

_PAUSE_SECONDS = 0.2
# One statement, so one snapshot: whole generations only, or it would show here.
_LOOK = """
    SELECT count(*) FILTER (WHERE placed_at < %(since)s), count(*) FILTER (WHERE placed_at >= %(since)s)
    FROM landing.orders
"""


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
    """

    looks: int = 0
    states: list[State] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    longest_look_seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """As plain data."""
        return asdict(self)

    def add(self, state: State, seconds: float) -> None:
        """One more look."""
        self.looks += 1
        self.longest_look_seconds = max(self.longest_look_seconds, round(seconds, 3))
        if not self.states or self.states[-1] != state:
            self.states.append(state)


class Reader:
    """Looks at the live table again and again, from `start` to `stop`.

    Args:
        url: The target database.
    """

    def __init__(self, url: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_look_until_told, args=(url, there), name="reader", daemon=True)
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


def _look_until_told(url: str, parent: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    seen = Observations()
    _look(url, seen)
    parent.send("ready")
    while not parent.poll(_PAUSE_SECONDS):
        _look(url, seen)
    parent.recv()  # raises EOFError where the parent is gone, which ends this process too
    _look(url, seen)
    parent.send(seen)


def _look(url: str, seen: Observations) -> None:
    started = time.monotonic()
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute(_LOOK, {"since": NEW_SINCE}).fetchone()
    except psycopg.Error as error:
        if str(error) not in seen.errors:
            seen.errors.append(str(error))
        return
    assert row is not None
    seen.add(State(*row), time.monotonic() - started)
