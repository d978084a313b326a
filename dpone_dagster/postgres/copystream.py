"""Rows of one COPY … TO STDOUT (FORMAT binary) as blocks of raw bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import psycopg
from psycopg import sql

from dpone_dagster.ports import Wire
from dpone_dagster.postgres.projection import refused_value
from dpone_dagster.postgres.session import Session, translate

_BLOCK_BYTES = 256 * 1024


class PgCopyStream:
    """One COPY, read once. The server sends a message a row; they are joined into blocks.

    Args:
        session: The source session, in its transaction.
        statement: A complete COPY … TO STDOUT statement.
        nulled: Values that the projection sets to NULL, by column.
    """

    wire: Wire = "pgcopy"

    def __init__(self, session: Session, statement: sql.Composed, nulled: Mapping[str, int] | None = None) -> None:
        self._session = session
        self._statement = statement
        self.nulled: Mapping[str, int] = nulled or {}
        self.rows = 0
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self._session.connection.cursor() as cursor:
                with cursor.copy(self._statement) as copy:
                    yield from self._blocks(copy)
                self.rows = cursor.rowcount
        except psycopg.Error as error:
            raise (refused_value(error) or translate(error)) from None

    def _blocks(self, messages: psycopg.Copy) -> Iterator[bytes]:
        parts: list[bytes] = []
        size = 0
        for message in messages:
            parts.append(bytes(message))
            size += len(message)
            if size >= _BLOCK_BYTES:
                self.bytes += size
                yield b"".join(parts)
                parts, size = [], 0
        self.bytes += size
        if parts:
            yield b"".join(parts)


def comment(query: str, label: str) -> sql.Composable:
    """A statement's comment, for people who read the server's log."""
    safe = re.sub(r"[^\w .=:-]", "_", label, flags=re.ASCII)
    return sql.SQL(f"/* dpone:{query} {safe} */")
