"""Reads rows of the source as the contract wants them: one COPY a read, projected, guarded, labelled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

from psycopg import sql

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports.source import in_comment
from dpone_dagster.postgres.arrowstream import ArrowReader, ArrowStream
from dpone_dagster.postgres.copystream import PgCopyStream, source_errors
from dpone_dagster.postgres.digests import content_digest_query, portable
from dpone_dagster.postgres.projection import nulled_counts, projection
from dpone_dagster.postgres.session import Session

_DECIMAL = re.compile(r"numeric\((\d+),(\d+)\)")


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


class _Later(Mapping[str, int]):
    """Counts that are made when they are first looked at."""

    def __init__(self, count: Callable[[], Mapping[str, int]]) -> None:
        self._count = count

    @cached_property
    def _counts(self) -> Mapping[str, int]:
        return self._count()

    def __getitem__(self, column: str) -> int:
        return self._counts[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)


class RowReader:
    """Streams rows inside the caller's transaction.

    Args:
        session: The source session.
        read: What is read.
        arrow: The second connection, over which rows come as Arrow batches; None for binary COPY.
    """

    def __init__(self, session: Session, read: Read, arrow: ArrowReader | None = None) -> None:
        self._session = session
        self._arrow = arrow
        self._contract = read.contract
        self._columns = projection(read.contract, read.digest_key)
        self._label = in_comment(read.label)
        self.relation = sql.Identifier(read.table.schema, read.table.name)

    @property
    def keys(self) -> list[sql.Composable]:
        """The unique key's expressions, as the target holds them."""
        return [self._columns[name] for name in self._contract.key]

    @property
    def portable_values(self) -> list[sql.Composable]:
        """All columns of the contract, as they are digested."""
        return [portable(self._columns[column.target], column.target_type) for column in self._contract.columns]

    def rows(self, query: str, condition: sql.Composable) -> PgCopyStream | ArrowStream:
        """All columns of the contract.

        Values that `on_bad_value: null` replaces cannot be counted inside the COPY: a statement before it counts them
        in the same snapshot, and only where a column asks for it.

        Args:
            query: Names the statement.
            condition: Which rows.
        """
        return self._stream(query, self._columns, condition, self._nulled(condition))

    def rows_if_any(self, query: str, condition: sql.Composable) -> PgCopyStream | ArrowStream:
        """As `rows`, but what was replaced is counted when it is first asked for, after the rows; none, no count."""
        stream = self._stream(query, self._columns, condition)
        stream.nulled = _Later(lambda: self._nulled(condition) if stream.rows else {})
        return stream

    def key_rows(self, query: str, condition: sql.Composable) -> PgCopyStream | ArrowStream:
        """The unique key's columns only."""
        return self._stream(query, {name: self._columns[name] for name in self._contract.key}, condition)

    def digest(self, condition: sql.Composable) -> str:
        """`<rows>:<sum>` over the rows as the target will hold them, in the snapshot that they are read in.

        Args:
            condition: Which rows.
        """
        with source_errors():
            query = content_digest_query(self.relation, self.portable_values, only=condition)
            row = self._session.connection.execute(query).fetchone()
        if row is None:
            raise DponeError("the source answered with no digest")
        return str(row[0])

    def _stream(
        self,
        query: str,
        columns: Mapping[str, sql.Composable],
        condition: sql.Composable,
        nulled: Mapping[str, int] = MappingProxyType({}),
    ) -> PgCopyStream | ArrowStream:
        select = sql.SQL("SELECT {} FROM {} WHERE {}").format(
            sql.SQL(", ").join(columns.values()), self.relation, condition
        )
        comment = sql.SQL(f"/* dpone:{query} {self._label} */")
        if self._arrow is not None:
            # The driver puts COPY around it, so the comment has to come first.
            query_text = sql.SQL("{} {}").format(comment, select)
            return ArrowStream(self._session, self._arrow, query_text, list(columns), self._decimals(), nulled)
        copy = sql.SQL("COPY ({}) TO STDOUT (FORMAT binary) {}").format(select, comment)
        return PgCopyStream(self._session, copy, nulled)

    def _decimals(self) -> dict[str, tuple[int, int]]:
        found = ((column.target, _DECIMAL.fullmatch(column.cast or "")) for column in self._contract.columns)
        return {name: (int(match[1]), int(match[2])) for name, match in found if match}

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
