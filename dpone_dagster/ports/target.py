"""The target: one connection whose parts share its session, and what opens it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from dpone_dagster.campaign.errors import Finding
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports.changes import Changes
from dpone_dagster.ports.fence import Fence
from dpone_dagster.ports.history import History
from dpone_dagster.ports.ledger import Ledger
from dpone_dagster.ports.publications import Publications
from dpone_dagster.ports.source import Source, Wire
from dpone_dagster.ports.tables import Tables

# What a campaign does to the live table: swap another one in, or write rows to it.
Use = Literal["publish", "write"]


@dataclass(frozen=True)
class ServerRoom:
    """What the target's server says of itself; None for what it does not tell this login.

    Attributes:
        now: Its clock.
        table_bytes: Size of the live table with its indexes.
        free_bytes: What its data files have left, and what they may still grow by on their volumes.
        log_free_bytes: The same of its transaction log.
    """

    now: datetime
    table_bytes: int | None = None
    free_bytes: int | None = None
    log_free_bytes: int | None = None


class Target(Protocol):
    """One connection to the target server and what can be done on it.

    Attributes:
        wire: The form in which it takes rows best; it takes Arrow batches too.
    """

    wire: Wire
    fence: Fence
    ledger: Ledger
    tables: Tables
    publications: Publications
    history: History
    changes: Changes

    def transaction(self) -> AbstractContextManager[None]:
        """One transaction of this session: COMMIT at the end, ROLLBACK on any exception.

        Raises:
            OutcomeUnknown: COMMIT was sent and not answered.
        """
        ...

    def domain(self) -> str:
        """Server and database, as proven by the server: equal for connections of one transaction domain."""
        ...

    def missing_rights(self, table: TableRef, use: Use) -> list[Finding]:
        """Rights that a campaign needs on this table, for this use of it, and this login lacks; changes nothing."""
        ...

    def room(self, table: TableRef) -> ServerRoom:
        """The server's clock, and what it tells of its disks; the size is that of this table. Changes nothing."""
        ...

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread."""
        ...

    def close(self) -> None:
        """Close the connection, which frees every lock of it; never raises."""
        ...


class Connector(Protocol):
    """Opens connections for a campaign; `purpose` goes into the application name."""

    def source(self, purpose: str) -> Source:
        """A new source connection."""
        ...

    def target(self, purpose: str) -> Target:
        """A new target connection."""
        ...

    def state(self, purpose: str) -> Target:
        """A new connection to where the state is said to live; it must prove to be the target's own domain."""
        ...
