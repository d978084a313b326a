"""One increment's snapshot of the source: changed rows by xmin, keys and their digests, all of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import sql

from dpone_dagster.campaign.errors import IncrementRefused
from dpone_dagster.campaign.watermark import LOW32, MAX_DISTANCE, Anchor, SourceIdentity
from dpone_dagster.ports import ChangeRead, KeyBucket, RowStream
from dpone_dagster.postgres import digests
from dpone_dagster.postgres.copystream import PgCopyStream, comment
from dpone_dagster.postgres.projection import plain, projection
from dpone_dagster.postgres.session import Session, translated


@dataclass(frozen=True)
class Snapshot:
    """A source snapshot: `pg_snapshot_xmin` and `pg_snapshot_xmax` as 64-bit ids, and the server's clock."""

    xmin: int
    xmax: int
    taken_at: datetime


def prove_window(since: Anchor, snapshot: Snapshot) -> None:
    """Refuse a window that 32-bit xmins cannot tell.

    Raises:
        IncrementRefused: Too wide, or the server's counter is behind the watermark.
    """
    if snapshot.xmin < since.xid:
        raise IncrementRefused(f"the source is at transaction {snapshot.xmin}, behind the watermark {since.xid}")
    distance = snapshot.xmax - since.xid
    if distance >= MAX_DISTANCE:
        raise IncrementRefused(f"{distance} transactions since the watermark; xmin tells at most {MAX_DISTANCE} apart")


class PgChangeSnapshot:
    """The reads of one increment, inside the caller's REPEATABLE READ transaction."""

    def __init__(self, session: Session, read: ChangeRead, snapshot: Snapshot, identity: SourceIdentity) -> None:
        self._session = session
        self._read = read
        self._snapshot = snapshot
        self.anchor = Anchor(snapshot.xmin, identity, snapshot.taken_at)

    def changed_rows(self) -> RowStream:
        """Rows whose xmin lies in [since, snapshot xmax), by modular comparison."""
        since = self._read.since
        window = sql.SQL("((t.xmin::text::bigint - {low}) & {mask}) < {width}").format(
            low=sql.Literal(since.low32), mask=sql.Literal(LOW32), width=sql.Literal(self._snapshot.xmax - since.xid)
        )
        return self._rows("read_changes", projection(self._read.contract, self._read.digest_key), window)

    def key_buckets(self, buckets: int) -> list[KeyBucket]:
        """Digest of all keys, a bucket each."""
        with translated():
            rows = self._session.connection.execute(
                digests.key_buckets_query(self._relation(), self._keys(), buckets)
            ).fetchall()
        return [KeyBucket(int(row[0]), int(row[1]), str(row[2])) for row in rows]

    def keys(self, buckets: int, wanted: Sequence[int]) -> RowStream:
        """The key columns of all rows of the wanted buckets."""
        return self._rows("read_keys", self._keys(), digests.in_buckets(self._keys(), buckets, wanted))

    def rows_by_key(self, buckets: int, wanted: Sequence[int]) -> RowStream:
        """All contract columns of all rows of the wanted buckets."""
        columns = projection(self._read.contract, self._read.digest_key)
        return self._rows("read_rows", columns, digests.in_buckets(self._keys(), buckets, wanted))

    def _keys(self) -> list[sql.Composable]:
        return plain(self._read.contract, self._read.contract.key)

    def _relation(self) -> sql.Composed:
        return sql.SQL("{} AS t").format(sql.Identifier(self._read.table.schema, self._read.table.name))

    def _rows(self, query: str, columns: Sequence[sql.Composable], condition: sql.Composable) -> RowStream:
        statement = sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT (FORMAT binary) {}").format(
            sql.SQL(", ").join(columns), self._relation(), condition, comment(query, self._read.label)
        )
        return PgCopyStream(self._session, statement)
