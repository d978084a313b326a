"""The terminal: who may write to it, signs of life on it, and its signals.

Children inherit standard output and error, so both go to a file while there are any.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


def let_signals_interrupt() -> None:
    """Let SIGINT and SIGTERM interrupt this process: a shell may have passed on an ignored SIGINT."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """A sign of life on a terminal while a block runs, however long that is; nothing where there is no terminal.

    Args:
        what: What is waited for.
    """
    with own_stderr() as terminal:
        if not terminal.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        console = Console(file=terminal)
        with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
            bar.add_task(what, total=None)
            yield


@contextlib.contextmanager
def own_stderr() -> Iterator[TextIO]:
    """A stream to where standard error goes now; it stays there when `output_to` moves file descriptor 2."""
    with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace") as stream:
        yield stream


@contextlib.contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Send everything that this process and its children write to standard output and error to a file.

    Args:
        path: Appended to; its folder is made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    saved = {number: os.dup(number) for number in (1, 2)}
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        _flush()
        for number in saved:
            os.dup2(log, number)
        yield
    finally:
        _flush()
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(log)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError):
            stream.flush()
