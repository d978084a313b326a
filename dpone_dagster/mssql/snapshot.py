"""The connection over which a source's rows come: Arrow batches, all of one snapshot.

A transaction under SNAPSHOT isolation reads what was committed when it began, waits for no writer and keeps none
waiting: https://learn.microsoft.com/sql/t-sql/statements/set-transaction-isolation-level-transact-sql. Under READ
COMMITTED rows that move while they are read can be missed or come twice.

The client has no error numbers, only SQLSTATEs' names, and no application name of its own; what it works on is its
context info. Cancelling uses what its own `arrow_reader` uses.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterator
from typing import Any

from dpone_dagster.campaign.errors import ConnectionLost, DponeError, DriverMissing, Interrupted, TransientFailure
from dpone_dagster.mssql.address import Address, connection_string
from dpone_dagster.mssql.bulk import context_statement
from dpone_dagster.mssql.faults import without_values
from dpone_dagster.mssql.queries import load
from dpone_dagster.mssql.session import KEEP_ALIVE_INTERVAL_SECONDS, KEEP_ALIVE_SECONDS

_KEYWORDS = {
    "PacketSize": "32767",
    "ConnectRetryCount": "0",
    "KeepAlive": str(KEEP_ALIVE_SECONDS),
    "KeepAliveInterval": str(KEEP_ALIVE_INTERVAL_SECONDS),
}
_QUERIES = load("source.sql")
# The client's words for the SQLSTATEs 08xxx and 40001.
_LOST = (
    "Client unable to establish connection",
    "Communication link failure",
    "Connection failure during transaction",
    "Connection not open",
)
_AGAIN = ("Serialization failure",)
# How errors 3960 and 3961 begin; the session's language is English. What was altered is not only what is read: an index
# that is rebuilt fails a snapshot too.
_SNAPSHOT_FAILED = "Snapshot isolation transaction"

Row = tuple[Any, ...]


class SnapshotConnection:
    """Opened by the first snapshot, and kept; one that an error has been on is made anew.

    Args:
        address: Where the source is.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: Any = None
        self._guard = threading.Lock()
        self._cursor: Any = None
        self._cut = False
        self._half_read = False  # the rest of a result may still be on its way
        self.active = False

    @contextlib.contextmanager
    def snapshot(self, label: str) -> Iterator[None]:
        """One transaction under SNAPSHOT isolation, which ends with the block.

        Args:
            label: What it is for, as the server shows it.
        """
        self._cut = self._half_read = False
        kept = False
        try:
            if self._connection is None:
                self._connection = _connect(self._address)
                self.execute(load("session.sql")["settings"])
            self.execute(context_statement(label))
            self.execute(_QUERIES["begin"])
            self.active = True
            yield
            if not self._half_read:
                self.execute(_QUERIES["end"])
                kept = True
        finally:
            self.active = False
            if not kept:
                self.close()

    def execute(self, statement: str) -> None:
        """Execute for its effect."""
        with self._executed(statement):
            pass

    def rows(self, statement: str) -> list[Row]:
        """Execute and return all rows of the one result."""
        with self._executed(statement) as cursor:
            return [tuple(row) for row in cursor.fetchall()]

    def value(self, statement: str) -> Any:
        """The first column of the first row.

        Raises:
            DponeError: There is no row.
        """
        found = self.rows(statement)
        if not found:
            raise DponeError("the source answered with no row")
        return found[0][0]

    def batches(self, statement: str, pace: Pace) -> Generator[Any, None, None]:
        """The rows of one statement as Arrow batches, none of them empty.

        Args:
            statement: A SELECT.
            pace: How many rows at once.
        """
        with self._executed(statement) as cursor:
            self._half_read = True
            while True:
                with self._translated():
                    batch = cursor.arrow_batch(pace.rows)
                if not batch.num_rows:
                    self._half_read = False
                    return
                pace.seen(batch.num_rows, batch.nbytes)
                yield batch

    @contextlib.contextmanager
    def _executed(self, statement: str) -> Iterator[Any]:
        with self._translated():
            cursor = self._connection.cursor()
        with self._guard:
            self._cursor = cursor
        try:
            with self._translated():
                cursor.execute(statement)
                yield cursor
        finally:
            with self._guard:
                self._cursor = None
            with contextlib.suppress(Exception):
                cursor.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        import mssql_python

        if self._cut:
            raise Interrupted("the statement was cut")
        try:
            yield
        except mssql_python.Error as error:
            if self._cut:
                raise Interrupted("the statement was cut") from None
            raise _our_error(error) from None  # the driver's own text may quote a value

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread; a no-op if there is no snapshot."""
        with self._guard, contextlib.suppress(Exception):
            self._cut = True
            if self._cursor is not None:
                self._cursor.hstmt._cancel()

    def close(self) -> None:
        """Close the connection; never raises."""
        connection, self._connection = self._connection, None
        with contextlib.suppress(Exception):
            if connection is not None:
                connection.close()


class Pace:
    """How many rows are fetched at once, so that a batch stays near a size in bytes.

    The client makes room for the declared length of every column and row of a batch beforehand; what has no length
    is fetched row by row, and only experience tells how long it is.

    Args:
        declared_bytes: Of one row, without what has no length.
        unbounded: Whether it has such a column.
    """

    def __init__(self, declared_bytes: int, *, unbounded: bool) -> None:
        self._most = max(1, min(_MOST_ROWS, _BUFFER_BYTES // max(1, declared_bytes)))
        self._learns = unbounded
        self.rows = min(self._most, _FIRST_ROWS) if unbounded else self._most

    def seen(self, rows: int, size: int) -> None:
        """A batch has come: the next one has as many rows as would have filled it, at most four times as many."""
        if self._learns:
            fitting = _BATCH_BYTES * rows // max(1, size)
            self.rows = max(1, min(self._most, fitting, 4 * self.rows))


_MOST_ROWS = 16_384
_FIRST_ROWS = 64
_BATCH_BYTES = 4 * 1024 * 1024
_BUFFER_BYTES = 4 * _BATCH_BYTES


def _connect(address: Address) -> Any:
    try:
        import mssql_python
    except ImportError:
        raise DriverMissing(
            "the package mssql-python is not installed", next_step="Install it: pip install 'dpone-dagster[mssql]'."
        ) from None
    mssql_python.pooling(enabled=False)
    try:
        return mssql_python.connect(connection_string({**address.keywords(), **_KEYWORDS}), autocommit=True)
    except mssql_python.Error as error:
        raise TransientFailure(f"the connection for the source's rows was not made: {_said(error)}") from None


def _our_error(error: Any) -> DponeError:
    said = _said(error)
    if error.driver_error in _LOST:
        return ConnectionLost(said)
    again = error.driver_error in _AGAIN or said.startswith(_SNAPSHOT_FAILED)
    return TransientFailure(said) if again else DponeError(said)


def _said(error: Any) -> str:
    """The server's sentence, or the driver's, without the driver's names and without any value that it quotes."""
    text = str(error.ddbc_error or error.driver_error).rpartition("]")[2].strip() or str(error.driver_error)
    return without_values(text.splitlines()[0])
