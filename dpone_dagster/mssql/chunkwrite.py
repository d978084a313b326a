"""One chunk into its table: stage first, then receipt, rows and proof in one transaction of the lane's own session."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC

from dpone_dagster.campaign.errors import (
    CatalogDrift,
    CountMismatch,
    DponeError,
    LeaseLost,
    TransientFailure,
    UniqueConflict,
)
from dpone_dagster.campaign.ledger import Claim
from dpone_dagster.campaign.names import TableRef, campaign_lock, chunk_lock
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.slices import LiveSlice
from dpone_dagster.faultpoints import reach
from dpone_dagster.mssql.catalog import CatalogReader
from dpone_dagster.mssql.changes import MssqlChanges
from dpone_dagster.mssql.chunkrange import in_chunk
from dpone_dagster.mssql.digests import NOTHING, rows_digest
from dpone_dagster.mssql.faults import UNIQUE_VIOLATION, ServerError
from dpone_dagster.mssql.locks import lock_resource
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import quoted, quoted_table
from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.mssql.stagefill import Batches, fill_stage
from dpone_dagster.mssql.stages import Stage, drop_stage, label_of, make_stage
from dpone_dagster.ports.changes import ChangeTarget
from dpone_dagster.ports.source import RowStream
from dpone_dagster.ports.tables import ChunkWrite, Written


class ChunkWriter:
    """Writes chunks on one session.

    Args:
        session: The one that holds the chunk's lock and the campaign's.
        reader: Its catalog.
        state_schema: Where ledger and receipts are.
    """

    def __init__(self, session: Session, reader: CatalogReader, state_schema: str) -> None:
        self._session = session
        self._reader = reader
        self._schema = state_schema
        self._queries = load("chunkwrite.sql", state_schema)
        self._changes = MssqlChanges(session)

    def write(self, claim: Claim, write: ChunkWrite, stream: RowStream) -> ChunkReceipt:
        """Write one chunk and its receipt in one transaction; see the port for what is guaranteed and raised.

        An exception while the stream is read, of whatever kind, leaves the table untouched.
        """
        batches = Batches(stream)
        if batches.empty:
            return self._commit(claim, write, stream, None)
        reach("mid_extract", claim.chunk_index)
        with self._staged(claim, write, batches) as stage:
            reach("after_stage", claim.chunk_index)
            return self._commit(claim, write, stream, stage)

    @contextlib.contextmanager
    def _staged(self, claim: Claim, write: ChunkWrite, batches: Batches) -> Iterator[Stage]:
        """The chunk's rows in a stage of their own, which is dropped whatever happens."""
        self._prove_table(write)  # so that a drift stops the chunk before it is moved
        names = [column.target for column in write.contract.columns]
        stage = make_stage(self._session, claim, write.table, names)
        try:
            sent = fill_stage(self._session, stage, batches)
            # Into a shadow the INSERT of all staged rows counts them; what goes into a live table may be fewer.
            staged = sent if write.live is None else self._count(stage)
            if not sent == staged == batches.stream.rows:
                raise CountMismatch(
                    f"chunk {claim.chunk_index}: {batches.stream.rows} rows read, {sent} sent, {staged} staged"
                )
            yield stage
        finally:
            with contextlib.suppress(DponeError):  # it must not hide what went wrong; the next claimer finds the stage
                drop_stage(self._session, stage.table)

    def _count(self, stage: Stage) -> int:
        return int(self._session.value(filled(self._queries["count_staged"], stage=stage.name), seconds=UNBOUNDED))

    def _commit(self, claim: Claim, write: ChunkWrite, stream: RowStream, stage: Stage | None) -> ChunkReceipt:
        receipt = write.new_receipt(claim)
        digest = self._digest(write, stage)  # nobody writes to the stage any more, and no row is locked yet
        with self._session.transaction():
            self._begin(claim, receipt)
            rows = self._write_rows(claim, write, stage)
            # After the rows, whose lock on the table keeps everybody from altering it until the end.
            self._prove_table(write)
            receipt = self._complete(write.filled(receipt, stream, Written(rows, digest)))
            reach("before_chunk_commit", claim.chunk_index)
        reach("after_chunk_commit", claim.chunk_index)
        return receipt

    def _digest(self, write: ChunkWrite, stage: Stage | None) -> str | None:
        """Of the staged rows, which have the target's types already; None if it is not asked for."""
        if not write.digested:
            return None
        names = [column.target for column in write.contract.columns]
        return NOTHING if stage is None else rows_digest(self._session, stage.table, [stage.columns[n] for n in names])

    def _begin(self, claim: Claim, receipt: ChunkReceipt) -> None:
        """Insert the receipt, if chunk and campaign are held by this session under this epoch.

        Without state tables the locks alone say so: nobody raises a chunk's epoch but who holds its lock.
        """
        held = self._insert(claim, receipt) if self._schema else self._prove_locks(claim)
        words = (
            f"epoch {claim.epoch} is not the running one",
            "its lock is not held by this session",
            "the campaign's lock is not held by this session",
        )
        lost = [word for word, yes in zip(words, held or (0, 0, 0), strict=True) if not yes]
        if lost:
            raise LeaseLost(f"chunk {claim.chunk_index}: {'; '.join(lost)}")

    def _prove_locks(self, claim: Claim) -> tuple[object, ...] | None:
        row = self._session.row(self._queries["prove_locks"], *self._locks(claim))
        return None if row is None else (1, *row)

    def _locks(self, claim: Claim) -> tuple[str, str]:
        database = self._session.database
        return (
            lock_resource(database, chunk_lock(self._schema, claim.run_key, claim.chunk_index)),
            lock_resource(database, campaign_lock(self._schema, claim.run_key)),
        )

    def _insert(self, claim: Claim, receipt: ChunkReceipt) -> tuple[object, ...] | None:
        try:
            row = self._session.row(
                self._queries["insert_receipt"],
                claim.run_key,
                claim.chunk_index,
                claim.epoch,
                *self._locks(claim),
                receipt.receipt_id,
                receipt.plan_hash,
                receipt.contract_hash,
                receipt.binding,
                claim.worker.run_id,
            )
        except ServerError as error:
            if error.number in UNIQUE_VIOLATION:
                raise TransientFailure(f"chunk {claim.chunk_index} has a receipt already") from error
            raise
        return None if row is None else tuple(row)

    def _write_rows(self, claim: Claim, write: ChunkWrite, stage: Stage | None) -> int:
        """Give the staged rows their place; returns how many were written."""
        live = write.live
        if live is None:
            return self._insert_rows(claim, write, stage)
        if live.action == "merge":
            return self._merge(live, write, stage)
        deleted = 0 if live.action == "append" else self._delete(claim, write.table, live)
        try:
            rows = self._insert_rows(claim, write, stage)
        except ServerError as error:
            if error.number in UNIQUE_VIOLATION:
                raise live.conflict(write.table, error.message) from None
            raise
        live.prove_not_emptied(write.table, deleted, rows, write.source_has_rows)
        return rows

    def _delete(self, claim: Claim, table: TableRef, live: LiveSlice) -> int:
        catalog = self._reader.read(table)
        if catalog is None:
            raise CatalogDrift(f"{table} is gone")
        statement = filled(
            self._queries["delete_slice"],
            label=label_of(claim.run_key, claim.chunk_index, claim.epoch),
            table=quoted_table(table),
            in_slice="1 = 1" if live.action == "refresh" else in_chunk(catalog.columns, live.column, live.chunk),
        )
        return self._session.changed(statement, seconds=UNBOUNDED)

    def _merge(self, live: LiveSlice, write: ChunkWrite, stage: Stage | None) -> int:
        if stage is None:
            return 0
        into = ChangeTarget(write.table, write.contract)
        self._changes.refuse_duplicates(stage, write.table, write.contract.key)
        try:
            self._changes.upsert_staged(into, stage)
        except UniqueConflict as error:
            raise live.conflict(write.table, error.message) from None
        return self._changes.count_arrived(into, stage)

    def _insert_rows(self, claim: Claim, write: ChunkWrite, stage: Stage | None) -> int:
        if stage is None:
            return 0
        names = [column.target for column in write.contract.columns]
        statement = filled(
            self._queries["insert_rows"],
            label=label_of(claim.run_key, claim.chunk_index, claim.epoch),
            table=quoted_table(write.table),
            columns=", ".join(map(quoted, names)),
            values=stage.values(names, "s"),
            stage=stage.name,
        )
        return self._session.changed(statement, seconds=UNBOUNDED)

    def _prove_table(self, write: ChunkWrite) -> None:
        """The table is the object of prepare, in its shape of prepare, and whose it was then."""
        found = self._reader.loadable_digest(write.table)
        if found is None or found[0] != write.object_id:
            raise CatalogDrift(f"{write.table} was replaced since the campaign was prepared")
        if found[1] != write.digest:
            raise CatalogDrift(f"{write.table} was altered since the campaign was prepared")

    def _complete(self, receipt: ChunkReceipt) -> ChunkReceipt:
        """Fill in what the INSERT has proven; the server's clock tells when."""
        if not self._schema:
            return receipt  # the ledger's file keeps it
        own = (receipt.run_key, receipt.chunk_index, receipt.receipt_id)
        facts = (receipt.rows, receipt.bytes, json.dumps(receipt.nulled), json.dumps(receipt.diagnostics))
        row = self._session.row(self._queries["complete_receipt"], *facts, *own, *own)
        if row is None:
            raise LeaseLost(f"chunk {receipt.chunk_index}: its receipt vanished while it was written")
        return replace(receipt, committed_at=row[0].replace(tzinfo=UTC))
