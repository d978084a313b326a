"""The demo's orders: a source with a million of them, an older and smaller generation, and changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg

NEW_ROWS = 1_000_000
OLD_ROWS = 200_000
# Orders of the older generation were placed before this day, those of the source on it or later.
OLD_SINCE, NEW_SINCE = "2023-01-01", "2024-01-01"

COLUMNS = """
    id uuid NOT NULL,
    amount numeric(18,2),
    placed_at timestamptz NOT NULL,
    note text,
    paid boolean NOT NULL,
    detail jsonb NOT NULL
"""
_ROWS = """
    SELECT md5(%(salt)s || n)::uuid,
           CASE WHEN n %% 11 > 0 THEN (n::bigint * 7919 %% 100000000)::numeric / 100 END,
           %(since)s::timestamptz + n * interval '31 seconds',
           CASE n %% 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'parcel 📦 ' || n ELSE 'order ' || n END,
           n %% 2 = 0,
           jsonb_build_object('n', n, 'tags', jsonb_build_array('retail', n %% 7))
    FROM generate_series(%(first)s::int, %(last)s::int) n
"""
_HALVES = ((1, NEW_ROWS // 2), (NEW_ROWS // 2 + 1, NEW_ROWS))
_SALT = "order "


def insert_orders(url: str, table: str, salt: str, since: str, span: tuple[int, int]) -> None:
    """Insert numbered orders into a table of a PostgreSQL.

    Args:
        url: Of its database.
        table: Its name, as SQL.
        salt: Makes the keys; two salts have no key in common.
        since: Day of the first order.
        span: First and last number.
    """
    values = {"salt": salt, "since": since, "first": span[0], "last": span[1]}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"INSERT INTO {table} {_ROWS}", values)


def fill_source(url: str) -> None:
    """Create and fill `public.orders`, a half a connection."""
    with psycopg.connect(url, autocommit=True) as source:
        source.execute(f"CREATE TABLE public.orders ({COLUMNS})")
        with ThreadPoolExecutor(len(_HALVES)) as pool:
            list(pool.map(lambda span: insert_orders(url, "public.orders", _SALT, NEW_SINCE, span), _HALVES))
        source.execute("ALTER TABLE public.orders ADD PRIMARY KEY (id)")
        source.execute("VACUUM (ANALYZE) public.orders")


@dataclass(frozen=True)
class Changes:
    """How many source rows were changed, as the increment should find them."""

    updated: int
    inserted: int
    deleted: int


def change_source(url: str) -> Changes:
    """Update, insert and delete some source rows, in three transactions."""
    ids = "SELECT md5(%(salt)s || n)::uuid FROM generate_series(%(first)s::int, %(last)s::int) n"
    inserted = (NEW_ROWS + 1, NEW_ROWS + 2_000)
    with psycopg.connect(url, autocommit=True) as source:
        updated = source.execute(
            f"UPDATE public.orders SET paid = NOT paid, note = 'changed ✏️' WHERE id IN ({ids})",
            {"salt": _SALT, "first": 10_001, "last": 15_000},
        ).rowcount
        insert_orders(url, "public.orders", _SALT, NEW_SINCE, inserted)
        deleted = source.execute(
            f"DELETE FROM public.orders WHERE id IN ({ids})", {"salt": _SALT, "first": 500_001, "last": 501_000}
        ).rowcount
    return Changes(updated, inserted[1] - inserted[0] + 1, deleted)
