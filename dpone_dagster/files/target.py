"""The port `Target` with its state in a file: the server keeps the locks and the rows, this machine the ledger."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from dpone_dagster.campaign.errors import Finding
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.files.history import FileHistory
from dpone_dagster.files.ledger import FileLedger
from dpone_dagster.files.publications import NoPublications
from dpone_dagster.ports.history import History
from dpone_dagster.ports.ledger import Ledger
from dpone_dagster.ports.publications import Publications
from dpone_dagster.ports.target import ServerRoom, Target, Use


class FileStateTarget:
    """A target whose ledger is a file.

    Args:
        server: The target itself, which has no state tables.
        folder: Where the files are.
        run_key: The campaign.
    """

    def __init__(self, server: Target, folder: Path, run_key: str) -> None:
        self._server = server
        self._state = FileLedger(folder, run_key)
        self._run_key = run_key
        self.wire = server.wire
        self.fence = server.fence
        self.tables = server.tables
        self.publications: Publications = NoPublications()
        self.changes = server.changes
        self.ledger: Ledger = self._state
        self.history: History = FileHistory(self._state)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction of the session, and one change of the file, which comes after its COMMIT or not at all."""
        with self._state.file(self._run_key).change(), self._server.transaction():
            yield

    def domain(self) -> str:
        """The server's."""
        return self._server.domain()

    def missing_rights(self, table: TableRef, use: Use) -> list[Finding]:
        """The server's; there are no state tables to have rights on."""
        return self._server.missing_rights(table, use)

    def room(self, table: TableRef) -> ServerRoom:
        """The server's."""
        return self._server.room(table)

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread."""
        self._server.cancel()

    def close(self) -> None:
        """Close the connection, which frees every lock of it; never raises."""
        self._server.close()
