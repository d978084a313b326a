"""Statements of one SQL file against the state schema, with rows as mappings and row counts that are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import Cursor
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb

from dpone_dagster.postgres.queries import in_schema
from dpone_dagster.postgres.session import Session, translated


class StateRows:
    """Runs named statements with bound values.

    Args:
        session: The target's session.
        file_name: Such as `ledger.sql`.
        state_schema: Where the state tables are.
    """

    def __init__(self, session: Session, file_name: str, state_schema: str) -> None:
        self._session = session
        self._queries = in_schema(file_name, state_schema)

    def execute(self, query: str, **values: object) -> Cursor[DictRow]:
        """Run one statement; plain data goes as jsonb, and the driver's errors come as they are."""
        self._session.end_statement()
        cursor = self._session.connection.cursor(row_factory=dict_row)
        stored = {name: Jsonb(dict(value)) if isinstance(value, Mapping) else value for name, value in values.items()}
        return cursor.execute(self._queries[query], stored)

    def moved(self, query: str, **values: object) -> bool:
        """Run one statement; whether it touched exactly one row."""
        with translated():
            return self.execute(query, **values).rowcount == 1

    def row(self, query: str, **values: object) -> dict[str, Any] | None:
        """The first row, or None."""
        with translated():
            return self.execute(query, **values).fetchone()

    def rows(self, query: str, **values: object) -> list[dict[str, Any]]:
        """All rows."""
        with translated():
            return self.execute(query, **values).fetchall()
