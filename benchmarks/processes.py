"""Runs one command as a user would, and measures it from outside: seconds, processor time, memory."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LOOK_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")


class RunFailed(Exception):
    """The command did not end as it should; the message has its last lines."""


@dataclass
class Usage:
    """What a command's processes have used.

    Attributes:
        began: Wall clock at its start, in seconds since 1970.
        seconds: From its start to its end.
        cpu_seconds: Processor time of each process, as seen last; servers are not among them.
        peak_bytes: Highest resident memory of each process.
        peak_total_bytes: Highest sum at one moment, shared pages counted once.
    """

    began: float
    seconds: float = 0.0
    cpu_seconds: dict[int, float] = field(default_factory=dict)
    peak_bytes: dict[int, int] = field(default_factory=dict)
    peak_total_bytes: int = 0


def run_measured(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Usage:
    """Run it to its end.

    Args:
        command: What to run.
        environment: All of it.
        log: Where its output goes.

    Raises:
        RunFailed: It ended with another code than 0.
    """
    with log.open("wb") as output:
        began, started = time.time(), time.perf_counter()
        process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        sampler = _Sampler(process.pid)
        sampler.start()
        try:
            code = process.wait()
            seconds = time.perf_counter() - started
        finally:
            sampler.stop()
            _end(process)
    if code:
        raise RunFailed(f"{' '.join(command)} ended with {code}:\n{_last_lines(log)}")
    return Usage(began, seconds, dict(sampler.cpu), dict(sampler.peaks), sampler.peak_total)


class _Sampler(threading.Thread):
    """Looks at every process of a session, five times a second; what lives shorter is missed."""

    def __init__(self, session: int) -> None:
        super().__init__(name="bench-sampler", daemon=True)
        self._session = session
        self._ended = threading.Event()
        self.cpu: dict[int, float] = {}
        self.peaks: dict[int, int] = {}
        self.peak_total = 0

    def run(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            total = sum(self._look(int(name)) for name in os.listdir("/proc") if name.isdigit())
            self.peak_total = max(self.peak_total, total)

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join()

    def _look(self, pid: int) -> int:
        try:
            if os.getsid(pid) != self._session:
                return 0
            place = Path("/proc") / str(pid)
            words = place.joinpath("stat").read_text().rpartition(")")[2].split()
            self.cpu[pid] = (int(words[11]) + int(words[12])) / _TICKS
            # One that has ended and is not waited for yet has no memory any more.
            self.peaks[pid] = max(self.peaks.get(pid, 0), _kilobytes(place / "status", "VmHWM:") * 1024)
            return _kilobytes(place / "smaps_rollup", "Pss:") * 1024
        except (OSError, ValueError):
            return 0  # it has just ended


def _kilobytes(file: Path, name: str) -> int:
    line = next((line for line in file.read_text().splitlines() if line.startswith(name)), None)
    return int(line.split()[1]) if line else 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """Whatever is left of the command, where it failed or the bench was interrupted."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])
