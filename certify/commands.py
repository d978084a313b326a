"""`dpone backfill …` as an operator types it; a run may be killed, all its processes at once, as by a lost host."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from certify.measurements import FAILED, Crash, Step
from dpone_dagster.faultpoints import ALLOW_VARIABLE, FAULT_VARIABLE, MARKS_VARIABLE

_LOOK_SECONDS = 0.01


class Operator:
    """Types commands, one after the other, and keeps a list of them.

    Args:
        manifest: The campaign's.
        environment: With the connections.
        folder: Where Dagster's files, the marks of fault points and what the commands print go.
        ask_why: Tells what is known of a run that has failed by itself.

    Attributes:
        steps: What was typed.
        crashes: What was asked for, and whether it happened.
    """

    def __init__(
        self, manifest: Path, environment: Mapping[str, str], folder: Path, ask_why: Callable[[], str]
    ) -> None:
        self._manifest = manifest
        self._ask_why = ask_why
        self._environment = {**environment, "DAGSTER_HOME": str(folder / "dagster")}
        self._marks = folder / "marks"
        self._marks.mkdir()
        self._log = folder / "commands.log"
        self.steps: list[Step] = []
        self.crashes: list[Crash] = []

    def crash(self, point: str, chunk: int | None) -> Step:
        """Type the next command, and kill its run at a fault point, if it comes there.

        Args:
            point: Where.
            chunk: With which chunk in hand; None for any, or for a campaign's point.
        """
        fault = point if chunk is None else f"{point}:{chunk}"
        # The process stops there, so that it cannot go on before it is killed with all the others.
        faults = {ALLOW_VARIABLE: "1", FAULT_VARIABLE: f"{fault}=stop", MARKS_VARIABLE: str(self._marks)}
        step = self._type(faults, fault)
        self.crashes.append(Crash(point=point, chunk=chunk, killed=step.killed_at is not None))
        return step

    def finish(self) -> Step:
        """Type the next command and let it end."""
        return self._type({}, None)

    def _type(self, faults: Mapping[str, str], fault: str | None) -> Step:
        verb = ("resume",) if self.steps else ("run", "--execute")
        words = ["backfill", verb[0], str(self._manifest), *verb[1:]]
        command = " ".join(("dpone", *words))
        print(f"▸ {command}" + (f", killed at {fault}" if fault else ""), flush=True)
        started = time.monotonic()
        with self._log.open("ab") as log:
            log.write(f"--- {command} {fault or ''}\n".encode())
            log.flush()
            process = subprocess.Popen(
                [sys.executable, "-m", "dpone_dagster.cli", *words],
                env={**self._environment, **faults},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            killed = fault is not None and self._reached(process, self._marks / fault)
            if killed:
                _kill(process)
            code = process.wait()
        finally:
            _kill(process)
        seconds = round(time.monotonic() - started, 1)
        failure = self._ask_why() if code == FAILED else None
        step = Step(
            command=command, killed_at=fault if killed else None, exit_code=code, seconds=seconds, failure=failure
        )
        self.steps.append(step)
        print(f"  {'killed' if killed else f'exit code {code}'} after {seconds:.1f} s {failure or ''}", flush=True)
        return step

    def _reached(self, process: subprocess.Popen[bytes], mark: Path) -> bool:
        """Wait until the fault point is reached; False if the command ends before."""
        while not mark.exists():
            if process.poll() is not None:
                return False
            time.sleep(_LOOK_SECONDS)
        return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to whatever is left of the command: coordinator, run, forkserver, lanes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
