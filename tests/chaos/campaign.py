"""One random campaign: run, hurt, resumed until it is done, followed by an increment, and judged."""

from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import dpone_dagster
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.selection import EVERY_CHUNK
from dpone_dagster.engine.cancel import cancel
from dpone_dagster.ports.target import Target
from tests.chaos import oracle
from tests.chaos.daemon import code_server
from tests.chaos.ground import Writer, make_ground
from tests.chaos.shape import Event, Shape
from tests.orders import Orders
from tests.servers.postgres import Restartable

# What a run may end with when it is hurt; anything else is a finding.
EXPECTED = {
    "CONNECTION_LOST", "OUTCOME_UNKNOWN", "TRANSIENT_FAILURE", "SERVER_UNREACHABLE", "CAMPAIGN_ACTIVE", "LEASE_LOST",
    "CAMPAIGN_CANCELLED", "CHUNK_FAILED", "INTERRUPTED", "FAULT_INJECTED", "PUBLICATION_BLOCKED",
}  # fmt: skip
_EXIT_CODES = {0, 1, 2, 3, 130, -signal.SIGKILL, -signal.SIGTERM}
_SECONDS_A_RUN = 300
_RESUMES = 8
SETTINGS = Path(dpone_dagster.__file__).parent / "dagster.yaml"
_Seen = TypeVar("_Seen")


@dataclass
class Outcome:
    """What became of one campaign; `hits` counts what happened to a process that was alive."""

    shape: Shape
    seconds: float = 0.0
    runs: int = 0
    hits: int = 0
    writes: int = 0
    exits: list[int] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """As it stands in the report."""
        return {
            "seed": self.shape.seed,
            "campaign": str(self.shape),
            "seconds": round(self.seconds, 1),
            "runs": self.runs,
            "hits": self.hits,
            "writes": self.writes,
            "exit_codes": self.exits,
            "error_codes": self.codes,
            "problems": self.problems,
        }

    def __str__(self) -> str:
        verdict = "exact" if not self.problems else "WRONG: " + "; ".join(self.problems)
        done = f"{self.hits} hit, {self.runs} runs ({','.join(map(str, self.exits))}), {self.seconds:.1f} s"
        return f"seed {self.shape.seed}: {self.shape} | {done}: {verdict}"


class Campaign:
    """Runs one campaign in a folder of its own.

    Args:
        shape: What it is like.
        server: The private PostgreSQL, which may be restarted.
        urls: Of an empty source database and an empty target database.
        folder: For manifest, logs and Dagster's instance.
    """

    def __init__(self, shape: Shape, server: Restartable, urls: tuple[str, str], folder: Path) -> None:
        self._shape = shape
        self._server = server
        self._orders: Orders = make_ground(shape, *urls)
        self._folder = folder
        self._dice = random.Random(f"{shape.seed} victims")
        self._looking: Target | None = None
        self._groups: list[int] = []
        self._socket = folder / "code"
        self._cancelled = False
        self.outcome = Outcome(shape)

    def play(self) -> Outcome:
        """From the first run to the verdict."""
        started = time.monotonic()
        (self._folder / "marks").mkdir()
        writer = Writer(self._shape, self._orders.source_url)
        with writer.at_work(), self._code_server():
            done = self._load()
        self.outcome.writes = writer.writes
        if done and self._increment():
            self._stop_looking()
            self._judge(oracle.nothing_is_left(self._orders, self._groups))
            self._judge(oracle.campaign_is_exact(self._orders))
        self._stop_looking()
        self.outcome.hits += len(list((self._folder / "marks").iterdir()))
        self._read_codes()
        self.outcome.seconds = time.monotonic() - started
        return self.outcome

    # ------------------------------------------------------------ runs

    def _load(self) -> bool:
        events: list[Event | None] = [*self._shape.events, *[None] * _RESUMES]
        for number, event in enumerate(events):
            code = self._run("run" if number == 0 else "resume", event)
            self._judge(oracle.live_is_whole(self._orders))
            if code == 0:
                return True
            if self._cancelled:
                self._prove_run_is_refused()
        self.outcome.problems.append(f"not done after {len(events)} runs")
        return False

    def _increment(self) -> bool:
        point = self._shape.increment_fault
        for fault in (f"{point}=kill" if point else "", "", ""):
            if self._end_of(self._start("increment", fault)) == 0:
                return True
        self.outcome.problems.append("the increment did not succeed")
        return False

    def _run(self, command: str, event: Event | None) -> int:
        before = self._committed()
        process = self._start(command, event.fault if event else "")
        if event is not None and event.action != "fault":
            wanted = before + math.ceil(event.progress * (self._orders.spec.plan.count - before))
            self._wait(process, lambda: self._committed() >= wanted)
            time.sleep(event.delay_seconds)
            if process.poll() is None:
                self._hurt(process, event)
        return self._end_of(process)

    def _start(self, command: str, fault: str = "") -> subprocess.Popen[bytes]:
        process = self._spawn([sys.executable, "-m", *self._program(command)], f"--- {command} {fault}", fault)
        self.outcome.runs += 1
        return process

    def _program(self, command: str) -> list[str]:
        manifest = str(self._orders.write(self._folder))
        if self._shape.route == "engine":
            return ["tests.chaos.worker", command, manifest]
        if command == "increment":
            return ["dpone_dagster.cli", "increment", "run", manifest]
        if self._shape.route == "daemon":
            return ["tests.chaos.daemon", manifest, str(self._socket)]
        return ["dpone_dagster.cli", "backfill", command, manifest, *(["--execute"] if command == "run" else [])]

    def _spawn(self, command: list[str], title: str, fault: str = "") -> subprocess.Popen[bytes]:
        """A process in a group of its own."""
        with (self._folder / "log").open("ab") as log:
            log.write(f"{title}\n".encode())
            log.flush()
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env={**os.environ, **self._environment(fault)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._groups.append(process.pid)
        return process

    @contextlib.contextmanager
    def _code_server(self) -> Iterator[None]:
        """Of the daemons' route; it and its runs outlive every daemon."""
        if self._shape.route != "daemon":
            yield
            return
        (self._folder / "dagster").mkdir()
        shutil.copy(SETTINGS, self._folder / "dagster")
        self._orders.write(self._folder)
        server = self._spawn([sys.executable, "-m", *code_server(self._socket)], "--- code server")
        try:
            yield
        finally:
            self._kill_group(server)

    def _environment(self, fault: str) -> Mapping[str, str]:
        faults = {"DPONE_ALLOW_FAULTS": "1", "DPONE_FAULT": fault, "DPONE_FAULT_MARKS": str(self._folder / "marks")}
        places = {
            "DAGSTER_HOME": str(self._folder / "dagster"),
            "DPONE_MANIFESTS": str(self._folder / "orders.yaml"),
            "PYTHONPATH": str(Path.cwd()),
        }
        return {**self._orders.environment, **places, **faults}

    def _end_of(self, process: subprocess.Popen[bytes]) -> int:
        try:
            code = process.wait(_SECONDS_A_RUN)
        except subprocess.TimeoutExpired:
            self.outcome.problems.append(f"a run hung for {_SECONDS_A_RUN} s")
            code = self._kill_group(process)
        self.outcome.exits.append(code)
        if code not in _EXIT_CODES:
            self.outcome.problems.append(f"exit code {code}")
        return code

    def _prove_run_is_refused(self) -> None:
        self._cancelled = False
        code = self._end_of(self._start("run"))
        if code != 2:
            self.outcome.problems.append(f"a cancelled campaign was run: exit code {code}")

    # ------------------------------------------------------------ what happens to them

    def _hurt(self, process: subprocess.Popen[bytes], event: Event) -> None:
        self.outcome.hits += 1
        if event.action == "kill lane":
            self._kill_a_lane()
        elif event.action in ("kill run", "kill daemon"):
            process.kill()
        elif event.action == "kill all":
            self._kill_group(process)
        elif event.action == "terminate":
            process.terminate()
        elif event.action == "cancel":
            self._cancel()
        elif event.action == "restart fast":
            self._server.restart("fast")
        else:
            self._server.restart("immediate")

    def _kill_group(self, process: subprocess.Popen[bytes]) -> int:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()

    def _kill_a_lane(self) -> None:
        """The ledger knows who works; a process of another group is none of ours."""
        chunks = self._look(lambda t: t.ledger.chunks(self._orders.spec.run_key, EVERY_CHUNK)) or []
        at_work = {c.worker.pid for c in chunks if c.worker is not None}
        for pid in self._dice.sample(sorted(at_work), len(at_work)):
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) in self._groups and pid not in self._groups:
                    os.kill(pid, signal.SIGKILL)
                    return
        self.outcome.hits -= 1

    def _cancel(self) -> None:
        with contextlib.suppress(DponeError):
            record = cancel(self._orders.spec, self._orders.connector, "chaos", "chaos")
            self._cancelled = record.phase is Phase.CANCELLED

    # ------------------------------------------------------------ looking

    def _committed(self) -> int:
        progress = self._look(
            lambda t: t.ledger.progress(self._orders.spec.run_key) if t.ledger.provisioned() else None
        )
        return progress.committed if progress else 0

    def _look(self, what: Callable[[Target], _Seen]) -> _Seen | None:
        """None while the server is away."""
        try:
            self._looking = self._looking or self._orders.connector.target("chaos")
            return what(self._looking)
        except DponeError:
            self._stop_looking()
            return None

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.close()
        self._looking = None

    def _wait(self, process: subprocess.Popen[bytes], reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SECONDS_A_RUN
        while not reached() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)

    # ------------------------------------------------------------ the verdict

    def _judge(self, looks: object) -> None:
        self.outcome.problems.extend(oracle.told(looks))  # type: ignore[arg-type]

    def _read_codes(self) -> None:
        codes = self._folder / "codes"
        self.outcome.codes = sorted(codes.read_text().split()) if codes.exists() else []
        if unexpected := sorted(set(self.outcome.codes) - EXPECTED):
            self.outcome.problems.append(f"unexpected errors: {', '.join(unexpected)}")
