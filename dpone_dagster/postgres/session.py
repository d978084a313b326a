"""One PostgreSQL connection: settings, transactions, error translation, cancel."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from dpone_dagster.campaign.errors import (
    ConnectionInvalid,
    ConnectionLost,
    DponeError,
    LoginRefused,
    OutcomeUnknown,
    Refused,
    ServerFull,
    ServerUnreachable,
    TransientFailure,
)

# Deaths must be seen in seconds, in the middle of a long statement too (DESIGN section 5).
_KEEPALIVE: dict[str, str | int] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# What a role or a database may have set otherwise and that would change what is read or written, or cut it short. The
# search path stays theirs: an extension's operators are found by it, and every table is named with its schema.
_SETTINGS: Mapping[str, str] = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "quote_all_identifiers": "off",
    "row_security": "off",  # an error where a policy would hide rows
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # The server's side too: a host that vanished keeps its locks for as long as the server waits for it.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
# Server version from which a setting is known.
_LATER_SETTINGS: Mapping[str, tuple[int, str]] = {
    "client_connection_check_interval": (140000, "2000"),
    "idle_session_timeout": (140000, "0"),
    "transaction_timeout": (170000, "0"),
}

# Only what the server itself says may succeed when tried again (PostgreSQL docs, appendix A).
_TRANSIENT = (
    pg.SerializationFailure,
    pg.DeadlockDetected,
    pg.LockNotAvailable,
    pg.TooManyConnections,
    pg.CannotConnectNow,
)
# libpq keeps the SQLSTATE of a failed connection to itself, so these are words: of the server (53300, 57P03, 55000; in
# another language it is taken for a refusal) and of libpq and the operating system, which are always English here.
_NOT_NOW = re.compile(
    r"too many clients already|too many connections for|remaining connection slots are reserved"
    r"|the database system is (starting up|shutting down|in recovery mode|not (yet )?accepting connections)"
    r"|is not currently accepting connections"
    r"|failed to resolve host|Is the server running|server closed the connection unexpectedly"
    r"|Connection (refused|reset|timed out)|timeout|No route to host|Network is unreachable"
)
_UNKNOWN_PARAMETER = re.compile(r'invalid URI query parameter: "(\w+)"')
_BAD_PARAMETER = re.compile(r"connection is bad: invalid \w+ (value|number)")
_LOST = (pg.AdminShutdown, pg.CrashShutdown, pg.IdleSessionTimeout)


class Session:
    """An autocommit connection with explicit transactions. Never reconnects: a new connection has no locks.

    Args:
        url: `postgresql://…`, secrets included; kept out of every message.
        purpose: Goes into the application name, for people who look at pg_stat_activity.

    Raises:
        ConnectionInvalid: The URL is not one of PostgreSQL, or has a parameter that libpq does not know.
        ServerUnreachable: No answer, or no connection is taken now.
        LoginRefused: The login was refused.
    """

    def __init__(self, url: str, purpose: str) -> None:
        self.connection = _connect(url, purpose)

    @property
    def server_version(self) -> int:
        """Such as 160004."""
        return self.connection.info.server_version

    @property
    def pid(self) -> int:
        """The backend's process id."""
        return self.connection.info.backend_pid

    @contextlib.contextmanager
    def transaction(self, isolation: str = "READ COMMITTED") -> Iterator[None]:
        """One transaction: COMMIT at the end, ROLLBACK on any exception.

        Args:
            isolation: SQL name of the isolation level, with `, READ ONLY` if wanted.

        Raises:
            OutcomeUnknown: COMMIT was sent and its answer did not come.
        """
        try:
            with translated():
                self.connection.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
                yield
        except BaseException:
            self._rollback()
            raise
        try:
            self.connection.execute("COMMIT")
        except psycopg.OperationalError as error:
            if self.connection.closed or self.connection.broken:
                raise OutcomeUnknown("the connection broke while COMMIT was under way") from error
            raise translate(error) from error
        except psycopg.Error as error:
            raise translate(error) from error
        except BaseException:  # what a signal handler raises: nobody knows how it ended, but the connection is usable
            self._rollback()
            raise

    def _rollback(self) -> None:
        # A broken connection has rolled back by itself; its error is already on its way.
        with contextlib.suppress(psycopg.Error):
            self.end_statement()
            self.connection.execute("ROLLBACK")

    def end_statement(self) -> None:
        """End what an interrupt has left running: what a signal handler raises ends no statement."""
        pgconn = self.connection.pgconn
        if pgconn.transaction_status != pq.TransactionStatus.ACTIVE:
            return
        self.connection.cancel_safe(timeout=5)
        while (result := pgconn.get_result()) is not None:
            if result.status == pq.ExecStatus.COPY_OUT:
                while pgconn.get_copy_data(0)[0] > 0:
                    pass
            elif result.status == pq.ExecStatus.COPY_IN:
                pgconn.put_copy_end(b"interrupted")

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread; a no-op if none runs."""
        with contextlib.suppress(psycopg.Error):
            self.connection.cancel_safe(timeout=5)

    def close(self) -> None:
        """Close the connection, which frees its locks."""
        with contextlib.suppress(psycopg.Error):
            self.connection.close()


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn a driver's error into one of ours, once."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error


def translate(error: psycopg.Error) -> DponeError:
    """Our error for a driver's; an unknown one is permanent."""
    text = (error.diag.message_primary or str(error)).strip()
    if isinstance(error, _LOST) or (isinstance(error, psycopg.OperationalError) and error.sqlstate is None):
        return ConnectionLost(text)
    if isinstance(error, _TRANSIENT):
        return TransientFailure(f"{error.sqlstate}: {text}")
    if isinstance(error, pg.DiskFull):
        return ServerFull(f"{error.sqlstate}: {text}")
    return DponeError(f"{error.sqlstate}: {text}" if error.sqlstate else text)


def is_transient(sqlstate: str) -> bool:
    """Whether the server itself says that it may succeed when tried again; for drivers that tell SQLSTATE only."""
    return any(error.sqlstate == sqlstate for error in _TRANSIENT)


def is_lost(sqlstate: str) -> bool:
    """Whether the server has ended the connection; for drivers that tell SQLSTATE only."""
    return any(error.sqlstate == sqlstate for error in _LOST)


def settings_of(url: str, purpose: str, server_version: int) -> str:
    """A connection string for another driver, with this module's settings; secrets included.

    Args:
        url: `postgresql://…`.
        purpose: Goes into the application name.
        server_version: As `Session.server_version` tells it.
    """
    later = {name: value for name, (since, value) in _LATER_SETTINGS.items() if server_version >= since}
    return _conninfo(url, purpose, {**_SETTINGS, **later})


def _conninfo(url: str, purpose: str, settings: Mapping[str, str]) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        unknown = _UNKNOWN_PARAMETER.search(str(error))
        if unknown:
            raise ConnectionInvalid(f"the URL's parameter `{unknown[1]}` is unknown to libpq") from None
        raise ConnectionInvalid("the connection URL is not a valid PostgreSQL URL") from None
    # Of two settings of one name in `options` the later one counts.
    ours = [f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items()]
    options = " ".join([str(given.pop("options", "")), *ours]).strip()
    parts: dict[str, Any] = {**_KEEPALIVE, **given, "options": options, "application_name": f"dpone {purpose}"[:63]}
    return make_conninfo("", **parts)


def _connect(url: str, purpose: str) -> psycopg.Connection[Any]:
    conninfo = _conninfo(url, purpose, _SETTINGS)
    try:
        connection = psycopg.connect(conninfo, autocommit=True)
        for name, (since, value) in _LATER_SETTINGS.items():
            if connection.info.server_version >= since:
                connection.execute("SELECT /* dpone:setting */ set_config(%s, %s, false)", [name, value])
    except psycopg.OperationalError as error:
        raise _failure(error) from None
    return connection


def _failure(error: psycopg.OperationalError) -> Refused:
    said = _first_line(error)
    if _NOT_NOW.search(str(error)):
        return ServerUnreachable(said)
    return ConnectionInvalid(said) if _BAD_PARAMETER.search(said) else LoginRefused(said)


def _first_line(error: psycopg.Error) -> str:
    # libpq names host, port, user and database but never the password.
    return str(error).strip().splitlines()[0]
