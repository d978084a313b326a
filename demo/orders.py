"""The demo's tables: a source of a million orders, a live target with an older and smaller generation, and changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg

NEW_ROWS = 1_000_000
OLD_ROWS = 200_000
# Orders of the older generation were placed before this day, those of the source on it or later.
NEW_SINCE = "2024-01-01"

_COLUMNS = """
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


def _insert(url: str, table: str, salt: str, since: str, span: tuple[int, int]) -> None:
    values = {"salt": salt, "since": since, "first": span[0], "last": span[1]}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"INSERT INTO {table} {_ROWS}", values)


def fill_source(url: str) -> None:
    """Create and fill `public.orders`, a half a connection."""
    with psycopg.connect(url, autocommit=True) as source:
        source.execute(f"CREATE TABLE public.orders ({_COLUMNS})")
        with ThreadPoolExecutor(len(_HALVES)) as pool:
            list(pool.map(lambda span: _insert(url, "public.orders", _SALT, NEW_SINCE, span), _HALVES))
        source.execute("ALTER TABLE public.orders ADD PRIMARY KEY (id)")
        source.execute("VACUUM (ANALYZE) public.orders")


def provision_target(url: str) -> None:
    """Create the reviewed `landing.orders` with its key and index, and an older generation in it."""
    with psycopg.connect(url, autocommit=True) as target:
        target.execute("CREATE SCHEMA landing")
        target.execute(f"CREATE TABLE landing.orders ({_COLUMNS}, PRIMARY KEY (id))")
        target.execute("CREATE INDEX orders_placed_at ON landing.orders (placed_at)")
    _insert(url, "landing.orders", "old order ", "2023-01-01", (1, OLD_ROWS))
    with psycopg.connect(url, autocommit=True) as target:
        target.execute("VACUUM (ANALYZE) landing.orders")


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
        _insert(url, "public.orders", _SALT, NEW_SINCE, inserted)
        deleted = source.execute(
            f"DELETE FROM public.orders WHERE id IN ({ids})", {"salt": _SALT, "first": 500_001, "last": 501_000}
        ).rowcount
    return Changes(updated, inserted[1] - inserted[0] + 1, deleted)
