"""The port `Changes` on PostgreSQL: an increment is staged in temporary tables and applied, all in one transaction.

No statement here has parameters: a column may be called `%s`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, LiteralString

from psycopg import Cursor, pq, sql

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import CountMismatch, DponeError, ValidationBlocked
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports import ChangeCounts, KeyBucket, RowStream, StagedKeys
from dpone_dagster.postgres import digests
from dpone_dagster.postgres.queries import statement
from dpone_dagster.postgres.session import Session, translated

# Dropped with the transaction, so that nothing of an increment that failed is ever found by the next one.
_ROWS: LiteralString = "dpone_staged_rows"
_MORE: LiteralString = "dpone_staged_more"
_KEYS: LiteralString = "dpone_staged_keys"
_EXTRA: LiteralString = "dpone_extra_keys"


class PostgresChanges:
    """Stages and applies increments in the caller's transaction.

    Args:
        session: The target's session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def stage_rows(self, target: TableRef, contract: ColumnContract, stream: RowStream) -> int:
        """Load changed rows into a stage of this transaction; returns how many were new to it.

        A row whose key is staged already is the same row: all of an increment is read in one snapshot.

        Raises:
            ValidationBlocked: Duplicate keys in the stream.
            CountMismatch: The stream and the stage have different numbers of rows.
        """
        columns = [column.target for column in contract.columns]
        with self._applying():
            if not self._is_staged(_ROWS):
                return self._stage(_ROWS, target, columns, contract.key, stream)
            self._stage(_MORE, target, columns, contract.key, stream)
            added = self._execute(
                "stage_more",
                rows=_temporary(_ROWS),
                more=_temporary(_MORE),
                match=_equal("r", "m", contract.key),
            )
            self._execute("drop", name=_temporary(_MORE))
            self._execute("analyze", name=_temporary(_ROWS))
            return added.rowcount

    def key_buckets(self, target: TableRef, contract: ColumnContract, buckets: int) -> list[KeyBucket]:
        """Digest of all target keys, a bucket each; empty buckets are left out."""
        query = digests.key_buckets_query(_table(target), _columns(contract.key), buckets)
        with translated():
            rows = self._session.connection.execute(query).fetchall()
        return [KeyBucket(bucket, keys, total) for bucket, keys, total in rows]

    def stage_keys(
        self, target: TableRef, contract: ColumnContract, stream: RowStream, buckets: int, wanted: Sequence[int]
    ) -> StagedKeys:
        """Load the source's keys of the wanted buckets and compare them with the target's.

        Raises:
            ValidationBlocked: Duplicate keys in the stream.
            CountMismatch: The stream and the stage have different numbers of rows.
        """
        key = contract.key
        with self._applying():
            self._stage(_KEYS, target, key, key, stream)
            extra = self._execute(
                "extra_keys",
                name=sql.Identifier(_EXTRA),
                key=_list(key),
                target=_table(target),
                in_buckets=digests.in_buckets(_columns(key), buckets, wanted),
                keys=_temporary(_KEYS),
                match=_equal("t", "k", key),
            )
            missing = self._execute(
                "missing_keys",
                keys=_temporary(_KEYS),
                target=_table(target),
                in_target=_equal("t", "k", key),
                not_staged=self._not_staged(key),
            )
            return StagedKeys(extra.rowcount, _number(missing))

    def _not_staged(self, key: Sequence[str]) -> sql.Composable:
        if not self._is_staged(_ROWS):
            return sql.SQL("")
        return statement("changes.sql", "not_staged", rows=_temporary(_ROWS), match=_equal("r", "k", key))

    def delete_unmatched(self, target: TableRef, contract: ColumnContract) -> int:
        """Delete target rows of the staged buckets whose key is not among the staged keys."""
        with self._applying():
            deleted = self._execute(
                "delete_unmatched",
                target=_table(target),
                extra=_temporary(_EXTRA),
                match=_equal("t", "e", contract.key),
            )
            return deleted.rowcount

    def upsert(self, target: TableRef, contract: ColumnContract) -> ChangeCounts:
        """UPDATE … FROM the stage, then INSERT … WHERE NOT EXISTS; rows that are equal already are left alone."""
        columns = [column.target for column in contract.columns]
        with self._applying():
            updated = self._update(target, contract)
            inserted = self._execute(
                "insert_new",
                target=_table(target),
                columns=_list(columns),
                rows=_temporary(_ROWS),
                match=_equal("t", "s", contract.key),
            )
            return ChangeCounts(inserted=inserted.rowcount, updated=updated)

    def _update(self, target: TableRef, contract: ColumnContract) -> int:
        # Key columns too: a key that is equal by its collation or scale may still be written differently.
        columns = [column.target for column in contract.columns]
        assignments = sql.SQL(", ").join(sql.SQL("{0} = s.{0}").format(sql.Identifier(name)) for name in columns)
        return self._execute(
            "update_changed",
            target=_table(target),
            assignments=assignments,
            rows=_temporary(_ROWS),
            match=_equal("t", "s", contract.key),
            old=_list(columns, "t"),
            new=_list(columns, "s"),
        ).rowcount

    # ------------------------------------------------------------ stages

    def _applying(self) -> AbstractContextManager[None]:
        if self._session.connection.info.transaction_status != pq.TransactionStatus.INTRANS:
            raise DponeError("an increment is staged and applied in one transaction, and there is none")
        return translated()

    def _is_staged(self, name: LiteralString) -> bool:
        row = self._execute("is_staged", name=sql.Literal(f"pg_temp.{name}")).fetchone()
        return row is not None and row[0] is True

    def _stage(
        self, name: LiteralString, target: TableRef, columns: Sequence[str], key: Sequence[str], stream: RowStream
    ) -> int:
        self._execute("create_stage", name=sql.Identifier(name), columns=_list(columns), target=_table(target))
        rows = self._copy(name, columns, stream)
        if rows != stream.rows:
            raise CountMismatch(f"increment of {target}: {stream.rows} rows read, {rows} rows staged")
        self._execute("analyze", name=_temporary(name))
        self._refuse_duplicates(name, target, key)
        return rows

    def _copy(self, name: LiteralString, columns: Sequence[str], stream: RowStream) -> int:
        if stream.wire != "pgcopy":
            raise DponeError(f"rows come as {stream.wire}, not as PostgreSQL's binary COPY")
        into = statement("changes.sql", "copy_stage", name=_temporary(name), columns=_list(columns))
        with self._session.connection.cursor() as cursor:
            with cursor.copy(into) as copy:
                for block in stream:
                    copy.write(block)
            return cursor.rowcount

    def _refuse_duplicates(self, name: LiteralString, target: TableRef, key: Sequence[str]) -> None:
        if count := _number(self._execute("duplicates", name=_temporary(name), key=_list(key))):
            raise ValidationBlocked(
                f"{count} keys of {target} came more than once from the source, as the target compares keys",
                next_step="Mend the source's keys, or the collation of the target's; then run the increment again.",
            )

    def _execute(self, query: str, **parts: sql.Composable) -> Cursor[tuple[Any, ...]]:
        return self._session.connection.execute(statement("changes.sql", query, **parts))


def _number(cursor: Cursor[tuple[Any, ...]]) -> int:
    row = cursor.fetchone()
    return int(row[0]) if row else 0


def _table(table: TableRef) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)


def _temporary(name: LiteralString) -> sql.Identifier:
    return sql.Identifier("pg_temp", name)


def _columns(names: Sequence[str]) -> list[sql.Identifier]:
    return [sql.Identifier(name) for name in names]


def _list(names: Sequence[str], alias: LiteralString | None = None) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(alias, name) if alias else sql.Identifier(name) for name in names)


def _equal(left: LiteralString, right: LiteralString, key: Sequence[str]) -> sql.Composed:
    return sql.SQL(" AND ").join(
        sql.SQL("{} = {}").format(sql.Identifier(left, name), sql.Identifier(right, name)) for name in key
    )
