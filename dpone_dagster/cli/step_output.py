"""What a step prints, kept for Dagster's UI and repeated to the run's log, without processes of its own."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TextIO

from dagster._core.storage.compute_log_manager import CapturedLogContext, ComputeIOType
from dagster._core.storage.local_compute_log_manager import IO_TYPE_EXTENSION, LocalComputeLogManager
from dagster._serdes import ConfigurableClassData

_REPEAT_SECONDS = 0.2


class StepOutput(LocalComputeLogManager):
    """Dagster starts two `tail` and two Python processes a step to repeat its output, and waits for their end."""

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        """As Dagster makes it from its settings."""
        return cls(inst_data=inst_data, **config_value)

    @contextlib.contextmanager
    def capture_logs(self, log_key: Sequence[str]) -> Iterator[CapturedLogContext]:
        """Send standard output and error to the files that the UI shows.

        Args:
            log_key: Of the step.
        """
        with contextlib.ExitStack() as stack:
            for stream, kind in ((sys.stdout, ComputeIOType.STDOUT), (sys.stderr, ComputeIOType.STDERR)):
                path = Path(self.get_captured_local_path(log_key, IO_TYPE_EXTENSION[kind]))
                stack.enter_context(_captured(stream, path))
            yield CapturedLogContext(log_key)
        Path(self.get_captured_local_path(log_key, "complete")).touch()


@contextlib.contextmanager
def _captured(stream: TextIO, path: Path) -> Iterator[None]:
    """Send a stream's file descriptor to a file, and what comes there to where the descriptor went before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number = stream.fileno()
    before = os.dup(number)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    stream.flush()
    os.dup2(file, number)
    os.close(file)
    repeat = _Repeat(path, before)
    repeat.start()
    try:
        yield
    finally:
        stream.flush()
        os.dup2(before, number)
        repeat.end()
        os.close(before)


class _Repeat(threading.Thread):
    """Copies what is appended to a file."""

    def __init__(self, path: Path, to: int) -> None:
        super().__init__(name=f"dpone-repeat-{path.suffix}", daemon=True)
        self._from = path.open("rb", buffering=0)
        self._from.seek(0, os.SEEK_END)  # a step that is tried again appends
        self._to = to
        self._told = threading.Event()

    def run(self) -> None:
        """Copy until told to end, and then the rest."""
        while not self._told.wait(_REPEAT_SECONDS):
            self._copy()
        self._copy()
        self._from.close()

    def _copy(self) -> None:
        while part := self._from.read(65536):
            with contextlib.suppress(OSError):  # nobody reads it any more; the file has it
                os.write(self._to, part)

    def end(self) -> None:
        """Copy the rest."""
        self._told.set()
        self.join()
