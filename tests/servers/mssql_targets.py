"""Targets on SQL Server that tests use one after another.

The first run of every statement costs a session of the stand-in up to two seconds, each later one milliseconds. So a
session that a test leaves alive serves the next one, after the protocol's own reset: at the next statement the server
ends its transaction, frees its locks, drops its temporary tables and forgets its settings, as at a new login.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.mssql.driver import load_pyodbc
from dpone_dagster.mssql.queries import load
from dpone_dagster.mssql.quoting import quoted
from dpone_dagster.mssql.session import Session
from dpone_dagster.mssql.target import MssqlTarget

_RESET_CONNECTION = 1246  # SQL_COPT_SS_RESET_CONNECTION of msodbcsql.h
_SECONDS_TO_END = 30


class MssqlTargets:
    """Targets on one database, and what a test does to it from outside.

    Args:
        url: Of the database.
        state_schema: Where the state tables are.
    """

    def __init__(self, url: str, state_schema: str) -> None:
        self.url = url
        self.state_schema = state_schema
        self.harness = Session(url, "test harness")
        self._idle: dict[str, list[MssqlTarget]] = defaultdict(list)
        self._used: list[tuple[str, MssqlTarget]] = []

    def target(self, purpose: str) -> MssqlTarget:
        """A session of this name that holds nothing."""
        idle = self._idle[purpose]
        target = idle.pop() if idle else MssqlTarget(self.url, purpose, self.state_schema)
        self._used.append((purpose, target))
        return target

    def end_test(self) -> None:
        """Keep what is alive for the next test, and return when what is not has ended on the server too."""
        for purpose, target in reversed(self._used):
            if _reset(target.session):
                self._idle[purpose].append(target)
            else:
                target.close()
                self.wait_for_end(target)
        self._used.clear()

    def wait_for_end(self, target: MssqlTarget) -> None:
        """Return when the session is no more on the server."""
        query = "SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE session_id = ?"
        latest = time.monotonic() + _SECONDS_TO_END
        while self.harness.value(query, target.session.session_id):
            if time.monotonic() > latest:
                raise TimeoutError(f"session {target.session.session_id} has not ended")
            time.sleep(0.01)

    def empty(self) -> None:
        """Drop all schemas that are not the server's own, with their tables."""
        tables = self.harness.rows(
            "SELECT s.name, t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id"
        )
        for schema, name in tables:
            self.harness.execute(f"DROP TABLE {quoted(schema)}.{quoted(name)}", seconds=30)
        for schema in {schema for schema, _ in tables} - {"dbo"}:
            self.harness.execute(f"DROP SCHEMA {quoted(schema)}", seconds=30)

    def close(self) -> None:
        """End every session."""
        self.end_test()
        for targets in self._idle.values():
            for target in targets:
                target.close()
        self.harness.close()


def _reset(session: Session) -> bool:
    """Whether the session is alive; then it is as after its login."""
    with contextlib.suppress(load_pyodbc().Error, DponeError):
        session.connection.set_attr(_RESET_CONNECTION, 1)
        session.execute(load("session.sql")["settings"])
        return not session.in_transaction
    return False
