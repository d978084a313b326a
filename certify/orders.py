"""The table that is loaded: a uuid key, five columns, rows spread over all chunks and some chunks with many more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from dpone_dagster.campaign.names import TableRef

SOURCE = TableRef("dpone_certify_source", "orders")
LIVE = TableRef("dpone_certify", "orders")
STATE_SCHEMA = "dpone_certify_state"
LARGE_CHUNK_ROWS = 1_000_000
# Orders of the older generation were placed before this day, those of the source on it or later.
OLD_ROWS, OLD_SINCE, NEW_SINCE = 1_000, "2023-01-01", "2024-01-01"

POSTGRES_COLUMNS: LiteralString = """
    id uuid NOT NULL,
    amount numeric(18,2),
    placed_at timestamptz NOT NULL,
    note text,
    paid boolean NOT NULL
"""
MSSQL_COLUMNS = """
    id uniqueidentifier NOT NULL,
    amount decimal(18,2) NULL,
    placed_at datetimeoffset(6) NOT NULL,
    note nvarchar(100) NULL,
    paid bit NOT NULL
"""
# The first 32 bits of a key lie in [low, low + width), the others are the digest's.
POSTGRES_ROWS: LiteralString = """
    SELECT (lpad(to_hex(%(low)s + mod(('x' || left(h.hash, 8))::bit(32)::bigint, %(width)s)), 8, '0')
            || substr(h.hash, 9))::uuid,
           CASE WHEN n %% 11 > 0 THEN (n::bigint * 7919 %% 100000000)::numeric / 100 END,
           %(since)s::timestamptz + n * interval '1 second',
           CASE n %% 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'parcel 📦 ' || n ELSE 'order ' || n END,
           n %% 2 = 0
    FROM generate_series(1, %(rows)s) AS n, LATERAL (SELECT md5(%(salt)s || n) AS hash) AS h
"""
_PREFIXES = 2**32


@dataclass(frozen=True)
class Batch:
    """Rows whose keys lie in one part of the key's space.

    Attributes:
        salt: Makes the keys; two salts have no key in common.
        rows: How many.
        low: Lowest first 32 bits of a key.
        width: Number of different first 32 bits.
        since: Day of the first order.
    """

    salt: str
    rows: int
    low: int = 0
    width: int = _PREFIXES
    since: str = NEW_SINCE

    def values(self) -> dict[str, object]:
        """What `POSTGRES_ROWS` binds."""
        return {"salt": self.salt, "rows": self.rows, "low": self.low, "width": self.width, "since": self.since}


OLD = Batch("old", OLD_ROWS, since=OLD_SINCE)


def batches(rows: int, chunks: int, large_chunks: int) -> Sequence[Batch]:
    """The source's rows: some everywhere, and many in chunks that lie as far apart as lanes start.

    Args:
        rows: Spread over all chunks.
        chunks: Equal parts of the key's space.
        large_chunks: Chunks that get a million rows more.
    """
    size = _PREFIXES // chunks
    large = (number * chunks // large_chunks for number in range(large_chunks))
    # A chunk's edges may lie between two prefixes, so its first and its last one are left out.
    inside = ((chunk, chunk * _PREFIXES // chunks + 1) for chunk in large)
    return [
        Batch("new", rows),
        *(Batch(f"large {chunk} ", LARGE_CHUNK_ROWS, low, size - 2) for chunk, low in inside),
    ]
