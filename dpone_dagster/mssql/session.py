"""One SQL Server connection: settings, statements, transactions, error translation, cancel."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpone_dagster.campaign.errors import ConnectionLost, DponeError, OutcomeUnknown, ServerUnreachable
from dpone_dagster.mssql.address import Address, connection_string
from dpone_dagster.mssql.driver import driver_name, load_pyodbc
from dpone_dagster.mssql.faults import has_spoken, is_lost, login_failure, state_of, translate
from dpone_dagster.mssql.queries import load

if TYPE_CHECKING:
    import pyodbc

# A control statement (locks, ledger, catalog) that takes longer than this is a fault; data statements have no bound.
CONTROL_SECONDS = 5
UNBOUNDED = 0
# A peer that is gone is seen after so long without traffic, and as many intervals as the kernel probes (Linux: 9).
KEEP_ALIVE_SECONDS, KEEP_ALIVE_INTERVAL_SECONDS = 10, 1
_LOGIN_SECONDS = 15
_KEYWORDS = {
    "ConnectRetryCount": "0",  # a repaired connection has lost its locks without a word
    "MARS_Connection": "no",
    "ApplicationIntent": "ReadWrite",
    # Deaths must be seen in seconds, while a long statement runs too.
    "KeepAlive": str(KEEP_ALIVE_SECONDS),
    "KeepAliveInterval": str(KEEP_ALIVE_INTERVAL_SECONDS),
}
# Beyond this many characters a text is given as nvarchar(max), or the driver takes the older ntext for it.
_SHORT_TEXT = 2_000
_QUERIES = load("session.sql")
_NAME = re.compile(r"/\* (dpone:\w+)")

Row = tuple[Any, ...]


class Companion(Protocol):
    """Something that belongs to a session."""

    def __init__(self, session: Session) -> None: ...

    def close(self) -> None:
        """Never raises."""
        ...


_Companion = TypeVar("_Companion", bound=Companion)


class Session:
    """An autocommit connection with explicit transactions. Never reconnects: a new connection has no locks.

    Every statement has a bound of its own in seconds; 0 means none.

    Args:
        where: `mssql://…`, secrets included and kept out of every message; or the address of another session.
        purpose: Goes into the application name, for people who look at sys.dm_exec_sessions.

    Attributes:
        address: Where it is connected to.
        database: The database's name as the server has it.
        session_id: Of the server.

    Raises:
        ConnectionInvalid: The URL is not one of SQL Server.
        DriverMissing: pyodbc or the ODBC driver is not there.
        ServerUnreachable: No answer, or no connection is taken now.
        LoginRefused: The login was refused.
    """

    def __init__(self, where: str | Address, purpose: str) -> None:
        self.address = Address.parse(where) if isinstance(where, str) else where
        self.purpose = purpose
        self._guard = threading.Lock()
        self._cancels: list[Callable[[], object]] = []
        self._in_transaction = False
        self._doomed = False
        self._afterwards: list[Callable[[], object]] = []
        self._companions: dict[type, Companion] = {}
        self.connection = _connect(self.address, purpose)
        (who,) = self.results(f"{_QUERIES['settings']};\n{_QUERIES['who']}")[0]
        self.session_id: int = who["session_id"]
        self.database: str = who["database_name"]

    @cached_property
    def login_at(self) -> datetime:
        """Login time in UTC: what tells two sessions of one id apart."""
        login_at: datetime = self.value(_QUERIES["login_at"])
        return login_at.replace(tzinfo=UTC)

    # ------------------------------------------------------------ statements

    def rows(self, statement: str, *values: object, seconds: int = CONTROL_SECONDS) -> list[Row]:
        """Execute and return all rows of the one result.

        Args:
            statement: T-SQL with `?` for each value.
            values: Bound; `None` is NULL.
            seconds: Bound of this statement; 0 for none.
        """
        with self._statement(seconds) as cursor:
            _execute(cursor, statement, values)
            return [tuple(row) for row in _fetched(cursor)]

    def row(self, statement: str, *values: object, seconds: int = CONTROL_SECONDS) -> Row | None:
        """The first row of the result, or None."""
        found = self.rows(statement, *values, seconds=seconds)
        return found[0] if found else None

    def records(self, statement: str, *values: object, seconds: int = CONTROL_SECONDS) -> list[dict[str, Any]]:
        """All rows of the first result, by column name."""
        return self.results(statement, *values, seconds=seconds)[0]

    def results(self, statement: str, *values: object, seconds: int = CONTROL_SECONDS) -> list[list[dict[str, Any]]]:
        """Every result of a batch in its order, each as all its rows by column name; one round trip."""
        found = []
        with self._statement(seconds) as cursor:
            _execute(cursor, statement, values)
            more = True
            while more:
                if cursor.description is not None:  # a statement without rows, such as DECLARE, may have none
                    names = [column[0] for column in cursor.description]
                    found.append([dict(zip(names, row, strict=True)) for row in cursor.fetchall()])
                more = cursor.nextset()
        return found

    def value(self, statement: str, *values: object, seconds: int = CONTROL_SECONDS) -> Any:
        """The first column of the first row; as `one`."""
        return self.one(statement, *values, seconds=seconds)[0]

    def one(self, statement: str, *values: object, seconds: int = CONTROL_SECONDS) -> Row:
        """The first row, which has to be there.

        Raises:
            ConnectionLost: It is not. A server that cannot say yet what it knows is asked by a new session.
        """
        found = self.row(statement, *values, seconds=seconds)
        if found is None:
            raise ConnectionLost(f"the server answered {_named(statement)} with no row")
        return found

    def execute(self, statement: str, *values: object, seconds: int = CONTROL_SECONDS) -> None:
        """Execute for its effect; every result is read, so that a late error is not missed."""
        with self._statement(seconds) as cursor:
            _execute(cursor, statement, values)
            while cursor.nextset():
                pass

    def changed(self, statement: str, *values: object, seconds: int = CONTROL_SECONDS) -> int:
        """Execute one INSERT, UPDATE or DELETE and return how many rows it changed, as the server counts them."""
        return int(self.value(_counted(statement), *values, seconds=seconds))

    def changed_by(self, statement: str, sizes: Sequence[object], values: Sequence[object]) -> int:
        """As `changed`, for a data statement whose parameters' types are given, so that none is guessed from a NULL.

        Args:
            statement: One INSERT, UPDATE or DELETE.
            sizes: For each `?`: the driver's (type, size, digits).
            values: For each `?`.
        """
        with self._statement(UNBOUNDED) as cursor:
            cursor.setinputsizes(sizes)
            cursor.execute(_counted(statement), values)
            return int(_fetched(cursor)[0][0])

    @contextlib.contextmanager
    def _statement(self, seconds: int) -> Iterator[pyodbc.Cursor]:
        """One cursor with its own bound, cancellable while the block runs; errors come out as ours."""
        if self._doomed:
            # XACT_ABORT has rolled back; what came now would be committed by itself.
            raise DponeError("a statement of this transaction has failed, so no other one may follow in it")
        with self._translated():
            self.connection.timeout = seconds  # taken over by cursors made from now on
            cursor = self.connection.cursor()
        try:
            with self.cancellable(cursor.cancel), self._translated():
                yield cursor
        finally:
            with contextlib.suppress(load_pyodbc().Error):
                cursor.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except load_pyodbc().Error as error:
            self._doomed = self._in_transaction
            raise translate(error) from error

    # ------------------------------------------------------------ transactions

    @property
    def in_transaction(self) -> bool:
        """Whether a block of `transaction` is open."""
        return self._in_transaction

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction: COMMIT at the end, ROLLBACK on any exception. A failed statement ends it for good.

        Raises:
            OutcomeUnknown: COMMIT was sent and its answer did not come.
        """
        if self._in_transaction:
            raise DponeError("this session is in a transaction already")
        try:
            self.execute(_QUERIES["begin"])
            self._in_transaction = True
            yield
            if self._doomed:
                raise DponeError("a statement of this transaction has failed; nothing of it was kept")
        except BaseException:
            self._rollback()
            raise
        else:
            self._commit()
        finally:
            self._tidy()

    def after_transaction(self, tidy: Callable[[], object]) -> None:
        """Call this once when the transaction in hand has ended, either way; its errors change nothing any more."""
        self._afterwards.append(tidy)

    def _tidy(self) -> None:
        todo, self._afterwards = self._afterwards, []
        for tidy in todo:
            with contextlib.suppress(DponeError):
                tidy()

    def _commit(self) -> None:
        pyodbc = load_pyodbc()
        try:
            with self._bare_cursor() as cursor:
                left = cursor.execute(_QUERIES["commit"]).fetchval()
        except pyodbc.Error as error:
            self._in_transaction = False
            if is_lost(error) or not has_spoken(error):
                raise OutcomeUnknown("the connection broke while COMMIT was under way") from error
            self._rollback()
            raise translate(error) from error
        self._in_transaction = False
        if left != 0:
            self._rollback()
            raise DponeError(f"{left} transactions were still open after COMMIT; nothing was kept")

    def _rollback(self) -> None:
        # A broken connection has rolled back by itself; its error is already on its way.
        self._in_transaction = self._doomed = False
        with contextlib.suppress(load_pyodbc().Error), self._bare_cursor() as cursor:
            cursor.execute(_QUERIES["rollback"])

    @contextlib.contextmanager
    def _bare_cursor(self) -> Iterator[pyodbc.Cursor]:
        """A cursor that nobody may cut: COMMIT and ROLLBACK end by themselves."""
        self.connection.timeout = UNBOUNDED
        cursor = self.connection.cursor()
        try:
            yield cursor
        finally:
            with contextlib.suppress(load_pyodbc().Error):
                cursor.close()

    # ------------------------------------------------------------ from other threads

    @contextlib.contextmanager
    def cancellable(self, cancel: Callable[[], object]) -> Iterator[None]:
        """While the block runs, `cancel` of this session also calls this.

        Args:
            cancel: Cuts what the block does, from another thread; whatever it raises is ignored.
        """
        with self._guard:
            self._cancels.append(cancel)
        try:
            yield
        finally:
            with self._guard:
                self._cancels.remove(cancel)

    def cancel(self) -> None:
        """Cut what is in flight; safe from another thread; a no-op if nothing is."""
        with self._guard:
            for cancel in self._cancels:
                with contextlib.suppress(Exception):
                    cancel()

    def companion(self, kind: type[_Companion]) -> _Companion:
        """What belongs to this session and is closed with it; made when first asked for.

        Args:
            kind: Its class, which takes the session; one of each.
        """
        found = self._companions.get(kind)
        if not isinstance(found, kind):
            found = self._companions[kind] = kind(self)
        return found

    def close(self) -> None:
        """Close the connection, which frees its locks, and what belongs to it."""
        for companion in self._companions.values():
            companion.close()
        with contextlib.suppress(load_pyodbc().Error):
            self.connection.close()


def _named(statement: str) -> str:
    """The statement by the comment that the server sees too."""
    found = _NAME.search(statement)
    return found[1] if found else "a statement"


def _counted(statement: str) -> str:
    return f"{statement}\n;{_QUERIES['changed']}"


def _execute(cursor: pyodbc.Cursor, statement: str, values: Sequence[object]) -> None:
    if not values:
        cursor.execute(statement)
        return
    sizes = [_size(value) for value in values]
    if any(sizes):
        cursor.setinputsizes(sizes)
    cursor.execute(statement, values)


def _fetched(cursor: pyodbc.Cursor) -> list[Any]:
    """The one result; what comes after it is read too, or an error there would be missed and the batch may be cut."""
    rows: list[Any] = cursor.fetchall()
    while cursor.nextset():
        pass
    return rows


def _size(value: object) -> tuple[int, int, int] | None:
    """The type of a parameter where the driver's own choice is not good enough."""
    if value is None:
        # Without one the driver asks the server for every NULL's type, which fails in batches.
        return (load_pyodbc().SQL_WVARCHAR, 1, 0)
    if isinstance(value, str) and len(value) > _SHORT_TEXT:
        return (load_pyodbc().SQL_WVARCHAR, 0, 0)
    return None


def _connect(address: Address, purpose: str) -> Any:
    pyodbc = load_pyodbc()
    keywords = {
        "Driver": driver_name(),
        **address.keywords(),
        **_KEYWORDS,
        "APP": f"dpone {purpose}"[:128],
        "WSID": os.uname().nodename[:128],
    }
    try:
        return pyodbc.connect(connection_string(keywords), autocommit=True, timeout=_LOGIN_SECONDS)
    except pyodbc.Error as error:
        if state_of(error) == "HYT00":
            raise ServerUnreachable(f"{address.host}:{address.port} did not answer within {_LOGIN_SECONDS} s") from None
        raise login_failure(error) from None
