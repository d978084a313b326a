"""Bulk copy: Arrow batches into one table, over a connection of its own that holds no lock and no transaction.

The table must be one that nobody else knows: what a broken bulk copy has written stays in it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from dpone_dagster.campaign.errors import DponeError, DriverMissing, Interrupted, TransientFailure
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.address import Address, connection_string
from dpone_dagster.mssql.quoting import quoted_table
from dpone_dagster.mssql.session import Session
from dpone_dagster.ports import RowStream

_KEYWORDS = {"ConnectRetryCount": "0", "PacketSize": "32767", "KeepAlive": "10", "KeepAliveInterval": "5"}


class BulkRefused(DponeError):
    """The server does not take a bulk copy from this login; rows may still go another way."""


def bulk_copy(session: Session, table: TableRef, columns: Mapping[str, str], stream: RowStream) -> int:
    """Write a stream into an empty table; returns how many rows went there. Nothing is opened for an empty stream.

    Args:
        session: Whose server and login it is, and whose `cancel` also cuts this.
        table: Its own, dropped by the caller if this raises.
        columns: The table's column for each field of the batches; bound by name, not by position.
        stream: Arrow batches.

    Raises:
        BulkRefused: Before any row was taken from the stream's second batch on.
        DponeError: The stream's own error, as it was raised.
    """
    if stream.wire != "arrow":
        raise DponeError(f"rows come as {stream.wire}, not as Arrow batches")
    batches: Iterator[Any] = iter(stream)
    first = next(batches, None)
    if first is None:
        return 0
    source = _Source(itertools.chain([first], batches))
    mapping = [(place, columns[name]) for place, name in enumerate(first.schema.names)]
    connection = _connect(session.address)
    try:
        with session.cancellable(source.cut.set):
            copied = connection.cursor().bulkcopy_arrow(
                quoted_table(table), source, timeout=0, column_mappings=mapping, table_lock=True, keep_nulls=True
            )
    except Exception as error:
        raise source.error or _translated(error) from error
    finally:
        connection.close()
    return int(copied["rows_copied"])


class _Source:
    """The batches, with the stream's own error kept: the bulk client would wrap it into one of its own."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self.cut = threading.Event()
        self.error: BaseException | None = None

    def __iter__(self) -> _Source:
        return self

    def __next__(self) -> Any:
        try:
            if self.cut.is_set():
                raise Interrupted("the bulk copy was cut")
            return next(self._batches)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise


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
        raise TransientFailure(f"the bulk connection was not made: {_first_line(error)}") from None


def _translated(error: Exception) -> DponeError:
    return BulkRefused(f"bulk copy: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
