"""The port `Target` on SQL Server: one session and everything that works on it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from dpone_dagster.campaign.errors import Finding
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.changes import MssqlChanges
from dpone_dagster.mssql.fence import MssqlFence
from dpone_dagster.mssql.history import MssqlHistory
from dpone_dagster.mssql.ledger import MssqlLedger
from dpone_dagster.mssql.publications import MssqlPublications
from dpone_dagster.mssql.queries import load
from dpone_dagster.mssql.rights import missing_rights
from dpone_dagster.mssql.room import room_of
from dpone_dagster.mssql.session import Session
from dpone_dagster.mssql.tables import MssqlTables
from dpone_dagster.ports.changes import Changes
from dpone_dagster.ports.fence import Fence
from dpone_dagster.ports.history import History
from dpone_dagster.ports.ledger import Ledger
from dpone_dagster.ports.publications import Publications
from dpone_dagster.ports.source import Wire
from dpone_dagster.ports.tables import Tables
from dpone_dagster.ports.target import ServerRoom, Use


class MssqlTarget:
    """One connection to a SQL Server target.

    Args:
        url: `mssql://…`, secrets included; kept out of every message.
        purpose: Goes into the application name.
        state_schema: Where the state tables are.

    Raises:
        ConnectionInvalid: The URL is not one of SQL Server.
        DriverMissing: pyodbc or the ODBC driver is not there.
        ServerUnreachable: No answer, or no connection is taken now.
        LoginRefused: The login was refused.
    """

    wire: Wire = "arrow"

    def __init__(self, url: str, purpose: str, state_schema: str) -> None:
        self.session = Session(url, purpose)
        self._state_schema = state_schema
        self.fence: Fence = MssqlFence(self.session, state_schema)
        self.ledger: Ledger = MssqlLedger(self.session, state_schema)
        self.tables: Tables = MssqlTables(self.session, state_schema)
        self.publications: Publications = MssqlPublications(self.session, state_schema)
        self.history: History = MssqlHistory(self.session, state_schema)
        self.changes: Changes = MssqlChanges(self.session)

    def transaction(self) -> AbstractContextManager[None]:
        """One transaction of this session: COMMIT at the end, ROLLBACK on any exception."""
        return self.session.transaction()

    def domain(self) -> str:
        """Server, database, and when both were made, as the server tells them."""
        return str(self.session.value(load("target.sql")["domain"]))

    def missing_rights(self, table: TableRef, use: Use) -> list[Finding]:  # noqa: ARG002 - stages need all of them
        """Rights that a campaign on this table needs and this login lacks, by name."""
        return missing_rights(self.session, table, self._state_schema)

    def room(self, table: TableRef) -> ServerRoom:
        """The server's clock, and what it tells this login of its disks; the size is that of this table."""
        return room_of(self.session, table)

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread."""
        self.session.cancel()

    def close(self) -> None:
        """Close the connection, which frees every lock of it; never raises."""
        self.session.close()
