"""Bulk copy: Arrow batches into one table, over a connection of its own that holds no lock and no transaction.

The table must be one that nobody else knows: what a broken bulk copy has written stays in it. The connection is kept
for the session's life, since its first bulk copy costs a hundred times what the next ones cost.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from dpone_dagster.campaign.errors import (
    ConnectionLost,
    DponeError,
    DriverMissing,
    Interrupted,
    ServerFull,
    TransientFailure,
)
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.address import Address, connection_string
from dpone_dagster.mssql.faults import FULL, LOST, TRANSIENT, without_values
from dpone_dagster.mssql.quoting import quoted_table
from dpone_dagster.mssql.session import KEEP_ALIVE_INTERVAL_SECONDS, KEEP_ALIVE_SECONDS, Session
from dpone_dagster.mssql.stages import Stage
from dpone_dagster.ports.source import RowStream

_PACKET_BYTES = 32_767
_NUMBER = re.compile(r"Sql Error: (\d+)")
_BROKEN = re.compile(r"\bIO error\b|\bos error\b")  # the client's words for a connection that is gone
# Keywords of a connection string, and what the client beneath bulk copy calls them.
_NATIVE = {
    "Server": "server",
    "Database": "database",
    "UID": "user_name",
    "PWD": "password",
    "Encrypt": "encryption",
    "TrustServerCertificate": "trust_server_certificate",
    "HostnameInCertificate": "host_name_in_certificate",
    "ServerCertificate": "server_certificate",
    "MultiSubnetFailover": "multi_subnet_failover",
}


class BulkRefused(DponeError):
    """The server does not take a bulk copy from this login; rows may still go another way."""


class BulkConnection:
    """The bulk connection of one session; opened by the first bulk copy.

    Args:
        session: Whose server and login it is. Its purpose, lane and run of a lane, goes into the application name.
    """

    def __init__(self, session: Session) -> None:
        self._address = session.address
        self._name = f"dpone {session.purpose} bulk"[:128]
        self._connection: Any = None

    def copy(self, table: TableRef, batches: Iterator[Any], mapping: list[tuple[int, str]], label: str) -> int:
        """Send every batch; returns how many rows the client counted.

        The connection outlives a chunk, so chunk and epoch cannot be in its name; they are its context info.
        """
        if self._connection is None:
            self._connection = _connect(self._address, self._name)
        cursor = self._connection.cursor()
        try:
            cursor.execute(context_statement(label))
            copied = cursor.bulkcopy_arrow(
                quoted_table(table), batches, timeout=0, column_mappings=mapping, table_lock=True, keep_nulls=True
            )
        except BaseException:
            self.close()  # half a bulk copy may still be on its way
            raise
        with contextlib.suppress(Exception):
            cursor.close()
        return int(copied["rows_copied"])

    def close(self) -> None:
        """Close the connection; never raises."""
        connection, self._connection = self._connection, None
        with contextlib.suppress(Exception):
            if connection is not None:
                connection.close()


def context_statement(label: str) -> str:
    """Say what a session works on, where sys.dm_exec_sessions shows it (`context_info`, 128 bytes)."""
    return f"SET CONTEXT_INFO 0x{label.encode()[:128].hex()}"


def bulk_copy(session: Session, stage: Stage, stream: RowStream) -> int:
    """Write a stream into an empty stage; returns how many rows went there. Nothing is opened for an empty stream.

    Args:
        session: Whose server and login it is, and whose `cancel` also cuts this.
        stage: Its own, dropped by the caller if this raises. Its columns are bound by name, not by position.
        stream: Arrow batches.

    Raises:
        BulkRefused: The server, or the client for a value's type, refused it.
        ConnectionLost, TransientFailure: As the server's error number says.
        DponeError: The stream's own error, as it was raised.
    """
    if stream.wire != "arrow":
        raise DponeError(f"rows come as {stream.wire}, not as Arrow batches")
    batches: Iterator[Any] = iter(stream)
    first = next(batches, None)
    if first is None:
        return 0
    source = _Source(itertools.chain([first], batches))
    mapping = [(place, stage.columns[name]) for place, name in enumerate(first.schema.names)]
    connection = session.companion(BulkConnection)
    try:
        with session.cancellable(source.cut.set):
            return connection.copy(stage.table, source, mapping, stage.label)
    except DponeError:
        raise
    except Exception as error:
        raise source.error or _translated(error) from error


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


def _connect(address: Address, name: str) -> Any:
    keywords = address.keywords()
    try:
        if not {"UID", "PWD"} <= keywords.keys() or "Authentication" in keywords:
            return _connect_by_token(keywords)
        import mssql_py_core
    except ImportError:
        raise DriverMissing(
            "the package mssql-python is not installed", next_step="Install it: pip install 'dpone-dagster[mssql]'."
        ) from None
    native: dict[str, object] = {_NATIVE[word]: value for word, value in keywords.items()}
    native["server"] = keywords["Server"].removeprefix("tcp:")
    native |= {
        "application_name": name,
        "packet_size": _PACKET_BYTES,
        "connect_retry_count": 0,
        "keep_alive": KEEP_ALIVE_SECONDS * 1000,
        "keep_alive_interval": KEEP_ALIVE_INTERVAL_SECONDS * 1000,
    }
    try:
        return mssql_py_core.PyCoreConnection(native)
    except Exception as error:  # noqa: BLE001  # the client has no class of its own for its errors
        raise TransientFailure(f"the bulk connection was not made: {_first_line(error)}") from None


def _connect_by_token(keywords: Mapping[str, str]) -> Any:
    """For logins that are no name with a password: the whole driver, which knows how to get a token."""
    import mssql_python

    mssql_python.pooling(enabled=False)
    more = {
        "PacketSize": str(_PACKET_BYTES),
        "ConnectRetryCount": "0",
        "KeepAlive": str(KEEP_ALIVE_SECONDS),
        "KeepAliveInterval": str(KEEP_ALIVE_INTERVAL_SECONDS),
    }
    try:
        return mssql_python.connect(connection_string({**keywords, **more}), autocommit=True)
    except mssql_python.Error as error:
        raise TransientFailure(f"the bulk connection was not made: {_first_line(error)}") from None


def _translated(error: Exception) -> DponeError:
    said = f"bulk copy: {_first_line(error)}"
    found = _NUMBER.search(str(error))
    number = int(found[1]) if found else 0
    if number in LOST or _BROKEN.search(str(error)):
        return ConnectionLost(said)
    if number in FULL:
        return ServerFull(said)
    return TransientFailure(said) if number in TRANSIENT else BulkRefused(said)


def _first_line(error: Exception) -> str:
    return without_values((str(error).strip().splitlines() or [type(error).__name__])[0])
