"""The tables of a campaign, and a writer who goes on working on the source."""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from dpone_dagster.mssql.session import Session
from tests.chaos.shape import COLUMN, DAYS, FIRST_DAY, NUMBERS, Shape
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders, make_manifest

Row = tuple[uuid.UUID, int, object, datetime, str | None, str | None]
_COLUMNS = (
    "id uuid NOT NULL, n bigint NOT NULL, day date NOT NULL, placed_at timestamptz NOT NULL, amount numeric(18,2), "
    "note text"
)
_MSSQL_COLUMNS = (
    "id uniqueidentifier NOT NULL, n bigint NOT NULL, day date NOT NULL, placed_at datetimeoffset(6) NOT NULL, "
    "amount decimal(18,2) NULL, note nvarchar(max) NULL"
)
_INSERT = "INSERT INTO public.orders VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
_NOTES = (None, "", "paid", "naïve 😀")
OLD = tuple(uuid.UUID(int=number) for number in (1, 2, 3))


def make_ground(shape: Shape, source_url: str, target_url: str) -> Orders:
    """Create the source with its rows and a live target that holds an older generation of three rows.

    Args:
        shape: The campaign.
        source_url: An empty PostgreSQL database.
        target_url: An empty database of either kind.
    """
    manifest = make_manifest(shape.chunks, shape.lanes)
    manifest["sink"]["strategy"]["unique_key"] = list(shape.key)
    backfill = manifest["sink"]["strategy"]["backfill"]
    backfill["chunk"] = shape.chunk
    backfill["allow_empty"] = True
    backfill["drain_timeout_seconds"] = 5
    # The writer may delete as much as the dice want.
    manifest["dagster"] = {"incremental": {"max_delete_fraction": 1.0}}
    key = ", ".join(shape.key)
    dice = random.Random(f"{shape.seed} rows")
    with psycopg.connect(source_url, autocommit=True) as source:
        source.execute(f"CREATE TABLE public.orders ({_COLUMNS}, PRIMARY KEY ({key}))".encode())
        with source.cursor() as cursor:
            cursor.executemany(_INSERT, [new_row(dice, shape.skew) for _ in range(shape.rows)])
    if target_url.startswith("mssql:"):
        for part in ("sink", "state"):
            manifest[part] |= {"type": "mssql", "connection_ref": "mssql_dwh"}
        _make_mssql_target(target_url, key)
        return _MssqlGround(source_url, target_url, manifest)
    with psycopg.connect(target_url, autocommit=True) as target:
        target.execute("CREATE SCHEMA landing")
        target.execute(f"CREATE TABLE landing.orders ({_COLUMNS}, CONSTRAINT orders_key PRIMARY KEY ({key}))".encode())
        for old in OLD:
            target.execute("INSERT INTO landing.orders VALUES (%s, 1, '2020-01-01', '2020-01-01', 1, 'old')", (old,))
    return _Ground(source_url, target_url, manifest)


def _make_mssql_target(url: str, key: str) -> None:
    with closing(Session(url, "test harness")) as session:
        session.execute("EXEC (N'CREATE SCHEMA landing')")
        session.execute(f"CREATE TABLE landing.orders ({_MSSQL_COLUMNS})", seconds=30)
        session.execute(f"CREATE UNIQUE INDEX orders_key ON landing.orders ({key})", seconds=30)
        for old in OLD:
            session.execute(
                "INSERT INTO landing.orders VALUES (?, 1, '2020-01-01', '2020-01-01 00:00:00 +00:00', 1, N'old')",
                str(old),
            )


class _Ground(Orders):
    _ROWS = "SELECT id::text, n, day, placed_at, amount, note FROM {} ORDER BY id, n, day, placed_at"

    def source_rows(self) -> list[tuple[Any, ...]]:
        return self.on_source(self._ROWS.format("public.orders"))

    def target_rows(self, table: str = "landing.orders") -> list[tuple[Any, ...]]:
        return self.on_target(self._ROWS.format(table))


class _MssqlGround(MssqlOrders):
    def source_rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.on_source("SELECT id::text, n, day, placed_at, amount, note FROM public.orders"), key=_key)

    def target_rows(self, table: str = "landing.orders") -> list[tuple[Any, ...]]:
        rows = self.on_target(
            "SELECT LOWER(CONVERT(nvarchar(36), id)), n, day, CAST(SWITCHOFFSET(placed_at, '+00:00') AS datetime2(6)), "
            f"amount, note FROM {table}"
        )
        return sorted(((i, n, d, p.replace(tzinfo=UTC), a, t) for i, n, d, p, a, t in rows), key=_key)


def _key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[:4]


def new_row(dice: random.Random, skew: float) -> Row:
    """A row somewhere in the window; with skew most are near its beginning."""
    place = dice.random() ** (1 + skew)
    at = FIRST_DAY + timedelta(days=place * DAYS)
    identity = uuid.UUID(int=(int(place * 65_536) << 112) | dice.getrandbits(112))
    return (
        identity,
        int(place * NUMBERS),
        at.date(),
        at,
        dice.choice((None, f"{dice.randrange(10**6)}.25")),
        dice.choice(_NOTES),
    )


class Writer:
    """Somebody who inserts, updates, deletes and moves rows of the source, one short transaction after the other."""

    def __init__(self, shape: Shape, source_url: str) -> None:
        self._shape = shape
        self._url = source_url
        self._dice = random.Random(f"{shape.seed} writes")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-writer", daemon=True)
        self.writes = 0

    @contextlib.contextmanager
    def at_work(self) -> Iterator[Writer]:
        """While it lasts it writes, if the campaign is one that is written to."""
        if self._shape.writes:
            self._thread.start()
        try:
            yield self
        finally:
            self.end()

    def end(self) -> None:
        """Return when its last transaction is over."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            # A server that restarts ends its sessions; whether the last write is there does not matter.
            with contextlib.suppress(psycopg.Error), psycopg.connect(self._url, autocommit=True) as connection:
                while not self._stop.is_set():
                    self._write(connection)
                    self.writes += 1
                    time.sleep(0.01)  # the rest of the machine is the campaign's
            time.sleep(0.05)

    def _write(self, connection: psycopg.Connection[Any]) -> None:
        column = COLUMN[self._shape.kind]
        row = new_row(self._dice, self._shape.skew)
        some = f"(SELECT id FROM public.orders WHERE id >= '{row[0]}' ORDER BY id LIMIT 1)"
        what = self._dice.random()
        if what < 0.3:
            connection.execute(_INSERT, row)
        elif what < 0.4:
            connection.execute(f"DELETE FROM public.orders WHERE id = {some}".encode())
        elif what < 0.5 and column != "id" and column in self._shape.key:
            value = dict(zip(("id", "n", "day", "placed_at"), row, strict=False))[column]
            one = f"(SELECT min(ctid) FROM public.orders WHERE id = {some})"
            moved = f"UPDATE public.orders SET {column} = %s WHERE ctid = {one}"
            with contextlib.suppress(psycopg.errors.UniqueViolation):
                connection.execute(moved.encode(), (value,))
        else:
            changed = f"UPDATE public.orders SET amount = %s, note = %s WHERE id = {some}"
            connection.execute(changed.encode(), row[4:])
