"""Targets on SQL Server that tests use one after another.

The first run of every statement costs a session of the stand-in up to two seconds, each later one milliseconds. So a
session that a test leaves alive serves the next one, after the protocol's own reset: at the next statement the server
ends its transaction, frees its locks, drops its temporary tables and forgets its settings, as at a new login.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import defaultdict
from dataclasses import dataclass

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.mssql.driver import load_pyodbc
from dpone_dagster.mssql.queries import load
from dpone_dagster.mssql.quoting import quoted
from dpone_dagster.mssql.session import Session
from dpone_dagster.mssql.source import MssqlSource
from dpone_dagster.mssql.target import MssqlTarget
from dpone_dagster.ports.source import Source
from dpone_dagster.ports.target import Connector, Target

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
        self._lent: dict[str, list[_Lent]] = defaultdict(list)
        self._lent_sources: list[_LentSource] = []

    def target(self, purpose: str) -> MssqlTarget:
        """A session of this name that holds nothing."""
        idle = self._idle[purpose]
        target = idle.pop() if idle else MssqlTarget(self.url, purpose, self.state_schema)
        self._used.append((purpose, target))
        return target

    def lend(self, purpose: str) -> MssqlTarget:
        """As `target`, but closing it is enough for the next one to get it. Only lanes keep their names."""
        name = purpose if purpose.startswith("lane") else "campaign"
        idle = self._lent[name]
        return idle.pop() if idle else _Lent(self, name)

    def take_back(self, lent: _Lent) -> None:
        """Keep a session that was closed by its user; one that is dead ends."""
        if _reset(lent.session):
            self._lent[lent.purpose].append(lent)
        else:
            lent.session.close()

    def lend_source(self) -> MssqlSource:
        """A source on the same database; closing it is enough for the next one to get it."""
        return self._lent_sources.pop() if self._lent_sources else _LentSource(self)

    def take_source_back(self, lent: _LentSource) -> None:
        """Keep the connections of a source that was closed by its user; one that is dead ends."""
        if _reset(lent.session):
            self._lent_sources.append(lent)
        else:
            lent.end()

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
        query = "SELECT session_id FROM sys.dm_exec_sessions WHERE session_id = ?"
        self._wait_until_none(query, target.session.session_id)

    def _wait_until_none(self, query: str, *values: object) -> None:
        latest = time.monotonic() + _SECONDS_TO_END
        while left := self.harness.rows(query, *values):
            if time.monotonic() > latest:
                raise TimeoutError(f"sessions that have not ended: {left}")
            time.sleep(0.01)

    def empty(self) -> None:
        """Drop all schemas that are not the server's own, with their tables, once nobody else is there any more."""
        kept = itertools.chain(*self._idle.values(), *self._lent.values(), self._lent_sources)
        own = [self.harness.session_id, *(lent.session.session_id for lent in kept)]
        self._wait_until_none(
            "SELECT session_id, program_name FROM sys.dm_exec_sessions WHERE database_id = DB_ID() AND session_id > 0 "
            # Bulk connections and those of snapshots stay with their sessions, and hold nothing.
            "AND program_name NOT LIKE N'% bulk' AND program_name <> N'MSSQL-Python' "
            f"AND session_id NOT IN ({', '.join('?' * len(own))})",
            *own,
        )
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
        for target in itertools.chain(*self._idle.values(), *self._lent.values()):
            target.session.close()
        for source in self._lent_sources:
            source.end()
        self.harness.close()


class _Lent(MssqlTarget):
    def __init__(self, owner: MssqlTargets, purpose: str) -> None:
        super().__init__(owner.url, purpose, owner.state_schema)
        self.purpose = purpose
        self._owner = owner

    def close(self) -> None:
        self._owner.take_back(self)


class _LentSource(MssqlSource):
    def __init__(self, owner: MssqlTargets) -> None:
        super().__init__(owner.url, "source")
        self.session = self._session
        self._owner = owner

    def close(self) -> None:
        self._owner.take_source_back(self)

    def end(self) -> None:
        super().close()


@dataclass
class LendingSource:
    """A campaign's connector whose SQL Server source is lent."""

    campaign: Connector
    targets: MssqlTargets

    def source(self, purpose: str) -> Source:
        return self.targets.lend_source()

    def target(self, purpose: str) -> Target:
        return self.campaign.target(purpose)

    def state(self, purpose: str) -> Target:
        return self.campaign.state(purpose)


@dataclass
class LendingConnector:
    """A campaign's connector whose targets are lent; its source is the campaign's own."""

    campaign: Connector
    targets: MssqlTargets

    def source(self, purpose: str) -> Source:
        return self.campaign.source(purpose)

    def target(self, purpose: str) -> Target:
        return self.targets.lend(purpose)

    def state(self, purpose: str) -> Target:
        return self.targets.lend(purpose)


def _reset(session: Session) -> bool:
    """Whether the session is alive; then it is as after its login."""
    with contextlib.suppress(load_pyodbc().Error, DponeError):
        session.connection.set_attr(_RESET_CONNECTION, 1)
        session.execute(load("session.sql")["settings"])
        return not session.in_transaction
    return False
