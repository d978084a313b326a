"""One increment's snapshot of the source: changed rows by xmin, keys and their digests, all of one moment."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from psycopg import sql

from dpone_dagster.campaign.watermark import LOW32, Anchor
from dpone_dagster.ports.source import ChangeRead, KeyBucket, RowStream
from dpone_dagster.postgres import digests
from dpone_dagster.postgres.arrowstream import ArrowReader, ArrowStream
from dpone_dagster.postgres.copystream import PgCopyStream, source_errors
from dpone_dagster.postgres.rowreader import RowReader
from dpone_dagster.postgres.session import Session
from dpone_dagster.postgres.sourceproof import ServerState


class PgChangeSnapshot:
    """The reads of one increment, inside the caller's REPEATABLE READ transaction; one is read at a time.

    Args:
        session: The source session, in its transaction.
        read: What is read.
        state: The snapshot's own state.
        arrow: The second connection, if rows are to come as Arrow batches.
    """

    def __init__(
        self, session: Session, read: ChangeRead, state: ServerState, arrow: ArrowReader | None = None
    ) -> None:
        self._session = session
        self._since = read.since
        self._state = state
        self._reader = RowReader(session, read, arrow)
        self._streams = contextlib.ExitStack()

    def __enter__(self) -> PgChangeSnapshot:
        return self

    def __exit__(self, *_error: object) -> None:
        self._streams.close()

    @property
    def anchor(self) -> Anchor:
        """Where the next increment starts: this snapshot's xmin."""
        return self._state.anchor

    def changed_rows(self) -> RowStream:
        """Rows whose xmin lies in [since, snapshot xmax), by modular comparison."""
        # A row's raw xmin stays what it was when the row is frozen; without the upper bound old ones would match.
        window = sql.SQL("((xmin::text::bigint - {low}) & {mask}) < {width}").format(
            low=sql.Literal(self._since.low32),
            mask=sql.Literal(LOW32),
            width=sql.Literal(self._state.xmax - self._since.xid),
        )
        return self._opened(self._reader.rows_if_any("read_changes", window))

    def key_buckets(self, buckets: int) -> list[KeyBucket]:
        """Digest of all keys, a bucket each; empty buckets are left out."""
        return self._buckets(digests.key_buckets_query(self._reader.relation, self._reader.keys, buckets))

    def row_buckets(self, buckets: int) -> list[KeyBucket]:
        """Digest of all rows as the target would hold them, in the buckets of their keys; empty ones are left out."""
        reader = self._reader
        return self._buckets(digests.row_buckets_query(reader.relation, reader.keys, reader.portable_values, buckets))

    def _buckets(self, query: sql.Composed) -> list[KeyBucket]:
        with source_errors():
            rows = self._session.connection.execute(query).fetchall()
        return [KeyBucket(bucket, keys, total) for bucket, keys, total in rows]

    def keys(self, buckets: int, wanted: Sequence[int]) -> RowStream:
        """The key columns of all rows of the wanted buckets, cast as in the contract."""
        return self._opened(self._reader.key_rows("read_keys", self._in(buckets, wanted)))

    def rows_by_key(self, buckets: int, wanted: Sequence[int]) -> RowStream:
        """All contract columns of all rows of the wanted buckets."""
        return self._opened(self._reader.rows("read_rows_by_key", self._in(buckets, wanted)))

    def _in(self, buckets: int, wanted: Sequence[int]) -> sql.Composed:
        return digests.in_buckets(self._reader.keys, buckets, wanted)

    def _opened(self, stream: PgCopyStream | ArrowStream) -> RowStream:
        self._streams.enter_context(stream)
        return stream
