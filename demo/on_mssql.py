"""The demo's target on SQL Server: the one that the environment names, else the one of deploy/compose.yaml."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from demo.compose import PORT, Compose
from demo.embedded import Embedded
from demo.ground import Ground
from demo.mssql_server import version_of
from demo.orders import NEW_SINCE
from demo.place import ROOT, Place
from demo.reader import State
from demo.target import Look
from dpone_dagster.campaign.errors import ConnectionMissing, LoginRefused, ServerUnreachable
from dpone_dagster.connections import ENVIRONMENT_PREFIX, Connections
from dpone_dagster.mssql.address import Address
from dpone_dagster.mssql.quoting import literal, quoted
from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.settings import load_spec

REF = "mssql_dwh"
VARIABLE = f"{ENVIRONMENT_PREFIX}{REF.upper()}"
PLACE = Place("demo-mssql", Path("examples/orders_mssql.yaml"), "oltp_mssql", frozenset({VARIABLE}))
_DATABASE = "dwh"
_TERMS = "https://aka.ms/mssqleula"
_START_SECONDS = 180
_POLL_SECONDS = 2
# One statement over whole generations only, or it would show here.
_SINCE = f"CAST({literal(f'{NEW_SINCE} 00:00:00 +00:00')} AS datetimeoffset(6))"
_LOOK = f"""
    SELECT COALESCE(SUM(CASE WHEN placed_at < {_SINCE} THEN 1 ELSE 0 END), 0),
           COALESCE(SUM(CASE WHEN placed_at >= {_SINCE} THEN 1 ELSE 0 END), 0)
    FROM landing.orders
"""


class OnMssql:
    """A database of a SQL Server. Only what carries the demo's mark is ever made anew."""

    place = PLACE
    title = "landing.orders"

    def __init__(self) -> None:
        self._url = ""
        self._named = bool(os.environ.get(VARIABLE, "").strip())
        self._ground = Ground(load_spec(ROOT / PLACE.manifest))

    def reach(self) -> None:
        """Find a server, log in, and see that nothing of somebody else is in the way.

        Raises:
            ConnectionMissing: There is no server, and no engine to start one.
            ConnectionInvalid: The variable's URL cannot be used.
            ServerUnreachable: No answer.
            LoginRefused: The login or the database was refused.
            NotTheDemos: Something is in the way.
        """
        self._url = _named_url() if self._named else _started_url()
        with self._session() as session:
            self._ground.leftovers(session)

    def urls(self, server: Embedded) -> Mapping[str, str]:  # noqa: ARG002 - the other demo's target is on it
        """Of the container; a server that the environment names stays there, so that its secret is written nowhere."""
        return {} if self._named else {REF: self._url}

    def provision(self, server: Embedded) -> None:  # noqa: ARG002 - as above
        """Make the live table anew, with an older generation in it."""
        with self._session() as session:
            self._ground.provision(session)

    def facts(self) -> Mapping[str, str | None]:
        """What it ran against, and what that does not prove."""
        address = Address.parse(self._url)
        with self._session() as session:
            version = version_of(session)
        return {
            "server": f"{address.host}:{address.port}, database {address.database}",
            "version": version.text,
            "note": "UNVERIFIED on SQL Server: this server stands in for it" if version.stand_in else None,
        }

    def look(self) -> Look:
        """Counts both generations."""
        return partial(_look, self._url)

    @contextlib.contextmanager
    def _session(self) -> Iterator[Session]:
        try:
            session = Session(self._url, "demo")
        except (ServerUnreachable, LoginRefused) as error:
            raise type(error)(
                error.message,
                next_step=f"Correct host, port, login, database or encryption in {VARIABLE}; "
                "the database has to be there already.",
            ) from None
        with contextlib.closing(session):
            yield session


def compose() -> Compose:
    """What starts and stops the container."""
    return Compose(ROOT / "deploy" / "compose.yaml", PLACE.folder / "sa-password")


def _look(url: str) -> State:
    with contextlib.closing(Session(url, "demo reader")) as session:
        return State(*session.rows(_LOOK, seconds=UNBOUNDED)[0])


def _named_url() -> str:
    return Connections.from_environment({VARIABLE: os.environ[VARIABLE]}).url(REF, "mssql").reveal()


def _started_url() -> str:
    """URL of the container's database, which is made if it is missing."""
    services = compose()
    engine = services.engine()
    if engine is None:
        raise ConnectionMissing(
            f"there is no SQL Server for the demo: {VARIABLE} is not set, and no container engine answers "
            "(`docker compose`, `podman compose`)",
            next_step=f"Set {VARIABLE}=mssql://user:secret@host:1433/database?encrypt=yes to a database that the demo "
            "may use, or start Docker or Podman; then run `make demo-mssql` again.",
        )
    print(f"▸ start SQL Server 2022, Developer Edition, by `{' '.join(engine)}` (its terms: {_TERMS})", flush=True)
    services.up(engine)
    with contextlib.closing(_wait_for(_container_url(services, "master"))) as master:
        if not master.value("SELECT COUNT(*) FROM sys.databases WHERE name = ?", _DATABASE):
            master.execute(f"CREATE DATABASE {quoted(_DATABASE)}", seconds=60)
    return _container_url(services, _DATABASE)


def _container_url(services: Compose, database: str) -> str:
    # The image makes its own certificate, which nobody can verify; the port is bound to this machine.
    return f"mssql://sa:{services.secret()}@127.0.0.1:{PORT}/{database}?encrypt=yes&trust_server_certificate=yes"


def _wait_for(url: str) -> Session:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return Session(url, "demo")
        except (ServerUnreachable, LoginRefused) as error:  # it also refuses logins while it sets itself up
            if time.monotonic() > deadline:
                raise ServerUnreachable(
                    f"SQL Server in its container was not ready within {_START_SECONDS} s: {error.message}",
                    next_step="Look at the container's log; `make clean` removes it with its data and password.",
                ) from None
        time.sleep(_POLL_SECONDS)
