"""Servers and databases for all tests: real ones, started once a run."""

from __future__ import annotations

import itertools
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from demo.embedded import Embedded
from demo.mssql_server import MssqlServer
from tests import tsql
from tests.servers import mssql as mssql_server

if TYPE_CHECKING:
    from tests.mssql_orders import MssqlOrders
    from tests.orders import Orders
    from tests.servers.mssql_targets import MssqlTargets

_numbers = itertools.count(1)
_VERIFIED_ON = pytest.StashKey[str]()
_RECORDER = pytest.StashKey[tsql.Recorder]()


def pytest_configure() -> None:
    """Let a SIGTERM end the run as Ctrl-C does, so that the servers it started are stopped."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Embedded]:
    """One private PostgreSQL server for the whole run."""
    # Not below pytest's own folder: as root the server runs as another user, and pytest shuts others out of it.
    with tempfile.TemporaryDirectory(prefix="dpone-pg-", ignore_cleanup_errors=True) as folder:
        server = Embedded(Path(folder) / "data", keep=False)
        with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
            # No test lets the operating system crash, which is all that waiting for the disk is for.
            admin.execute("ALTER SYSTEM SET fsync = off")
            admin.execute("SELECT pg_reload_conf()")
        yield server
        server.stop()


def _databases(server: Embedded | MssqlServer) -> Iterator[Callable[[str], str]]:
    made: list[str] = []

    def make(label: str) -> str:
        name = f"{label}_{next(_numbers)}"
        made.append(name)
        return server.recreate(name)

    yield make
    for name in made:
        server.drop(name)


@pytest.fixture
def new_database(postgres: Embedded) -> Iterator[Callable[[str], str]]:
    """Make fresh databases: `new_database("oltp")` returns a URL; all are dropped at the end of the test."""
    yield from _databases(postgres)


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    """URL of one fresh database."""
    return new_database("db")


@pytest.fixture(scope="session")
def mssql_statements(pytestconfig: pytest.Config) -> Iterator[tsql.Recorder]:
    """What the product sends to SQL Server in this process."""
    for recorder in tsql.recording():
        pytestconfig.stash[_RECORDER] = recorder
        yield recorder


@pytest.fixture(autouse=True)
def statements_parse(pytestconfig: pytest.Config) -> Iterator[None]:
    """Every statement that a test made the product send to SQL Server must parse, and have its like in the corpus."""
    yield
    if recorder := pytestconfig.stash.get(_RECORDER, None):
        recorder.prove()


@pytest.fixture(scope="session")
def mssql(pytestconfig: pytest.Config, mssql_statements: tsql.Recorder) -> Iterator[MssqlServer]:
    """One SQL Server for the whole run; its tests are skipped where there is none."""
    server = mssql_server.open_server()
    pytestconfig.stash[_VERIFIED_ON] = server.verified_on
    yield server
    server.close()


@pytest.fixture
def new_mssql_database(mssql: MssqlServer) -> Iterator[Callable[[str], str]]:
    """As `new_database`, on SQL Server."""
    yield from _databases(mssql)


@pytest.fixture(scope="session")
def mssql_targets(mssql: MssqlServer) -> Iterator[MssqlTargets]:
    """One database of the SQL Server, whose sessions tests of whole campaigns use one after another."""
    from tests.servers.mssql_targets import MssqlTargets

    made = MssqlTargets(mssql.recreate("dwh"), "system")
    yield made
    made.close()
    mssql.drop("dwh")


@pytest.fixture
def mssql_warehouse(mssql_targets: MssqlTargets) -> Iterator[MssqlTargets]:
    """That database, empty."""
    yield mssql_targets
    mssql_targets.end_test()
    mssql_targets.empty()


@pytest.fixture
def mssql_orders(new_database: Callable[[str], str], mssql_warehouse: MssqlTargets) -> MssqlOrders:
    """400 orders in 4 chunks, and a live target with an older generation."""
    from tests.mssql_orders import make_mssql_orders

    return make_mssql_orders(new_database("oltp"), mssql_warehouse, rows=400, chunks=4)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells the run that started it on which server it was."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["verified_on"] = session.config.stash.get(_VERIFIED_ON, None)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The run hears it."""
    if where := getattr(node, "workeroutput", {}).get("verified_on"):
        node.config.stash[_VERIFIED_ON] = where


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say on which server the SQL Server tests ran, or how many had none, and how to run them."""
    reports = terminalreporter.stats.get("skipped", [])
    count = sum(mssql_server.SKIPPED in str(report.longrepr) for report in reports)
    if where := terminalreporter.config.stash.get(_VERIFIED_ON, None):
        terminalreporter.write_line(f"SQL Server tests: {where}.")
    if count:
        terminalreporter.write_line(f"{count} SQL Server tests were skipped. To run them: {mssql_server.HOW_TO}.")


@pytest.fixture
def orders(new_database: Callable[[str], str]) -> Orders:
    """2,000 orders in 8 chunks, and a live target with an older generation."""
    from tests.orders import make_orders

    return make_orders(new_database("oltp"), new_database("dwh"), rows=2_000)
