"""Who may write to the terminal: children inherit standard output and error, so both go to a file meanwhile."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


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
