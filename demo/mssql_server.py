"""A server that speaks T-SQL: what it is, and one on which databases may be made: the stand-in of this machine."""

from __future__ import annotations

import contextlib
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

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.mssql.quoting import quoted
from dpone_dagster.mssql.session import Session

URL_VARIABLE = "DPONE_TEST_MSSQL_URL"
STAND_IN = Path("/opt/babelfish/start-private.sh")
_SERVER = """
    SELECT @@VERSION, CAST(SERVERPROPERTY('Edition') AS nvarchar(128)),
           CAST(SERVERPROPERTY('babelfishversion') AS nvarchar(128))
"""


@dataclass(frozen=True)
class Version:
    """What a server says it is.

    Attributes:
        text: In one line.
        stand_in: Whether it only speaks like SQL Server, so that some results prove nothing about it.
    """

    text: str
    stand_in: bool


def version_of(session: Session) -> Version:
    """What the server of a session is."""
    ((version, edition, babelfish),) = session.rows(_SERVER)
    lines = version.splitlines()
    if babelfish is not None or not version.startswith("Microsoft SQL"):
        return Version(lines[-1].strip(), stand_in=True)
    return Version(f"{lines[0].strip()}, {edition}", stand_in=False)


@dataclass
class MssqlServer:
    """A server on which databases may be made and dropped.

    Attributes:
        url: URL of its `master` database.
        stop: Ends it if it was started here.
        stand_in: Whether it is Babelfish, where some results prove nothing about SQL Server.
        suffix: Of every database's name, for those who share a server.
    """

    url: str
    stop: Callable[[], None]
    stand_in: bool
    suffix: str = ""

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

    def has(self, name: str) -> bool:
        """Whether there is such a database."""
        return bool(self._admin.value("SELECT COUNT(*) FROM sys.databases WHERE name = ?", name + self.suffix))

    def create(self, name: str) -> str:
        """Make a database and return its URL."""
        self._admin.execute(f"CREATE DATABASE {quoted(name + self.suffix)}", seconds=60)
        return self.url_of(name + self.suffix)

    def recreate(self, name: str) -> str:
        """Make a fresh database and return its URL."""
        self.drop(name)
        return self.create(name)

    def drop(self, name: str) -> None:
        """Drop a database that was made here, its sessions ended first."""
        if not self.has(name):
            return
        for _ in range(50):
            try:
                self._admin.execute(f"DROP DATABASE {quoted(name + self.suffix)}", seconds=60)
            except DponeError:
                self._end_sessions(name + self.suffix)
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


def named_server(url: str) -> MssqlServer:
    """The server of a URL, which goes on when this process ends."""
    with contextlib.closing(Session(url, "test setup")) as session:
        return MssqlServer(url, lambda: None, version_of(session).stand_in)


def start_stand_in() -> MssqlServer:
    """A private stand-in, where `STAND_IN` is there to start one."""
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

    url = f"mssql://{quote(user)}:{quote(secret)}@127.0.0.1:{port}/master?encrypt=no"
    return MssqlServer(url, stop, stand_in=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
