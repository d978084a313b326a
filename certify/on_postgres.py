"""Both ends on PostgreSQL: the source table, and the target's."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, LiteralString

from psycopg import sql

from certify.measurements import Server
from certify.orders import LIVE, NEW_SINCE, OLD, POSTGRES_COLUMNS, POSTGRES_ROWS, SOURCE, STATE_SCHEMA, Batch
from demo.reader import State
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.postgres.session import Session, translated

_PURPOSE = "certify"
_FILLERS = 2
_TAKEN = "SELECT nspname FROM pg_namespace WHERE nspname = ANY (%s) ORDER BY 1"
_TABLES = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname = ANY (%s) ORDER BY 1, 2"
# One statement, so one snapshot: whole generations only, or it would show here.
_LOOK: LiteralString = """
    SELECT count(*) FILTER (WHERE placed_at < %(since)s), count(*) FILTER (WHERE placed_at >= %(since)s) FROM {}
"""


class _Ground:
    """Schemas of a database that are a certification's own.

    Args:
        ref: The connection's name.
        url: Its URL.
        schemas: Their names.
    """

    def __init__(self, ref: str, url: str, schemas: Sequence[str]) -> None:
        self._url = url
        self._schemas = list(schemas)
        self._session = Session(url, _PURPOSE)
        ((version,),) = self._rows("SELECT version()")
        self.server = Server(
            connection_ref=ref, kind="postgres", version=version, genuine=version.startswith("PostgreSQL ")
        )

    def taken(self) -> list[str]:
        """Its schemas that are there already."""
        return [name for (name,) in self._rows(_TAKEN, (self._schemas,))]

    def drop(self) -> None:
        """Drop them, with every table in them."""
        tables = [sql.Identifier(schema, name) for schema, name in self._rows(_TABLES, (self._schemas,))]
        if tables:  # all at once, since they refer to one another
            self._do(sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(tables)))
        for schema in self._schemas:
            self._do(sql.SQL("DROP SCHEMA IF EXISTS {}").format(sql.Identifier(schema)))

    def rows_and_keys(self, table: TableRef) -> tuple[int, int]:
        """Exact number of rows, and of different keys."""
        query = sql.SQL("SELECT count(*), count(DISTINCT id) FROM {}").format(_name(table))
        ((rows, keys),) = self._rows(query)
        return rows, keys

    def close(self) -> None:
        """Close its connection."""
        self._session.close()

    def _make(self, table: TableRef) -> None:
        self._do(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(table.schema)))
        self._do(sql.SQL("CREATE TABLE {} ({})").format(_name(table), sql.SQL(POSTGRES_COLUMNS)))

    def _finish(self, table: TableRef) -> None:
        self._do(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (id)").format(_name(table)))
        self._do(sql.SQL("VACUUM (ANALYZE) {}").format(_name(table)))

    def _do(self, statement: sql.Composed) -> None:
        with translated():
            self._session.connection.execute(statement)

    def _rows(self, query: LiteralString | sql.Composed, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with translated():
            return self._session.connection.execute(query, values).fetchall()


class PostgresSource(_Ground):
    """Where the rows come from.

    Args:
        ref: The connection's name.
        url: Its URL.
    """

    def __init__(self, ref: str, url: str) -> None:
        super().__init__(ref, url, [SOURCE.schema])

    def make(self, batches: Sequence[Batch]) -> None:
        """Make schema and table, and fill it over two connections.

        Args:
            batches: Its rows.
        """
        self._make(SOURCE)
        with ThreadPoolExecutor(_FILLERS) as pool:
            list(pool.map(lambda batch: _insert(self._url, SOURCE, batch), batches))
        self._finish(SOURCE)


class PostgresTarget(_Ground):
    """Where the rows go.

    Args:
        ref: The connection's name.
        url: Its URL.
    """

    def __init__(self, ref: str, url: str) -> None:
        super().__init__(ref, url, [LIVE.schema, STATE_SCHEMA])

    def make(self) -> None:
        """Make schema and live table, with an older generation in it."""
        self._make(LIVE)
        _insert(self._url, LIVE, OLD)
        self._finish(LIVE)

    def look(self) -> _Look:
        """Counts both generations."""
        return _Look(self._url)


class _Look:
    """Looks over one connection, and over a new one after an error."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: Session | None = None

    def __call__(self) -> State:
        session = self._session or Session(self._url, f"{_PURPOSE} reader")
        self._session = None
        row = session.connection.execute(sql.SQL(_LOOK).format(_name(LIVE)), {"since": NEW_SINCE}).fetchone()
        assert row is not None
        self._session = session
        return State(*row)


def _insert(url: str, table: TableRef, batch: Batch) -> None:
    statement = sql.SQL("INSERT INTO {} {}").format(_name(table), sql.SQL(POSTGRES_ROWS))
    with closing(Session(url, _PURPOSE)) as session, translated():
        session.connection.execute(statement, batch.values())


def _name(table: TableRef) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)
