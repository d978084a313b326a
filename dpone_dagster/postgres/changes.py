"""The port `Changes` on PostgreSQL: an increment is staged in temporary tables and applied, all in one transaction.

No statement here has parameters: a column may be called `%s`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, LiteralString

from psycopg import Cursor, pq, sql
from psycopg import errors as pg

from dpone_dagster.campaign.contract import type_word
from dpone_dagster.campaign.errors import CountMismatch, DponeError, UniqueConflict, ValidationBlocked
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports.changes import ChangeCounts, ChangeTarget, StagedKeys
from dpone_dagster.ports.source import KeyBucket, RowStream
from dpone_dagster.postgres import digests
from dpone_dagster.postgres.copyin import Blocks, copy_in
from dpone_dagster.postgres.queries import statement
from dpone_dagster.postgres.session import Session, translated

# Dropped with the transaction, so that nothing of an increment that failed is ever found by the next one.
_ROWS: LiteralString = "dpone_staged_rows"
_MORE: LiteralString = "dpone_staged_more"
_KEYS: LiteralString = "dpone_staged_keys"
STAGED = TableRef("pg_temp", _ROWS)
_EXTRA: LiteralString = "dpone_extra_keys"
_MARKED = {"time": sql.SQL("clock_timestamp()"), "flag": sql.SQL("true")}
# Types whose collation may take two values for equal; for all others equality is the source's own.
_COLLATED = frozenset({"text", "character varying", "varchar", "character", "bpchar"})


class PostgresChanges:
    """Stages and applies increments in the caller's transaction.

    Args:
        session: The target's session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def stage_rows(self, into: ChangeTarget, stream: RowStream) -> int:
        """Load changed rows into a stage of this transaction; returns how many were new to it.

        A row whose key is staged already is the same row: all of an increment is read in one snapshot. Without rows
        nothing is made.

        Raises:
            ValidationBlocked: Duplicate keys in the stream.
            CountMismatch: The stream and the stage have different numbers of rows.
        """
        columns, key = _loaded(into), into.contract.key
        with self._applying():
            blocks = Blocks(stream)
            if blocks.empty:
                return _same_count(into.table, stream, 0)
            if not self._is_staged(_ROWS):
                return self._stage(_ROWS, into, columns, blocks)
            self._stage(_MORE, into, columns, blocks)
            added = self._execute(
                "stage_more", rows=_temporary(_ROWS), more=_temporary(_MORE), match=_equal("r", "m", key)
            )
            self._execute("drop", name=_temporary(_MORE))
            self._execute("analyze", name=_temporary(_ROWS))
            return added.rowcount

    def key_buckets(self, into: ChangeTarget, buckets: int) -> list[KeyBucket]:
        """Digest of all target keys, a bucket each; empty buckets are left out."""
        keys = _columns(into.contract.key)
        return self._buckets(digests.key_buckets_query(_table(into.table), keys, buckets, only=_present(into)))

    def row_buckets(self, into: ChangeTarget, buckets: int) -> list[KeyBucket]:
        """Digest of all target rows, in the buckets of their keys; empty ones are left out."""
        keys = _columns(into.contract.key)
        columns = into.contract.columns
        values = [digests.portable(sql.Identifier(column.target), column.target_type) for column in columns]
        return self._buckets(digests.row_buckets_query(_table(into.table), keys, values, buckets, only=_present(into)))

    def _buckets(self, query: sql.Composed) -> list[KeyBucket]:
        with translated():
            rows = self._session.connection.execute(query).fetchall()
        return [KeyBucket(bucket, keys, total) for bucket, keys, total in rows]

    def stage_keys(self, into: ChangeTarget, stream: RowStream, buckets: int, wanted: Sequence[int]) -> StagedKeys:
        """Load the source's keys of the wanted buckets and compare them with the target's.

        Raises:
            ValidationBlocked: Duplicate keys in the stream.
            CountMismatch: The stream and the stage have different numbers of rows.
        """
        key = into.contract.key
        with self._applying():
            self._stage(_KEYS, into, key, Blocks(stream))
            extra = self._execute(
                "extra_keys",
                name=sql.Identifier(_EXTRA),
                key=_list(key),
                target=_table(into.table),
                in_buckets=digests.in_buckets(_columns(key), buckets, wanted),
                present=_present(into),
                keys=_temporary(_KEYS),
                match=_matches(into, "k"),
            )
            missing = self._execute(
                "missing_keys",
                keys=_temporary(_KEYS),
                target=_table(into.table),
                in_target=_matches(into, "k"),
                present=_present(into),
                not_staged=self._not_staged(key),
            )
            return StagedKeys(extra.rowcount, _number(missing))

    def _not_staged(self, key: Sequence[str]) -> sql.Composable:
        if not self._is_staged(_ROWS):
            return sql.SQL("")
        return statement("changes.sql", "not_staged", rows=_temporary(_ROWS), match=_equal("r", "k", key))

    def delete_unmatched(self, into: ChangeTarget) -> int:
        """Delete, or mark, target rows of the staged buckets whose key is not among the staged keys."""
        extra, match = _temporary(_EXTRA), _equal("t", "e", into.contract.key)
        with self._applying():
            if into.mark is None:
                return self._execute("delete_unmatched", target=_table(into.table), extra=extra, match=match).rowcount
            return self._execute(
                "mark_unmatched",
                target=_table(into.table),
                mark=sql.Identifier(into.mark.column),
                marked=_MARKED[into.mark.kind],
                extra=extra,
                match=match,
            ).rowcount

    def upsert(self, into: ChangeTarget) -> ChangeCounts:
        """UPDATE … FROM the stage, then INSERT … WHERE NOT EXISTS; rows that are equal already are left alone.

        Raises:
            UniqueConflict: Another unique index is in the way.
        """
        with self._applying(), _conflicts(into):
            if not self._is_staged(_ROWS):
                return ChangeCounts()
            updated = self._update(into)
            return ChangeCounts(inserted=self._insert(into), updated=updated)

    def replace(self, into: ChangeTarget) -> ChangeCounts:
        """DELETE what differs from the stage, then INSERT … WHERE NOT EXISTS, so that unique values may change places.

        Raises:
            UniqueConflict: Another unique index is in the way all the same.
        """
        with self._applying(), _conflicts(into):
            if not self._is_staged(_ROWS):
                return ChangeCounts()
            gone = self._execute(
                "delete_changed", target=_table(into.table), rows=_temporary(_ROWS), changed=_changed(into)
            ).rowcount
            return ChangeCounts(inserted=self._insert(into) - gone, updated=gone)

    def _update(self, into: ChangeTarget) -> int:
        # Key columns too: one that is equal by its scale, or a marked row's, may be written differently.
        assignments = [sql.SQL("{0} = s.{0}").format(sql.Identifier(name)) for name in _loaded(into)]
        if into.mark is not None:
            assignments.append(sql.SQL("{} = NULL").format(sql.Identifier(into.mark.column)))
        return self._execute(
            "update_changed",
            target=_table(into.table),
            assignments=sql.SQL(", ").join(assignments),
            rows=_temporary(_ROWS),
            changed=_changed(into),
        ).rowcount

    def _insert(self, into: ChangeTarget) -> int:
        return self._execute(
            "insert_new",
            target=_table(into.table),
            columns=_list(_loaded(into)),
            rows=_temporary(_ROWS),
            match=_matches(into),
        ).rowcount

    def count_arrived(self, into: ChangeTarget) -> int:
        """How many of the staged rows have their key in the target, once they are applied."""
        with self._applying():
            return _number(
                self._execute("count_arrived", rows=_temporary(_ROWS), target=_table(into.table), match=_matches(into))
            )

    # ------------------------------------------------------------ stages

    def _applying(self) -> AbstractContextManager[None]:
        if self._session.connection.info.transaction_status != pq.TransactionStatus.INTRANS:
            raise DponeError("an increment is staged and applied in one transaction, and there is none")
        return translated()

    def _is_staged(self, name: LiteralString) -> bool:
        row = self._execute("is_staged", name=sql.Literal(f"pg_temp.{name}")).fetchone()
        return row is not None and row[0] is True

    def _stage(self, name: LiteralString, into: ChangeTarget, columns: Sequence[str], blocks: Blocks) -> int:
        self._execute("create_stage", name=sql.Identifier(name), columns=_list(columns), target=_table(into.table))
        rows = _same_count(into.table, blocks.stream, self._copy(name, columns, blocks))
        self._execute("analyze", name=_temporary(name))
        self._refuse_duplicates(name, into.table, into.contract.key)
        return rows

    def _copy(self, name: LiteralString, columns: Sequence[str], blocks: Blocks) -> int:
        copy = statement(
            "changes.sql", "copy_stage", name=_temporary(name), columns=_list(columns), format=blocks.format
        )
        return copy_in(self._session, copy, blocks)

    def _refuse_duplicates(self, name: LiteralString, target: TableRef, key: Sequence[str]) -> None:
        if count := _number(self._execute("duplicates", name=_temporary(name), key=_list(key))):
            raise ValidationBlocked.repeated_keys(target, count)

    def _execute(self, query: str, **parts: sql.Composable) -> Cursor[tuple[Any, ...]]:
        return self._session.connection.execute(statement("changes.sql", query, **parts))


@contextlib.contextmanager
def _conflicts(into: ChangeTarget) -> Iterator[None]:
    try:
        yield
    except (pg.UniqueViolation, pg.ExclusionViolation) as error:
        name = error.diag.constraint_name
        raise UniqueConflict(f"a changed row breaks `{name}` of {into.table}") from None  # the detail quotes values


def _same_count(table: TableRef, stream: RowStream, rows: int) -> int:
    if rows != stream.rows:
        raise CountMismatch.staged(table, stream.rows, rows)
    return rows


def _loaded(into: ChangeTarget) -> list[str]:
    return [column.target for column in into.contract.columns]


def _present(into: ChangeTarget) -> sql.Composable:
    """Condition: the target's row `t` is not marked as deleted."""
    if into.mark is None:
        return sql.SQL("true")
    column = sql.Identifier("t", into.mark.column)
    return sql.SQL("{} IS NULL" if into.mark.kind == "time" else "({} IS NOT TRUE)").format(column)


def _changed(into: ChangeTarget) -> sql.Composed:
    return statement(
        "changes.sql",
        "changed",
        match=_matches(into),
        old=_list(_loaded(into), "t"),
        new=_list(_loaded(into), "s"),
        present=_present(into),
    )


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


def _matches(into: ChangeTarget, alias: LiteralString = "s") -> sql.Composed:
    """The target's row `t` and a staged row have one key, as `ChangeTarget` says."""
    match = _equal("t", alias, into.contract.key)
    types = {column.target: type_word(column.target_type) for column in into.contract.columns}
    exact = [
        sql.SQL('{}::pg_catalog.text COLLATE pg_catalog."C" = {}::pg_catalog.text COLLATE pg_catalog."C"').format(
            sql.Identifier("t", name), sql.Identifier(alias, name)
        )
        for name in into.contract.key
        if types[name] in _COLLATED
    ]
    if not exact:
        return match
    alike = sql.SQL(" AND ").join(exact)
    if into.mark is None:
        return sql.SQL("{} AND {}").format(match, alike)
    return sql.SQL("{} AND ({} OR NOT {})").format(match, alike, _present(into))


def _equal(left: LiteralString, right: LiteralString, key: Sequence[str]) -> sql.Composed:
    return sql.SQL(" AND ").join(
        sql.SQL("{} = {}").format(sql.Identifier(left, name), sql.Identifier(right, name)) for name in key
    )
