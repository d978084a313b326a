"""Rows of one COPY as Arrow batches, decoded from its binary form outside Python.

They come over a second connection, in the very snapshot of the session that has locked the table and made every proof:
that session exports its snapshot, and its transaction stays open until the last batch.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any

from psycopg import sql

from dpone_dagster.campaign.errors import ConnectionLost, DponeError, DriverMissing, Interrupted, TransientFailure
from dpone_dagster.ports.source import Wire
from dpone_dagster.postgres.projection import refused_text
from dpone_dagster.postgres.queries import load
from dpone_dagster.postgres.readahead import read_ahead
from dpone_dagster.postgres.session import Session, is_lost, is_transient, settings_of, translated

# Memory is a few batches, whatever the chunk's size.
_BATCH_BYTES = 1024 * 1024
_CUT = "57014"
_DATA_EXCEPTION = "22"  # class of SQLSTATE; its messages quote the value
_SERVER_SAID = re.compile(r"(?:ERROR|FATAL|PANIC):\s+([^\n]*)")
_PLAIN_TEXT = frozenset({"arrow.json"})


class ArrowReader:
    """The second connection of a source: opened by the first read, kept for the source's life.

    Args:
        url: `postgresql://…`, secrets included; kept out of every message.
        purpose: Goes into the application name.
        server_version: As `Session.server_version` tells it.
    """

    def __init__(self, url: str, purpose: str, server_version: int) -> None:
        self._settings = settings_of(url, purpose, server_version)
        self._guard = threading.Lock()
        self._database: Any = None
        self._connection: Any = None
        self._statement: Any = None

    def batches(self, snapshot: str, query: str) -> Generator[Any, None, None]:
        """The rows of one query in an exported snapshot, as the driver decodes them.

        Args:
            snapshot: What `pg_export_snapshot()` returned.
            query: A SELECT; the driver makes it one binary COPY.
        """
        done = False
        try:
            statement = self._open()
            _execute(statement, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            _execute(statement, f"SET TRANSACTION SNAPSHOT '{_checked(snapshot)}'")
            yield from _read(statement, query)
            _execute(statement, "ROLLBACK")
            done = True
        finally:
            # Half a result may still be on its way, so the connection is of no more use.
            self._leave(keep=done)

    def _open(self) -> Any:
        fresh = self._connection is None
        if fresh:
            self._database, self._connection = _connect(self._settings)
        statement = _statement(self._connection)
        with self._guard:
            self._statement = statement
        if fresh:
            _execute(statement, load("source.sql")["settle_session"])
        return statement

    def _leave(self, *, keep: bool) -> None:
        with self._guard:
            statement, self._statement = self._statement, None
        with contextlib.suppress(Exception):
            if not keep:
                statement.cancel()
        with contextlib.suppress(Exception):
            statement.close()
        if not keep:
            self.close()

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread; a no-op if none runs."""
        with self._guard, contextlib.suppress(Exception):
            if self._statement is not None:
                self._statement.cancel()

    def close(self) -> None:
        """Close the connection; never raises."""
        opened = (self._connection, self._database)
        self._connection = self._database = None
        for each in opened:
            with contextlib.suppress(Exception):
                if each is not None:
                    each.close()


class ArrowStream:
    """One query, read once; used as a context manager, so that a read that is given up ends on the server too.

    Args:
        session: The source session, in its REPEATABLE READ transaction, all proofs made.
        reader: Its second connection.
        query: A SELECT of the columns below.
        columns: Names of the batches' fields, in the query's order.
        decimals: (precision, scale) of the fields that are a numeric.
        nulled: Values that the projection sets to NULL, by target column.
    """

    wire: Wire = "arrow"

    def __init__(
        self,
        session: Session,
        reader: ArrowReader,
        query: sql.Composed,
        columns: Sequence[str],
        decimals: Mapping[str, tuple[int, int]],
        nulled: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._session = session
        self._reader = reader
        self._query = query
        self._columns = list(columns)
        self._decimals = decimals
        self._batches: Generator[Any, None, None] | None = None
        self.nulled: Mapping[str, int] = nulled
        self.digest: str | None = None
        self.rows = 0
        self.bytes = 0

    def __enter__(self) -> ArrowStream:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._batches is not None:
            self._batches.close()

    def __iter__(self) -> Iterator[Any]:
        if self._batches is not None:
            raise DponeError("the rows of one COPY can be read once only")
        query = self._query.as_string(self._session.connection)
        self._batches = read_ahead(self._received(self._exported(), query), self._reader.cancel)
        return self._batches

    def _received(self, snapshot: str, query: str) -> Generator[Any, None, None]:
        with contextlib.closing(self._reader.batches(snapshot, query)) as batches:
            for batch in batches:
                self.rows += batch.num_rows
                self.bytes += batch.nbytes
                yield self._plain(batch)

    def _exported(self) -> str:
        with translated():
            query = "SELECT /* dpone:export_snapshot */ pg_export_snapshot()"
            row = self._session.connection.execute(query).fetchone()
        if row is None:
            raise DponeError("the source exported no snapshot")
        return str(row[0])

    def _plain(self, batch: Any) -> Any:
        """The batch in types that every target knows, under the target's names."""
        import pyarrow as pa

        arrays = [self._column(name, array) for name, array in zip(self._columns, batch.columns, strict=True)]
        return pa.record_batch(arrays, names=self._columns)

    def _column(self, name: str, array: Any) -> Any:
        import pyarrow as pa

        if name in self._decimals:
            return array.storage.cast(pa.decimal128(*self._decimals[name]))
        kind = array.type
        if not isinstance(kind, pa.BaseExtensionType) or kind.extension_name == "arrow.uuid":
            return array
        if kind.extension_name in _PLAIN_TEXT:
            return array.storage
        raise DponeError(f"column `{name}` comes as {kind}, for which there is no plain Arrow type")


def _execute(statement: Any, query: str) -> None:
    with _translated():
        statement.set_sql_query(query)
        statement.execute_update()


def _read(statement: Any, query: str) -> Iterator[Any]:
    """The batches that have rows. Errors are the driver's own, which tell SQLSTATE; those of Arrow's reader do not."""
    from adbc_driver_manager import _reader

    with _translated():
        statement.set_sql_query(query)
        handle, _ = statement.execute_query()  # owns the stream until the reader has taken it over
    reader = _reader.AdbcRecordBatchReader._import_from_c(handle.address)
    while True:
        try:
            with _translated():
                batch = reader.read_next_batch()
        except StopIteration:
            return
        if batch.num_rows:
            yield batch


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    from adbc_driver_manager import Error

    try:
        yield
    except Error as error:
        raise _our_error(error.sqlstate, str(error)) from None  # the driver's own text may quote a value


def _our_error(state: str | None, text: str) -> DponeError:
    refused = refused_text(text)
    if refused is not None:
        return refused
    said = _SERVER_SAID.search(text)
    message = (said[1] if said else text.split("\n", 1)[0]).strip()
    if state == _CUT:
        return Interrupted("the statement was cut")
    if state is None or is_lost(state):
        return ConnectionLost(message)
    if state.startswith(_DATA_EXCEPTION):
        return DponeError(f"the source could not send its rows: {state}")
    return TransientFailure(f"{state}: {message}") if is_transient(state) else DponeError(f"{state}: {message}")


def _connect(settings: str) -> tuple[Any, Any]:
    """The driver's own interface: its DB-API also loads Arrow's datasets, 25 MB that nothing here uses."""
    try:
        import adbc_driver_postgresql
        from adbc_driver_manager import AdbcConnection, _reader  # noqa: F401  # the reader needs pyarrow
    except ImportError:
        raise DriverMissing(
            "the packages adbc-driver-postgresql and pyarrow are not installed",
            next_step="Install them: pip install 'dpone-dagster[mssql]'.",
        ) from None
    with _translated():
        database = adbc_driver_postgresql.connect(settings)
        return database, AdbcConnection(database)


def _statement(connection: Any) -> Any:
    from adbc_driver_manager import AdbcStatement
    from adbc_driver_postgresql import StatementOptions

    with _translated():
        statement = AdbcStatement(connection)
        statement.set_options(**{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BATCH_BYTES)})
        return statement


def _checked(snapshot: str) -> str:
    if not re.fullmatch(r"[0-9A-F-]+", snapshot):
        raise DponeError("the source exported a snapshot of a strange name")
    return snapshot
