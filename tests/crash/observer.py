"""A reader of the live table in a process of its own: looks without pause until its input ends, then says what it saw.

python -m tests.crash.observer KIND TARGET
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Self

import psycopg

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.mssql.session import Session as MssqlSession
from dpone_dagster.postgres.session import Session as PostgresSession
from tests.orders import Orders

LOOK = "SELECT COUNT(*), SUM(amount) FROM landing.orders"
PAUSE_SECONDS = 0.01
State = tuple[int, str]


@dataclass(frozen=True)
class Seen:
    """What an observer saw.

    Attributes:
        states: Number and sum of the rows, each state once, in the order of its first appearance.
        looks: How often it looked.
        longest_seconds: The longest that it waited for an answer.
        problem: Why it had to stop; empty if it did not.
    """

    states: tuple[State, ...]
    looks: int
    longest_seconds: float
    problem: str


class Observer:
    """Runs beside a test; started once it has had its first look."""

    def __init__(self, orders: Orders) -> None:
        command = [sys.executable, "-m", "tests.crash.observer", type(orders).__name__, orders.target_url]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "looking\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def end(self) -> Seen:
        """Let it have a last look and tell what it saw."""
        said, _ = self._process.communicate("")
        found = json.loads(said)
        return Seen(tuple((count, total) for count, total in found.pop("states")), **found)


def state_of(orders: Orders) -> State:
    """The state of the live table now."""
    ((count, total),) = orders.on_target(LOOK)
    return count, str(total)


def main() -> None:
    kind, url = sys.argv[1:]
    session = MssqlSession(url, "observer") if kind == "MssqlOrders" else PostgresSession(url, "observer")
    states: Counter[State] = Counter()
    longest, problem, told = 0.0, "", False
    while not told and not problem:
        told = bool(select.select([sys.stdin], [], [], PAUSE_SECONDS)[0])
        started = time.monotonic()
        try:
            count, total = _look(session)
            states[count, str(total)] += 1
        except (DponeError, psycopg.Error) as error:  # whatever it is, the live table could not be read
            problem = repr(error)
        longest = max(longest, time.monotonic() - started)
        if states.total() == 1:
            print("looking", flush=True)
    found = {"states": list(states), "looks": states.total(), "longest_seconds": longest, "problem": problem}
    print(json.dumps(found), flush=True)


def _look(session: MssqlSession | PostgresSession) -> tuple[int, object]:
    if isinstance(session, MssqlSession):
        ((count, total),) = session.rows(LOOK, seconds=60)
    else:
        ((count, total),) = session.connection.execute(LOOK.encode()).fetchall()
    return int(count), total


if __name__ == "__main__":
    main()
