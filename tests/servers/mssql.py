"""A SQL Server for the tests: the one that is named, else a private stand-in that is started, else none."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import pytest

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.mssql.quoting import quoted
from dpone_dagster.mssql.session import Session

URL_VARIABLE = "DPONE_TEST_MSSQL_URL"
STAND_IN = Path("/opt/babelfish/start-private.sh")
SKIPPED = "no SQL Server"
# Workers of one run share a server that is named, so each has databases of its own.
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
_DRIVERS = ("pyodbc", "mssql_python", "adbc_driver_postgresql")
HOW_TO = (
    f"set {URL_VARIABLE}=mssql://login:secret@host:1433/master?encrypt=yes to a server whose login may create databases"
)


@dataclass
class MssqlServer:
    """A server on which databases may be made and dropped.

    Attributes:
        url: URL of its `master` database.
        stop: Ends it if it was started here.
        stand_in: Whether it is Babelfish, where some results prove nothing about SQL Server.
    """

    url: str
    stop: Callable[[], None]
    stand_in: bool

    @cached_property
    def verified_on(self) -> str:
        """What a green run proves, in one line."""
        version = str(self._admin.value("SELECT @@VERSION")).splitlines()[0].strip()
        if not self.stand_in:
            return f"verified on {version}"
        babelfish = self._admin.value("SELECT CAST(SERVERPROPERTY('babelfishversion') AS nvarchar(20))")
        return f"verified on Babelfish {babelfish.removesuffix('.0')}; UNVERIFIED on SQL Server"

    @cached_property
    def _admin(self) -> Session:
        return Session(self.url, "test setup")

    def recreate(self, name: str) -> str:
        """Make a fresh database and return its URL."""
        self.drop(name)
        self._admin.execute(f"CREATE DATABASE {quoted(name + _WORKER)}", seconds=60)
        return self.url_of(name + _WORKER)

    def drop(self, name: str) -> None:
        """Drop a database that `recreate` made, its sessions ended first."""
        name += _WORKER
        if not self._admin.value("SELECT COUNT(*) FROM sys.databases WHERE name = ?", name):
            return
        for _ in range(50):
            try:
                self._admin.execute(f"DROP DATABASE {quoted(name)}", seconds=60)
            except DponeError:
                self._end_sessions(name)
                time.sleep(0.1)
            else:
                return

    def _end_sessions(self, database: str) -> None:
        query = "SELECT session_id FROM sys.dm_exec_sessions WHERE database_id = DB_ID(?) AND session_id > 0"
        for (session_id,) in self._admin.rows(query, database):
            with contextlib.suppress(DponeError):
                self._admin.execute(f"KILL {int(session_id)}")

    def close(self) -> None:
        """End the server if it was started here."""
        self._admin.close()
        self.stop()

    def url_of(self, name: str) -> str:
        """URL of another database of the server."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{quote(name, safe='')}"))


def open_server() -> MssqlServer:
    """The first of: the server that the environment names, the private stand-in; skips if there is neither."""
    for package in _DRIVERS:
        try:
            importlib.import_module(package)
        except ImportError as error:
            pytest.skip(f"{SKIPPED} driver: {error}")
    if url := os.environ.get(URL_VARIABLE):
        return MssqlServer(url, lambda: None, _is_stand_in(url))
    if STAND_IN.exists():
        return _start_stand_in()
    pytest.skip(SKIPPED)


def _is_stand_in(url: str) -> bool:
    with contextlib.closing(Session(url, "test setup")) as session:
        return "Babelfish" in session.value("SELECT @@VERSION")


def _start_stand_in() -> MssqlServer:
    home = Path(tempfile.mkdtemp(prefix="dpone"))
    home.chmod(0o755)  # the server runs as another user
    folder, port = home / "d", _free_port()
    # Not captured: the server keeps its parent's pipes open for as long as it lives.
    with (home / "start.log").open("w+b") as log:
        subprocess.run(
            [STAND_IN, folder, str(_free_port()), str(port)], check=True, stdout=log, stderr=log, timeout=600
        )
        log.seek(0)
        said = log.read().decode()
    user, secret = (re.search(rf"^{word}: (.*)$", said, re.MULTILINE)[1] for word in ("user", "password"))  # type: ignore[index]

    def stop() -> None:
        subprocess.run([STAND_IN.with_name("stop-private.sh"), folder], check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(home, ignore_errors=True)

    return MssqlServer(f"mssql://{quote(user)}:{quote(secret)}@127.0.0.1:{port}/master?encrypt=no", stop, True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
