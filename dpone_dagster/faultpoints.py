"""Named places at which a test ends, stops, holds or cuts off a real process. Off unless the environment allows it.

    DPONE_ALLOW_FAULTS=1
    DPONE_FAULT=<point>[:<chunk>][=<action>] [; …]     such as  after_chunk_commit:3=kill; between_renames=stop
    DPONE_FAULT_MARKS=<folder>                         a fault fires once over all processes, and leaves a file there

Without a chunk a chunk's point means any chunk; without an action the process is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpone_dagster.campaign.errors import FaultInjected, FaultsRefused, Finding
from dpone_dagster.campaign.wording import nearest

FAULT_VARIABLE = "DPONE_FAULT"
ALLOW_VARIABLE = "DPONE_ALLOW_FAULTS"
MARKS_VARIABLE = "DPONE_FAULT_MARKS"
HOLD_SECONDS = 300.0

CHUNK_POINTS: Mapping[str, str] = {
    "after_claim": "The chunk is claimed; its receipt has not been looked for.",
    "mid_extract": "The chunk's first rows have been read; its COPY is open. Not reached by a chunk without rows.",
    "after_stage": "All rows are in the stage (SQL Server) or copied within the transaction (PostgreSQL).",
    "before_chunk_commit": "Rows and receipt are written and proven; COMMIT has not been sent.",
    "after_chunk_commit": "Rows and receipt are committed; the ledger does not know.",
    "after_ledger": "The ledger has the chunk as committed; Dagster has not been told.",
}
CAMPAIGN_POINTS: Mapping[str, str] = {
    "mid_state_file": "Half of the next state file of a `local_file` campaign is written; the file of before stands.",
    "after_seal": "The campaign is sealed; nothing of the shadow has been compared.",
    "after_indexes": "All checks have passed and the deferred indexes are built.",
    "before_validated": "The horizon of readers is taken; `validated` is not recorded.",
    "after_validated": "`validated` is recorded; the shadow is not frozen.",
    "between_renames": "The live table bears the backup's name, the shadow still its own; both uncommitted. At a "
    "rollback: what was live bears its rolled-back name, and nothing is live.",
    "before_publication_commit": "Both renames and the publication's receipt are written; COMMIT has not been sent.",
    "after_publication_commit": "The publication is committed; nobody has been told.",
    "before_checkpoint": "Checkpoint and closed head are written; COMMIT has not been sent.",
    "after_checkpoint": "The checkpoint is committed; nobody has been told.",
    "before_rollback_commit": "Both renames and the rollback's receipt are written; COMMIT has not been sent.",
    "after_rollback_commit": "The rollback is committed; nobody has been told.",
    "before_drop_commit": "The backup is dropped and that is recorded; COMMIT has not been sent.",
    "after_drop_commit": "The backup's end is committed; nobody has been told.",
    "before_increment_commit": "Changes and checkpoint are written; COMMIT has not been sent.",
    "after_increment_commit": "Changes and checkpoint are committed; nobody has been told.",
}
POINTS: Mapping[str, str] = {**CHUNK_POINTS, **CAMPAIGN_POINTS}
ACTIONS: Mapping[str, str] = {
    "kill": "SIGKILL to this process.",
    "stop": "SIGSTOP to this process; SIGCONT lets it go on.",
    "raise": "A permanent error, `FAULT_INJECTED`.",
    "drop": "Every connection of this process to a server breaks, as if the network had.",
    "hold:<path>": f"Wait until the file is gone, at most {HOLD_SECONDS:.0f} s; an interrupt ends the wait.",
}
_PLAIN_ACTIONS = tuple(name for name in ACTIONS if ":" not in name)


@dataclass
class Fault:
    """One fault that the environment asks for; fires once a process."""

    point: str
    chunk: int | None = None
    action: str = "kill"
    hold: Path | None = None
    fired: bool = False

    @property
    def name(self) -> str:
        """Point and chunk; also the name of its mark."""
        return self.point if self.chunk is None else f"{self.point}:{self.chunk}"


@dataclass(frozen=True)
class _Armed:
    text: str = ""
    faults: tuple[Fault, ...] = ()
    marks: Path | None = None


_armed = _Armed()


def arm(environ: Mapping[str, str]) -> None:
    """Take the faults from the environment; called before the first connection of a process opens.

    Args:
        environ: Of this process.

    Raises:
        FaultsRefused: Faults are asked for but not allowed, or one cannot be read.
    """
    global _armed  # one environment a process, and `reach` must cost nothing
    text = environ.get(FAULT_VARIABLE, "").strip()
    if text == _armed.text:
        return  # what has fired stays so
    if text and environ.get(ALLOW_VARIABLE) != "1":
        raise FaultsRefused(f"{FAULT_VARIABLE} is set, but {ALLOW_VARIABLE} is not 1")
    marks = environ.get(MARKS_VARIABLE)
    _armed = _Armed(text, parse(text), Path(marks) if marks else None)


def parse(text: str) -> tuple[Fault, ...]:
    """The faults of a `DPONE_FAULT`.

    Args:
        text: As the module's docstring has it; empty for none.

    Raises:
        FaultsRefused: Names everything that cannot be read.
    """
    faults: dict[str, Fault] = {}
    findings: list[Finding] = []
    for part in filter(None, map(str.strip, text.split(";"))):
        fault = _fault(part)
        if isinstance(fault, Finding):
            findings.append(fault)
        elif fault.name in faults:
            findings.append(Finding(part, "is named twice", "name each point and chunk once"))
        else:
            faults[fault.name] = fault
    if findings:
        raise FaultsRefused(f"{FAULT_VARIABLE} cannot be read", findings=findings)
    return tuple(faults.values())


def _fault(part: str) -> Fault | Finding:
    where, _, action = (word.strip() for word in part.partition("="))
    point, colon, chunk = where.partition(":")
    if point not in POINTS:
        return Finding(part, f"`{point}` is no fault point", _meant(point, tuple(POINTS)))
    if colon and point not in CHUNK_POINTS:
        return Finding(part, f"`{point}` is not a chunk's", f"write `{point}`")
    if colon and not (chunk.isascii() and chunk.isdigit()):
        return Finding(part, f"`{chunk}` is no chunk", f"write the chunk's index, such as `{point}:3`")
    index = int(chunk) if colon else None
    kind, _, path = action.partition(":")
    if kind == "hold" and path:
        return Fault(point, index, kind, Path(path))
    if action and action not in _PLAIN_ACTIONS:
        return Finding(part, f"`{action}` is no action", _meant(action, tuple(ACTIONS)))
    return Fault(point, index, action or "kill")


def _meant(word: str, allowed: tuple[str, ...]) -> str:
    meant = nearest(word, allowed)
    return f"did you mean `{meant}`?" if meant else f"write one of {', '.join(allowed)}"


def reach(point: str, chunk: int | None = None) -> None:
    """A fault point is reached; nothing happens unless the environment asks for a fault there.

    Args:
        point: One of `POINTS`.
        chunk: Index of the chunk in hand.

    Raises:
        FaultInjected: The fault's action is `raise`, or what it held for did not come.
    """
    if _armed.faults:
        _fire(point, chunk)


def _fire(point: str, chunk: int | None) -> None:
    for fault in _armed.faults:
        if fault.fired or fault.point != point or fault.chunk not in (None, chunk):
            continue
        fault.fired = True
        if _first(fault):
            _act(fault)


def _first(fault: Fault) -> bool:
    """Whether no other process has fired it; its mark holds the id of the one that has."""
    if _armed.marks is None:
        return True
    try:
        with (_armed.marks / fault.name).open("x") as mark:
            mark.write(str(os.getpid()))
    except FileExistsError:
        return False
    return True


def _act(fault: Fault) -> None:
    if fault.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault.action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault.action == "drop":
        _drop_connections()
    elif fault.hold is not None:
        _wait_while_there(fault.hold, fault.name)
    else:
        raise FaultInjected(f"fault point {fault.name}")


def _wait_while_there(path: Path, name: str) -> None:
    deadline = time.monotonic() + HOLD_SECONDS
    while path.exists():
        if time.monotonic() >= deadline:
            raise FaultInjected(f"fault point {name} held for {HOLD_SECONDS:.0f} s and {path} is still there")
        time.sleep(0.05)


def _drop_connections() -> None:
    """Shut down every socket that is connected to a server; drivers find out when they use it."""
    import socket

    for number in map(int, os.listdir("/dev/fd")):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
            # A pair of this process's own, such as one to its parent, has no name at the other end.
            if connection.getpeername():
                connection.shutdown(socket.SHUT_RDWR)
