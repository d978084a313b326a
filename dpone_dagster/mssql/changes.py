"""The port `Changes` on SQL Server: an increment is staged in tables of its own and applied in one transaction."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import CountMismatch, DponeError, ValidationBlocked
from dpone_dagster.campaign.names import TableRef, derived_name
from dpone_dagster.mssql import digests
from dpone_dagster.mssql.digests import Digester
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import quoted, quoted_table
from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.mssql.stagefill import Batches, fill_stage
from dpone_dagster.mssql.stages import Stage
from dpone_dagster.ports import ChangeCounts, KeyBucket, RowStream, StagedKeys

_FILE = "changes.sql"
# Gone with the session at the latest; made anew by every comparison of keys.
_EXTRA = "[#dpone_extra_keys]"
_TOKEN_DIGITS = 16


class MssqlChanges:
    """Stages and applies increments in the caller's transaction, under the target's lock.

    Args:
        session: The target's session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._workbench: _Workbench | None = None
        self._rows: Stage | None = None

    def stage_rows(self, target: TableRef, contract: ColumnContract, stream: RowStream) -> int:
        """Load changed rows into a stage; returns how many were new to it.

        A row whose key is staged already is the same row: all of an increment is read in one snapshot.

        Raises:
            ValidationBlocked: Duplicate keys in the stream.
            CountMismatch: The stream and the stage have different numbers of rows.
        """
        columns = tuple(column.target for column in contract.columns)
        bench = self._bench(target)
        if self._rows is None:
            self._rows = bench.make(columns, target)
            return self._fill(self._rows, target, contract.key, stream)
        # Cloned from the first stage: the target may be locked by now, by this very transaction.
        more = bench.clone(self._rows)
        self._fill(more, target, contract.key, stream)
        return self._changed(
            "stage_more",
            rows=self._rows.name,
            more=more.name,
            match=_same(self._rows, "r", more, "m", contract.key),
        )

    def key_buckets(self, target: TableRef, contract: ColumnContract, buckets: int) -> list[KeyBucket]:
        """Digest of all target keys, a bucket each; empty buckets are left out."""
        return digests.key_buckets(self._session, target, contract.key, buckets)

    def stage_keys(
        self, target: TableRef, contract: ColumnContract, stream: RowStream, buckets: int, wanted: Sequence[int]
    ) -> StagedKeys:
        """Load the source's keys of the wanted buckets and compare them with the target's.

        Raises:
            ValidationBlocked: Duplicate keys in the stream.
            CountMismatch: The stream and the stage have different numbers of rows.
        """
        key = contract.key
        keys = self._bench(target).make(key, target)
        self._fill(keys, target, key, stream)
        self._session.execute(filled(load(_FILE)["drop"], table=_EXTRA))
        extra = self._changed(
            "extra_keys",
            columns=", ".join(f"t.{quoted(name)}" for name in key),
            extra=_EXTRA,
            target=quoted_table(target),
            in_buckets=Digester.of(self._session, target).in_buckets(key, "t", buckets, wanted),
            keys=keys.name,
            match=_matches(keys, "k", key),
        )
        missing = self._session.value(
            filled(
                load(_FILE)["missing_keys"],
                keys=keys.name,
                target=quoted_table(target),
                in_target=_matches(keys, "k", key),
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

    def delete_unmatched(self, target: TableRef, contract: ColumnContract) -> int:
        """Delete target rows of the staged buckets whose key is not among the staged keys."""
        match = " AND ".join(f"t.{quoted(name)} = e.{quoted(name)}" for name in contract.key)
        return self._changed("delete_unmatched", target=quoted_table(target), extra=_EXTRA, match=match)

    def upsert(self, target: TableRef, contract: ColumnContract) -> ChangeCounts:
        """UPDATE … FROM the stage, then INSERT … WHERE NOT EXISTS; rows that are equal already are left alone."""
        rows = self._rows
        if rows is None:
            raise DponeError("no rows were staged in this transaction")
        digester = Digester.of(self._session, target)
        match = _matches(rows, "s", contract.key)
        # Key columns too: a key that is equal by its collation may still be written differently.
        updated = self._changed(
            "update_changed",
            assignments=", ".join(f"{quoted(name)} = s.{quoted(rows.columns[name])}" for name in rows.columns),
            target=quoted_table(target),
            rows=rows.name,
            match=match,
            new=", ".join(digester.exact(rows.columns[name], name, "s") for name in rows.columns),
            old=", ".join(digester.exact(name, name, "t") for name in rows.columns),
        )
        inserted = self._changed(
            "insert_new",
            target=quoted_table(target),
            columns=", ".join(map(quoted, rows.columns)),
            values=rows.values(list(rows.columns), "s"),
            rows=rows.name,
            match=match,
        )
        return ChangeCounts(inserted=inserted, updated=updated)

    # ------------------------------------------------------------ stages

    def _bench(self, target: TableRef) -> _Workbench:
        """The stages of the transaction in hand; they go with it, whichever way it ends."""
        if not self._session.in_transaction:
            raise DponeError("an increment is staged and applied in one transaction, and there is none")
        if self._workbench is None:
            self._workbench = _Workbench(self._session, target)
            self._session.after_transaction(self._put_away)
        return self._workbench

    def _put_away(self) -> None:
        bench, self._workbench, self._rows = self._workbench, None, None
        if bench is not None:
            bench.close()

    def _fill(self, stage: Stage, target: TableRef, key: Sequence[str], stream: RowStream) -> int:
        batches = Batches(stream)
        if not batches.empty:
            fill_stage(self._session, stage, batches)
        query = filled(load(_FILE)["staged"], stage=stage.name)
        staged = int(self._session.value(query, seconds=UNBOUNDED))
        if staged != stream.rows:
            raise CountMismatch(f"increment of {target}: {stream.rows} rows read, {staged} rows staged")
        self._refuse_duplicates(stage, target, key)
        return staged

    def _refuse_duplicates(self, stage: Stage, target: TableRef, key: Sequence[str]) -> None:
        columns = ", ".join(quoted(stage.columns[name]) for name in key)
        query = filled(load(_FILE)["duplicates"], stage=stage.name, key=columns)
        if count := self._session.value(query, seconds=UNBOUNDED):
            raise ValidationBlocked(
                f"{count} keys of {target} came more than once from the source, as the target compares keys",
                next_step="Mend the source's keys, or the collation of the target's; then run the increment again.",
            )

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
        stage = Stage(self._name(), {name: f"c{place}" for place, name in enumerate(columns)})
        listed = ", ".join(f"t.{quoted(name)} AS {quoted(short)}" for name, short in stage.columns.items())
        return self._create(stage, listed, target)

    def clone(self, stage: Stage) -> Stage:
        """An empty stage like another one."""
        return self._create(Stage(self._name(), stage.columns), "t.*", stage.table)

    def _name(self) -> TableRef:
        token = uuid.uuid4().hex[:_TOKEN_DIGITS]
        return self._target.sibling(derived_name(self._target.name, "increment", token))

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


def _matches(stage: Stage, alias: str, key: Sequence[str]) -> str:
    """The target's row `t` and a stage's row have one key, as the target's collation sees it."""
    return " AND ".join(f"t.{quoted(name)} = {alias}.{quoted(stage.columns[name])}" for name in key)


def _same(left: Stage, left_alias: str, right: Stage, right_alias: str, key: Sequence[str]) -> str:
    return " AND ".join(
        f"{left_alias}.{quoted(left.columns[name])} = {right_alias}.{quoted(right.columns[name])}" for name in key
    )
