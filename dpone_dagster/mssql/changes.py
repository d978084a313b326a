"""The port `Changes` on SQL Server: an increment is staged in tables of its own and applied in one transaction."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence

from dpone_dagster.campaign.errors import CountMismatch, DponeError, UniqueConflict, ValidationBlocked
from dpone_dagster.campaign.names import TableRef, derived_name
from dpone_dagster.mssql import digests
from dpone_dagster.mssql.digests import Digester
from dpone_dagster.mssql.faults import UNIQUE_VIOLATION, ServerError
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import quoted, quoted_table
from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.mssql.stagefill import Batches, fill_stage
from dpone_dagster.mssql.stages import Stage
from dpone_dagster.ports.changes import ChangeCounts, ChangeTarget, StagedKeys
from dpone_dagster.ports.source import KeyBucket, RowStream

_FILE = "changes.sql"
# Gone with the session at the latest; made anew by every comparison of keys.
_EXTRA = "[#dpone_extra_keys]"
_TOKEN_DIGITS = 16
_MARKED = {"time": "SYSUTCDATETIME()", "flag": "1"}


class MssqlChanges:
    """Stages and applies increments in the caller's transaction, under the target's lock.

    Args:
        session: The target's session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._workbench: _Workbench | None = None
        self._rows: Stage | None = None
        self._digester: Digester | None = None

    def stage_rows(self, into: ChangeTarget, stream: RowStream) -> int:
        """Load changed rows into a stage; returns how many were new to it.

        A row whose key is staged already is the same row: all of an increment is read in one snapshot. Without rows
        nothing is made.

        Raises:
            ValidationBlocked: Duplicate keys in the stream.
            CountMismatch: The stream and the stage have different numbers of rows.
        """
        self._prove_transaction()
        batches, key = Batches(stream), into.contract.key
        if batches.empty:
            return _same_count(into.table, stream, 0)
        if self._rows is None:
            columns = tuple(column.target for column in into.contract.columns)
            self._rows = self._bench(into.table).make(columns, into.table)
            return self._fill(self._rows, into, batches)
        # Cloned from the first stage: the target may be locked by now, by this very transaction.
        more = self._bench(into.table).clone(self._rows)
        self._fill(more, into, batches)
        match = _same(self._rows, "r", more, "m", key)
        return self._changed("stage_more", rows=self._rows.name, more=more.name, match=match)

    def key_buckets(self, into: ChangeTarget, buckets: int) -> list[KeyBucket]:
        """Digest of all target keys, a bucket each; empty buckets are left out."""
        return digests.key_buckets(self._session, into.table, into.contract.key, buckets, only=_present(into))

    def row_buckets(self, into: ChangeTarget, buckets: int) -> list[KeyBucket]:
        """Digest of all target rows, in the buckets of their keys; empty ones are left out."""
        return digests.row_buckets(self._session, into.table, into.contract, buckets, only=_present(into))

    def stage_keys(self, into: ChangeTarget, stream: RowStream, buckets: int, wanted: Sequence[int]) -> StagedKeys:
        """Load the source's keys of the wanted buckets and compare them with the target's.

        Raises:
            ValidationBlocked: Duplicate keys in the stream.
            CountMismatch: The stream and the stage have different numbers of rows.
        """
        self._prove_transaction()
        key, target = into.contract.key, into.table
        keys = self._bench(target).make(key, target)
        self._fill(keys, into, Batches(stream))
        self._session.execute(filled(load(_FILE)["drop"], table=_EXTRA))
        extra = self._changed(
            "extra_keys",
            columns=", ".join(f"t.{quoted(name)}" for name in key),
            extra=_EXTRA,
            target=quoted_table(target),
            in_buckets=self._digests(target).in_buckets(key, "t", buckets, wanted),
            present=_present(into),
            keys=keys.name,
            match=self._one_key(into, keys, "k"),
        )
        missing = self._session.value(
            filled(
                load(_FILE)["missing_keys"],
                keys=keys.name,
                target=quoted_table(target),
                in_target=self._one_key(into, keys, "k"),
                present=_present(into),
                not_staged=self._not_staged(keys, key),
            ),
            seconds=UNBOUNDED,
        )
        return StagedKeys(extra, int(missing))

    def _not_staged(self, keys: Stage, key: Sequence[str]) -> str:
        if self._rows is None:
            return ""
        match = _same(self._rows, "r", keys, "k", key)
        return filled(load(_FILE)["not_staged"], rows=self._rows.name, match=match)

    def delete_unmatched(self, into: ChangeTarget) -> int:
        """Delete, or mark, target rows of the staged buckets whose key is not among the staged keys."""
        target = quoted_table(into.table)
        match = " AND ".join(f"t.{quoted(name)} = e.{quoted(name)}" for name in into.contract.key)
        if into.mark is None:
            return self._changed("delete_unmatched", target=target, extra=_EXTRA, match=match)
        mark, marked = quoted(into.mark.column), _MARKED[into.mark.kind]
        return self._changed("mark_unmatched", target=target, mark=mark, marked=marked, extra=_EXTRA, match=match)

    def upsert(self, into: ChangeTarget) -> ChangeCounts:
        """UPDATE … FROM the stage, then INSERT … WHERE NOT EXISTS; rows that are equal already are left alone.

        Raises:
            UniqueConflict: Another unique index is in the way.
        """
        self._prove_transaction()
        return ChangeCounts() if self._rows is None else self.upsert_staged(into, self._rows)

    def upsert_staged(self, into: ChangeTarget, rows: Stage) -> ChangeCounts:
        """As `upsert`, from a stage of the caller's own.

        Raises:
            UniqueConflict: Another unique index is in the way.
        """
        with _conflicts(into):
            updated = self._update(into, rows)
            return ChangeCounts(inserted=self._insert(into, rows), updated=updated)

    def replace(self, into: ChangeTarget) -> ChangeCounts:
        """DELETE what differs from the stage, then INSERT … WHERE NOT EXISTS, so that unique values may change places.

        Raises:
            UniqueConflict: Another unique index is in the way all the same.
        """
        self._prove_transaction()
        if self._rows is None:
            return ChangeCounts()
        with _conflicts(into):
            gone = self._changed("delete_changed", **self._differing(into, self._rows))
            return ChangeCounts(inserted=self._insert(into, self._rows) - gone, updated=gone)

    def _update(self, into: ChangeTarget, rows: Stage) -> int:
        # Key columns too: that of a marked row may be written differently.
        assignments = [f"{quoted(name)} = s.{quoted(rows.columns[name])}" for name in rows.columns]
        if into.mark is not None:
            assignments.append(f"{quoted(into.mark.column)} = NULL")
        return self._changed("update_changed", assignments=", ".join(assignments), **self._differing(into, rows))

    def _differing(self, into: ChangeTarget, rows: Stage) -> dict[str, str]:
        """The target's rows `t` that the stage's rows `s` change."""
        digester = self._digests(into.table)
        changed = filled(
            load(_FILE)["changed"],
            new=", ".join(digester.exact(rows.columns[name], name, "s") for name in rows.columns),
            old=", ".join(digester.exact(name, name, "t") for name in rows.columns),
            present=_present(into),
        )
        match = self._one_key(into, rows)
        return {"target": quoted_table(into.table), "rows": rows.name, "match": match, "changed": changed}

    def _insert(self, into: ChangeTarget, rows: Stage) -> int:
        return self._changed(
            "insert_new",
            target=quoted_table(into.table),
            columns=", ".join(map(quoted, rows.columns)),
            values=rows.values(list(rows.columns), "s"),
            rows=rows.name,
            match=self._one_key(into, rows),
        )

    def count_arrived(self, into: ChangeTarget, rows: Stage) -> int:
        """How many of a stage's rows have their key in the target, once they are applied."""
        query = filled(
            load(_FILE)["count_arrived"],
            rows=rows.name,
            target=quoted_table(into.table),
            match=self._one_key(into, rows),
        )
        return int(self._session.value(query, seconds=UNBOUNDED))

    def _one_key(self, into: ChangeTarget, rows: Stage, alias: str = "s") -> str:
        """The target's row `t` and a stage's row have one key, as `ChangeTarget` says."""
        match = _matches(rows, alias, into.contract.key)
        alike = self._digests(into.table).written_alike
        exact = " AND ".join(filter(None, (alike(rows.columns[name], name, alias, "t") for name in into.contract.key)))
        if not exact:
            return match
        return f"{match} AND {exact}" if into.mark is None else f"{match} AND ({exact} OR NOT {_present(into)})"

    def _digests(self, target: TableRef) -> Digester:
        """The table's types, read once a transaction: they are asked for by each of its steps."""
        if self._digester is None or self._digester.table != target:
            self._digester = Digester.of(self._session, target)
            self._session.after_transaction(self._forget_types)
        return self._digester

    def _forget_types(self) -> None:
        self._digester = None

    # ------------------------------------------------------------ stages

    def _prove_transaction(self) -> None:
        if not self._session.in_transaction:
            raise DponeError("an increment is staged and applied in one transaction, and there is none")

    def _bench(self, target: TableRef) -> _Workbench:
        """The stages of the transaction in hand; they go with it, whichever way it ends."""
        if self._workbench is None:
            self._workbench = _Workbench(self._session, target)
            self._session.after_transaction(self._put_away)
        return self._workbench

    def _put_away(self) -> None:
        bench, self._workbench, self._rows = self._workbench, None, None
        if bench is not None:
            bench.close()

    def _fill(self, stage: Stage, into: ChangeTarget, batches: Batches) -> int:
        if not batches.empty:
            fill_stage(self._session, stage, batches)
        query = filled(load(_FILE)["staged"], stage=stage.name)
        staged = _same_count(into.table, batches.stream, int(self._session.value(query, seconds=UNBOUNDED)))
        self.refuse_duplicates(stage, into.table, into.contract.key)
        return staged

    def refuse_duplicates(self, stage: Stage, target: TableRef, key: Sequence[str]) -> None:
        """No key stands twice in a stage.

        Raises:
            ValidationBlocked: One does.
        """
        columns = ", ".join(quoted(stage.columns[name]) for name in key)
        query = filled(load(_FILE)["duplicates"], stage=stage.name, key=columns)
        if count := self._session.value(query, seconds=UNBOUNDED):
            raise ValidationBlocked.repeated_keys(target, count)

    def _changed(self, query: str, **parts: str) -> int:
        return self._session.changed(filled(load(_FILE)[query], **parts), seconds=UNBOUNDED)


class _Workbench:
    """A second session that makes an increment's stage tables and drops them, those of dead increments too.

    Whoever holds the target's lock is the only increment of that target, so every stage that is there is a dead one's.
    """

    def __init__(self, session: Session, target: TableRef) -> None:
        self._session = Session(session.address, f"{session.purpose} stages")
        self._target = target
        self._made: list[TableRef] = []
        prefix = derived_name(target.name, "increment", "x" * _TOKEN_DIGITS)[:-_TOKEN_DIGITS]
        for (name,) in self._session.rows(load(_FILE)["old_stages"], target.schema, len(prefix), prefix):
            with contextlib.suppress(DponeError):  # its writer may be dying still; the next increment finds it again
                self._drop(target.sibling(name))

    def make(self, columns: Sequence[str], target: TableRef) -> Stage:
        """An empty stage with the types of the target's columns."""
        stage = self._stage({name: f"c{place}" for place, name in enumerate(columns)})
        listed = ", ".join(f"t.{quoted(name)} AS {quoted(short)}" for name, short in stage.columns.items())
        return self._create(stage, listed, target)

    def clone(self, stage: Stage) -> Stage:
        """An empty stage like another one."""
        return self._create(self._stage(stage.columns), "t.*", stage.table)

    def _stage(self, columns: Mapping[str, str]) -> Stage:
        name = derived_name(self._target.name, "increment", uuid.uuid4().hex[:_TOKEN_DIGITS])
        return Stage(self._target.sibling(name), columns, f"increment {self._target}")

    def _create(self, stage: Stage, columns: str, like: TableRef) -> Stage:
        query = filled(load(_FILE)["create_stage"], columns=columns, stage=stage.name, target=quoted_table(like))
        self._made.append(stage.table)
        self._session.execute(query)
        return stage

    def _drop(self, table: TableRef) -> None:
        self._session.execute(filled(load(_FILE)["drop"], table=quoted_table(table)))

    def close(self) -> None:
        """Drop the stages and end the session."""
        try:
            for table in self._made:
                self._drop(table)
        finally:
            self._session.close()


@contextlib.contextmanager
def _conflicts(into: ChangeTarget) -> Iterator[None]:
    try:
        yield
    except ServerError as error:
        if error.number not in UNIQUE_VIOLATION:
            raise
        raise UniqueConflict(f"a changed row breaks a unique index of {into.table}: {error.message}") from None


def _same_count(table: TableRef, stream: RowStream, rows: int) -> int:
    if rows != stream.rows:
        raise CountMismatch.staged(table, stream.rows, rows)
    return rows


def _present(into: ChangeTarget) -> str:
    """Condition: the target's row `t` is not marked as deleted."""
    if into.mark is None:
        return "(1 = 1)"
    column = f"t.{quoted(into.mark.column)}"
    return f"({column} IS NULL)" if into.mark.kind == "time" else f"({column} IS NULL OR {column} = 0)"


def _matches(stage: Stage, alias: str, key: Sequence[str]) -> str:
    """The target's row `t` and a stage's row have one key, as the target's collation sees it."""
    return " AND ".join(f"t.{quoted(name)} = {alias}.{quoted(stage.columns[name])}" for name in key)


def _same(left: Stage, left_alias: str, right: Stage, right_alias: str, key: Sequence[str]) -> str:
    return " AND ".join(
        f"{left_alias}.{quoted(left.columns[name])} = {right_alias}.{quoted(right.columns[name])}" for name in key
    )
