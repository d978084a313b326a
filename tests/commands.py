"""`dpone backfill …` as an operator starts it, as processes that can be killed; and what the source server saw."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.orders import Orders
from tests.waiting import PATIENCE_SECONDS

_READ = re.compile(r"\[(\d+)\] .*/\* dpone:read_chunk \w+ chunk=(\d+) epoch=(\d+)")
_END_SECONDS = 600


class Run:
    """One command in a process group of its own; what it prints goes to `run.log`."""

    def __init__(self, orders: Orders, folder: Path, *command: str, faults: Mapping[str, str] | None = None) -> None:
        manifest = orders.write(folder)
        self.log = (folder / "run.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dpone_dagster.cli", "backfill", command[0], str(manifest), *command[1:]],
            cwd=folder,
            env={**os.environ, **orders.environment, "DAGSTER_HOME": str(folder / "dagster"), **(faults or {})},
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )

    def kill(self) -> bool:
        """SIGKILL to run worker, forkserver and lanes at once; False if the run was faster."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        self.log.close()
        assert code in (0, -signal.SIGKILL), self.printed()
        return code != 0

    def end(self) -> None:
        """SIGKILL to whatever of it is left, also lanes without their run."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def wait(self) -> int:
        code = self.process.wait(timeout=_END_SECONDS)
        self.log.close()
        return code

    def wait_for(self, reached: Callable[[], bool]) -> None:
        """Return when it is reached; a run that ends or hangs before is an error."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            assert self.process.poll() is None, self.printed()
            assert time.monotonic() < deadline, self.printed()
            time.sleep(0.1)  # looking must not slow down what is looked at

    def printed(self) -> str:
        """The end of what it printed, and of Dagster's log."""
        folder = Path(self.log.name).parent
        logs = [Path(self.log.name), *sorted((folder / ".dpone" / "logs").glob("*.log"))]
        return "\n".join(log.read_text(errors="replace")[-4000:] for log in logs)


class Read(NamedTuple):
    """One COPY of a chunk, as the source server has logged it."""

    pid: int
    chunk: int
    epoch: int


def reads(log: Path) -> list[Read]:
    """Every COPY of a chunk that the source server saw (where the source logs its statements)."""
    return [Read(*map(int, found)) for found in _READ.findall(log.read_text(errors="replace"))]


def log_statements(orders: Orders) -> None:
    """Let the source database log every statement of sessions from now on."""
    (name,) = orders.on_source("SELECT current_database()")[0]
    orders.on_source(f"ALTER DATABASE {name} SET log_statement = 'all'")
