"""Live progress of a run in the terminal: one bar; where there is no terminal, a line every few seconds."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.inspect import CampaignStatus, status_of
from dpone_dagster.ports.target import Connector, Target

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_BAR_SECONDS = 0.5
_HEARTBEAT_SECONDS = 5.0
# Counting a million chunk rows takes its time, so it may take a tenth of the time at most.
_SHARE_OF_TIME = 10

_DOING = {
    Phase.PREPARED: "starting",
    Phase.SEALED: "validating",
    Phase.VALIDATED: "publishing",
    Phase.PUBLISHED: "published",
    Phase.HANDOFF_COMMITTED: "done",
}


@dataclass(frozen=True)
class Sample:
    """What is shown at one moment; rate and time to go are this run's own, whatever happened before it."""

    phase: Phase
    progress: Progress
    rows_per_second: float
    eta_seconds: float | None

    @property
    def doing(self) -> str:
        """What the campaign is at, in a word."""
        return _DOING.get(self.phase, str(self.phase))

    def numbers(self) -> str:
        """Rows, rate and time to go."""
        parts = [f"{self.progress.rows_loaded:,} rows", f"{self.rows_per_second:,.0f} rows/s"]
        if self.progress.failed:
            parts.append(f"{self.progress.failed} failed")
        if self.eta_seconds:
            parts.append(f"{clock(self.eta_seconds)} to go")
        return ", ".join(parts)


def clock(seconds: float) -> str:
    """Seconds as hours, minutes and seconds."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


class Pace:
    """Rate and time to go since the first look of this run."""

    def __init__(self) -> None:
        self._first: tuple[float, Progress] | None = None
        self._last: tuple[float, Progress] | None = None

    def sample(self, phase: Phase, progress: Progress, now: float) -> Sample:
        """One more look.

        Args:
            phase: Of the campaign.
            progress: Its counters.
            now: Monotonic seconds.
        """
        if self._first is None or _idle_since(self._first[1], progress):
            self._first = (now, progress)  # starting up is not a part of the pace
        if self._last is None or progress.committed > self._last[1].committed:
            self._last = (now, progress)  # between two commits the rate stands still instead of sinking
        started, before = self._first
        seen, latest = self._last
        elapsed, done = seen - started, latest.committed - before.committed
        if elapsed <= 0 or done <= 0:
            return Sample(phase, progress, 0.0, None)
        rate = (latest.rows_loaded - before.rows_loaded) / elapsed
        return Sample(phase, progress, rate, progress.remaining * elapsed / done)


def _idle_since(before: Progress, now: Progress) -> bool:
    return now.committed == before.committed and not now.running


class Show(Protocol):
    """Where samples are shown."""

    interval_seconds: float

    def update(self, sample: Sample) -> None:
        """Show one more sample."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


class Bar:
    """One bar with rows, rate and time to go."""

    interval_seconds = _BAR_SECONDS

    def __init__(self, spec: CampaignSpec, terminal: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bar: RichProgress = RichProgress(
            TextColumn("{task.fields[doing]:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=Console(file=terminal),
            # Else it would bring to the terminal what is printed meanwhile, and that is Dagster's log.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task: TaskID = self._bar.add_task("", total=spec.plan.count, doing="starting", numbers="")
        self._bar.start()

    def update(self, sample: Sample) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=sample.progress.committed, doing=sample.doing, numbers=sample.numbers())

    def close(self) -> None:
        """Draw it a last time and stop."""
        self._bar.stop()


class Heartbeat:
    """One line every few seconds, for logs."""

    interval_seconds = _HEARTBEAT_SECONDS

    def __init__(self, spec: CampaignSpec, stream: TextIO) -> None:
        self._dataset = spec.dataset
        self._stream = stream

    def update(self, sample: Sample) -> None:
        """Write the line."""
        chunks = f"{sample.progress.committed:,}/{sample.progress.total:,} chunks"
        print(f"{self._dataset}: {sample.doing}, {chunks}, {sample.numbers()}", file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing to restore."""


def show_on(spec: CampaignSpec, stream: TextIO) -> Show:
    """A bar on a terminal, heartbeat lines elsewhere."""
    return Bar(spec, stream) if stream.isatty() else Heartbeat(spec, stream)


@contextlib.contextmanager
def watching(spec: CampaignSpec, connector: Connector, show: Show) -> Iterator[Callable[[], CampaignStatus | None]]:
    """Show the campaign's progress while a block runs, from a thread with a connection of its own.

    Args:
        spec: The campaign; its state tables are there.
        connector: Opens the connection.
        show: Where to show it.

    Yields:
        What the last look saw, which is when the block has ended; None if it saw nothing.
    """
    watcher = _Watcher(spec, connector, show)
    watcher.start()
    try:
        yield lambda: watcher.last
    finally:
        watcher.stop()


class _Watcher(threading.Thread):
    def __init__(self, spec: CampaignSpec, connector: Connector, show: Show) -> None:
        super().__init__(name="dpone-progress", daemon=True)
        self._spec = spec
        self._connector = connector
        self._show = show
        self._pace = Pace()
        self._told = threading.Event()
        self._target: Target | None = None
        self.last: CampaignStatus | None = None

    def run(self) -> None:
        """Look and show, until told to stop; then once more, so that the last line is the last state."""
        wait = 0.0
        while not self._told.wait(wait):
            started = time.monotonic()
            self._look(self._progress)
            wait = max(self._show.interval_seconds, _SHARE_OF_TIME * (time.monotonic() - started))
        self._look(self._status)
        self._disconnect()
        self._show.close()

    def stop(self) -> None:
        """Stop after a last look."""
        self._told.set()
        self.join()

    def _look(self, look: Callable[[Target], None]) -> None:
        try:
            if self._target is None:
                self._target = self._connector.target("progress")
            look(self._target)
        except DponeError:
            self._disconnect()  # only a display: the run itself says what is wrong with the server

    def _progress(self, target: Target) -> None:
        record = target.ledger.campaign(self._spec.run_key)
        if record is not None:
            self._update(record.phase, target.ledger.progress(self._spec.run_key))

    def _status(self, target: Target) -> None:
        self.last = status_of(self._spec, target)
        self._update(self.last.phase, self.last.progress)

    def _update(self, phase: Phase, progress: Progress) -> None:
        self._show.update(self._pace.sample(phase, progress, time.monotonic()))

    def _disconnect(self) -> None:
        if self._target is not None:
            self._target.close()
            self._target = None
