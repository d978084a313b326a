"""The demo's target on the embedded PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import psycopg

from demo.embedded import Embedded
from demo.orders import COLUMNS, NEW_SINCE, OLD_ROWS, OLD_SINCE, insert_orders
from demo.place import Place
from demo.reader import State
from demo.target import Look

PLACE = Place("demo", Path("examples/orders.yaml"), "oltp")
_DATABASE = "dwh"
# One statement, so one snapshot: whole generations only, or it would show here.
_LOOK = """
    SELECT count(*) FILTER (WHERE placed_at < %(since)s), count(*) FILTER (WHERE placed_at >= %(since)s)
    FROM landing.orders
"""


class OnPostgres:
    """A database of the server that holds the source too."""

    place = PLACE
    title = f"{_DATABASE}.landing.orders"

    def __init__(self) -> None:
        self._url = ""

    def reach(self) -> None:
        """Nothing to do: the server is the demo's own."""

    def urls(self, server: Embedded) -> Mapping[str, str]:
        """The URL of its database."""
        return {"postgres_dwh": server.url(_DATABASE)}

    def provision(self, server: Embedded) -> None:
        """Make the database anew, and the live table with an older generation in it."""
        self._url = server.recreate(_DATABASE)
        with psycopg.connect(self._url, autocommit=True) as target:
            target.execute("CREATE SCHEMA landing")
            target.execute(f"CREATE TABLE landing.orders ({COLUMNS}, PRIMARY KEY (id))")
            target.execute("CREATE INDEX orders_placed_at ON landing.orders (placed_at)")
        insert_orders(self._url, "landing.orders", "old order ", OLD_SINCE, (1, OLD_ROWS))
        with psycopg.connect(self._url, autocommit=True) as target:
            target.execute("VACUUM (ANALYZE) landing.orders")

    def facts(self) -> Mapping[str, str | None]:
        """What it ran against."""
        with psycopg.connect(self._url) as target:
            version = target.info.parameter_status("server_version")
        return {"server": f"embedded, database {_DATABASE}", "version": f"PostgreSQL {version}", "note": None}

    def look(self) -> Look:
        """Counts both generations."""
        return partial(_look, self._url)


def _look(url: str) -> State:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_LOOK, {"since": NEW_SINCE}).fetchone()
    assert row is not None
    return State(*row)
