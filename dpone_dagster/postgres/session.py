"""One PostgreSQL connection: settings, transactions, error translation, cancel."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from dpone_dagster.campaign.errors import (
    ConnectionLost,
    DponeError,
    LoginRefused,
    OutcomeUnknown,
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
_OPTIONS = (
    "-c client_connection_check_interval=2000 -c idle_in_transaction_session_timeout=0 "
    "-c statement_timeout=0 -c lock_timeout=0 -c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres "
    "-c extra_float_digits=1 -c bytea_output=hex -c client_encoding=UTF8"
)
_OPTIONS_13 = _OPTIONS.replace("-c client_connection_check_interval=2000 ", "")

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
_LOST = (pg.AdminShutdown, pg.CrashShutdown, pg.IdleSessionTimeout)


class Session:
    """An autocommit connection with explicit transactions. Never reconnects: a new connection has no locks.

    Args:
        url: `postgresql://…`, secrets included; kept out of every message.
        purpose: Goes into the application name, for people who look at pg_stat_activity.

    Raises:
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
            self._end_statement()
            self.connection.execute("ROLLBACK")

    def _end_statement(self) -> None:
        # What a signal handler raises leaves the statement running, so that the connection takes no other.
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
    return _conninfo(url, purpose, _OPTIONS if server_version >= 140000 else _OPTIONS_13)


def _conninfo(url: str, purpose: str, options: str) -> str:
    return make_conninfo(url, options=options, application_name=f"dpone {purpose}"[:63], **_KEEPALIVE)


def _connect(url: str, purpose: str) -> psycopg.Connection[Any]:
    try:
        try:
            return psycopg.connect(_conninfo(url, purpose, _OPTIONS), autocommit=True)
        except psycopg.OperationalError as error:
            if "client_connection_check_interval" not in str(error):
                raise
            return psycopg.connect(_conninfo(url, purpose, _OPTIONS_13), autocommit=True)  # PostgreSQL 13
    except psycopg.OperationalError as error:
        kind = ServerUnreachable if _NOT_NOW.search(str(error)) else LoginRefused
        raise kind(_first_line(error)) from None
    except psycopg.ProgrammingError:
        raise ServerUnreachable("the connection URL is not a valid PostgreSQL URL") from None


def _first_line(error: psycopg.Error) -> str:
    # libpq names host, port, user and database but never the password.
    return str(error).strip().splitlines()[0]
