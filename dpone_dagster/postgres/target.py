"""The port `Target` on PostgreSQL: one session and everything that works on it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from dpone_dagster.campaign.errors import DponeError, Finding
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports.changes import Changes
from dpone_dagster.ports.fence import Fence
from dpone_dagster.ports.history import History
from dpone_dagster.ports.ledger import Ledger
from dpone_dagster.ports.publications import Publications
from dpone_dagster.ports.source import Wire
from dpone_dagster.ports.tables import Tables
from dpone_dagster.ports.target import ServerRoom, Use
from dpone_dagster.postgres.changes import PostgresChanges
from dpone_dagster.postgres.fence import PostgresFence
from dpone_dagster.postgres.history import PostgresHistory
from dpone_dagster.postgres.ledger import PostgresLedger
from dpone_dagster.postgres.publications import PostgresPublications
from dpone_dagster.postgres.queries import load
from dpone_dagster.postgres.rights import missing_rights
from dpone_dagster.postgres.session import Session, translated
from dpone_dagster.postgres.tables import PostgresTables


class PostgresTarget:
    """One connection to a PostgreSQL target.

    Args:
        url: `postgresql://…`, secrets included; kept out of every message.
        purpose: Goes into the application name.
        state_schema: Where the state tables are.

    Raises:
        ServerUnreachable: No answer, or no connection is taken now.
        LoginRefused: The login was refused.
    """

    wire: Wire = "pgcopy"

    def __init__(self, url: str, purpose: str, state_schema: str) -> None:
        self.session = Session(url, purpose)
        self._state_schema = state_schema
        self.fence: Fence = PostgresFence(self.session, state_schema)
        self.ledger: Ledger = PostgresLedger(self.session, state_schema)
        self.tables: Tables = PostgresTables(self.session, state_schema)
        self.publications: Publications = PostgresPublications(self.session, state_schema)
        self.history: History = PostgresHistory(self.session, state_schema)
        self.changes: Changes = PostgresChanges(self.session)

    def transaction(self) -> AbstractContextManager[None]:
        """One transaction of this session: COMMIT at the end, ROLLBACK on any exception."""
        return self.session.transaction()

    def domain(self) -> str:
        """The cluster's system identifier and the database's object id, as the server tells them."""
        with translated():
            row = self.session.connection.execute(load("tables.sql")["domain"]).fetchone()
        if row is None:
            raise DponeError("the server did not tell which one it is")
        return str(row[0])

    def missing_rights(self, table: TableRef, use: Use) -> list[Finding]:
        """Rights that a campaign on this table needs and this login lacks, by name."""
        return missing_rights(self.session, table, self._state_schema, use)

    def room(self, table: TableRef) -> ServerRoom:
        """The server's clock and the size of this table; no client is told how much room its disks have."""
        values = {"schema": table.schema, "name": table.name}
        with translated():
            row = self.session.connection.execute(load("tables.sql")["room"], values).fetchone()
        if row is None:
            raise DponeError("the server did not tell its clock")
        return ServerRoom(row[0], row[1])

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread."""
        self.session.cancel()

    def close(self) -> None:
        """Close the connection, which frees every lock of it; never raises."""
        self.session.close()
