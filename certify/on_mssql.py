"""The target on SQL Server."""

from __future__ import annotations

from certify.measurements import Server
from certify.orders import LIVE, MSSQL_COLUMNS, NEW_SINCE, OLD_ROWS, OLD_SINCE, STATE_SCHEMA
from demo.mssql_server import version_of
from demo.reader import State
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.quoting import literal, quoted, quoted_table
from dpone_dagster.mssql.session import UNBOUNDED, Session

_PURPOSE = "certify"
_SCHEMAS = (LIVE.schema, STATE_SCHEMA)
_TAKEN = "SELECT name FROM sys.schemas WHERE name IN (?, ?) ORDER BY name"
_TABLES = """
    SELECT s.name, t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id
    WHERE s.name IN (?, ?) ORDER BY s.name, t.name
"""
_OLD_ORDERS = f"""
    WITH digit AS (SELECT d FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS v (d)),
         number AS (SELECT a.d + 10 * b.d + 100 * c.d AS n FROM digit AS a CROSS JOIN digit AS b CROSS JOIN digit AS c)
    INSERT INTO {quoted_table(LIVE)} (id, amount, placed_at, note, paid)
    SELECT NEWID(), n / 100.0, DATEADD(second, n, CAST({literal(f"{OLD_SINCE} 00:00:00 +00:00")} AS datetimeoffset(6))),
           CONCAT(N'old order ', n), n % 2
    FROM number WHERE n < {OLD_ROWS}
"""
_SINCE = f"CAST({literal(f'{NEW_SINCE} 00:00:00 +00:00')} AS datetimeoffset(6))"
# One statement over whole generations only, or it would show here.
_LOOK = f"""
    SELECT COALESCE(SUM(CASE WHEN placed_at < {_SINCE} THEN 1 ELSE 0 END), 0),
           COALESCE(SUM(CASE WHEN placed_at >= {_SINCE} THEN 1 ELSE 0 END), 0)
    FROM {quoted_table(LIVE)}
"""


class MssqlTarget:
    """A database of a SQL Server.

    Args:
        ref: The connection's name.
        url: Its URL.
    """

    def __init__(self, ref: str, url: str) -> None:
        self._url = url
        self._session = Session(url, _PURPOSE)
        version = version_of(self._session)
        self.server = Server(connection_ref=ref, kind="mssql", version=version.text, genuine=not version.stand_in)

    def taken(self) -> list[str]:
        """Schemas of the names that it needs which are there already."""
        return [name for (name,) in self._session.rows(_TAKEN, *_SCHEMAS)]

    def make(self) -> None:
        """Make schema, live table and its older generation."""
        live = quoted_table(LIVE)
        # CREATE SCHEMA has to be alone in its batch.
        self._session.execute(f"EXEC ({literal(f'CREATE SCHEMA {quoted(LIVE.schema)}')})")
        self._session.execute(f"CREATE TABLE {live} ({MSSQL_COLUMNS})", seconds=UNBOUNDED)
        self._session.execute(_OLD_ORDERS, seconds=UNBOUNDED)
        self._session.execute(f"CREATE UNIQUE INDEX orders_id ON {live} (id)", seconds=UNBOUNDED)

    def drop(self) -> None:
        """Drop the schemas, with every table in them."""
        for schema, name in self._session.rows(_TABLES, *_SCHEMAS):
            self._session.execute(f"DROP TABLE {quoted_table(TableRef(schema, name))}", seconds=UNBOUNDED)
        for schema in self.taken():
            self._session.execute(f"DROP SCHEMA {quoted(schema)}", seconds=UNBOUNDED)

    def rows_and_keys(self, table: TableRef) -> tuple[int, int]:
        """Exact number of rows, and of different keys."""
        query = f"SELECT COUNT_BIG(*), COUNT_BIG(DISTINCT id) FROM {quoted_table(table)}"
        ((rows, keys),) = self._session.rows(query, seconds=UNBOUNDED)
        return int(rows), int(keys)

    def look(self) -> _Look:
        """Counts both generations."""
        return _Look(self._url)

    def close(self) -> None:
        """Close its connection."""
        self._session.close()


class _Look:
    """Looks over one connection, and over a new one after an error."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: Session | None = None

    def __call__(self) -> State:
        session = self._session or Session(self._url, f"{_PURPOSE} reader")
        self._session = None
        ((old, new),) = session.rows(_LOOK, seconds=UNBOUNDED)
        self._session = session
        return State(int(old), int(new))
