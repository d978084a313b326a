"""Reads rows of the source as the contract wants them: one COPY a read, projected, guarded, labelled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from psycopg import sql

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.postgres.copystream import PgCopyStream, source_errors
from dpone_dagster.postgres.projection import nulled_counts, projection
from dpone_dagster.postgres.session import Session


class Read(Protocol):
    """What a chunk's and an increment's read have in common."""

    @property
    def table(self) -> TableRef:
        """The source table."""
        ...

    @property
    def contract(self) -> ColumnContract:
        """Projection, guards and key."""
        ...

    @property
    def digest_key(self) -> str:
        """Hexadecimal secret for key digests in error messages."""
        ...

    @property
    def label(self) -> str:
        """Run and chunk, for people who look at the server."""
        ...


class RowReader:
    """Streams rows inside the caller's transaction.

    Args:
        session: The source session.
        read: What is read.
    """

    def __init__(self, session: Session, read: Read) -> None:
        self._session = session
        self._contract = read.contract
        self._columns = projection(read.contract, read.digest_key)
        # A label may hold anything; it must not end its comment.
        self._label = re.sub(r"[^\w .=:-]", "_", read.label, flags=re.ASCII)
        self.relation = sql.Identifier(read.table.schema, read.table.name)

    @property
    def keys(self) -> list[sql.Composable]:
        """The unique key's expressions, as the target holds them."""
        return [self._columns[name] for name in self._contract.key]

    def rows(self, query: str, condition: sql.Composable) -> PgCopyStream:
        """All columns of the contract.

        Values that `on_bad_value: null` replaces cannot be counted inside the COPY: a statement before it counts them
        in the same snapshot, and only where a column asks for it.

        Args:
            query: Names the statement.
            condition: Which rows.
        """
        return PgCopyStream(
            self._session, self._copy(query, list(self._columns.values()), condition), self._nulled(condition)
        )

    def key_rows(self, query: str, condition: sql.Composable) -> PgCopyStream:
        """The unique key's columns only."""
        return PgCopyStream(self._session, self._copy(query, self.keys, condition))

    def _copy(self, query: str, columns: Sequence[sql.Composable], condition: sql.Composable) -> sql.Composed:
        comment = sql.SQL(f"/* dpone:{query} {self._label} */")
        return sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT (FORMAT binary) {}").format(
            sql.SQL(", ").join(columns), self.relation, condition, comment
        )

    def _nulled(self, condition: sql.Composable) -> dict[str, int]:
        counts = nulled_counts(self._contract)
        if not counts:
            return {}
        query = sql.SQL("SELECT /* dpone:count_nulled */ {} FROM {} WHERE {}").format(
            sql.SQL(", ").join(counts.values()), self.relation, condition
        )
        with source_errors():
            row = self._session.connection.execute(query).fetchone()
        return dict(zip(counts, row or (), strict=True))
