"""One chunk into its table: receipt, rows and proof in one transaction of the session that holds the chunk's lock."""

from __future__ import annotations

from dataclasses import replace

from psycopg import errors as pg
from psycopg import sql
from psycopg.types.json import Jsonb

from dpone_dagster.campaign.errors import CatalogDrift, LeaseLost, TransientFailure, UniqueConflict
from dpone_dagster.campaign.ledger import Claim
from dpone_dagster.campaign.names import campaign_lock, chunk_lock
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.slices import LiveSlice
from dpone_dagster.faultpoints import reach
from dpone_dagster.ports.changes import ChangeTarget
from dpone_dagster.ports.source import RowStream
from dpone_dagster.ports.tables import ChunkWrite, Written
from dpone_dagster.postgres.catalog import identifier, loadable_digest
from dpone_dagster.postgres.changes import STAGED, PostgresChanges
from dpone_dagster.postgres.chunkrange import in_chunk
from dpone_dagster.postgres.columns import read_columns
from dpone_dagster.postgres.copyin import Blocks, copy_in
from dpone_dagster.postgres.digests import NOTHING, content_digest
from dpone_dagster.postgres.fence import lock_key
from dpone_dagster.postgres.queries import in_schema, statement
from dpone_dagster.postgres.session import Session


def write_chunk(
    session: Session, state_schema: str, claim: Claim, write: ChunkWrite, stream: RowStream
) -> ChunkReceipt:
    """Write one chunk and its receipt in one transaction; see the port for what is guaranteed and raised.

    An exception while the stream is read, of whatever kind, ends the COPY with an error and rolls everything back.
    """
    receipt = write.new_receipt(claim)
    writer = _Writer(session, state_schema, claim, write)
    with session.transaction():
        writer.begin(receipt)
        writer.prove_table()
        written = writer.insert(stream) if write.live is None else writer.write_live(write.live, stream)
        reach("after_stage", claim.chunk_index)
        receipt = writer.complete_receipt(write.filled(receipt, stream, written))
        reach("before_chunk_commit", claim.chunk_index)
    reach("after_chunk_commit", claim.chunk_index)
    return receipt


class _Writer:
    """The steps of one chunk's transaction."""

    def __init__(self, session: Session, state_schema: str, claim: Claim, write: ChunkWrite) -> None:
        self._session = session
        self._schema = state_schema
        self._queries = in_schema("chunkwrite.sql", state_schema)
        self._claim = claim
        self._write = write

    def begin(self, receipt: ChunkReceipt) -> None:
        """Insert the receipt, if chunk and campaign are held by this session under this epoch.

        Without state tables the locks alone say so: nobody raises a chunk's epoch but who holds its lock.
        """
        held = self._insert(receipt) if self._schema else (True, *self._prove_locks())
        words = (
            f"epoch {self._claim.epoch} is not the running one",
            "its lock is not held by this session",
            "the campaign's lock is not held by this session",
        )
        lost = [word for word, yes in zip(words, held, strict=True) if not yes]
        if lost:
            raise LeaseLost(f"chunk {self._claim.chunk_index}: {'; '.join(lost)}")

    def _prove_locks(self) -> tuple[bool, bool]:
        row = self._session.connection.execute(self._queries["prove_locks"], self._locks()).fetchone()
        return (False, False) if row is None else (row[0], row[1])

    def _locks(self) -> dict[str, object]:
        claim = self._claim
        return {
            "chunk_lock": lock_key(chunk_lock(self._schema, claim.run_key, claim.chunk_index)),
            "campaign_lock": lock_key(campaign_lock(self._schema, claim.run_key)),
        }

    def _insert(self, receipt: ChunkReceipt) -> tuple[bool, bool, bool]:
        claim = self._claim
        values = {
            **self._locks(),
            "run_key": claim.run_key,
            "chunk_index": claim.chunk_index,
            "epoch": claim.epoch,
            "receipt_id": receipt.receipt_id,
            "plan_hash": receipt.plan_hash,
            "contract_hash": receipt.contract_hash,
            "binding": receipt.binding,
            "run_id": claim.worker.run_id,
        }
        try:
            row = self._session.connection.execute(self._queries["insert_receipt"], values).fetchone()
        except pg.UniqueViolation as error:
            raise TransientFailure(f"chunk {claim.chunk_index} has a receipt already") from error
        return (False, False, False) if row is None else (row[0], row[1], row[2])

    def prove_table(self) -> None:
        """The table is the object of prepare, in its shape of prepare, and stays so until the transaction ends."""
        write = self._write
        found = loadable_digest(self._session, write.table, lock=True)
        if found is None or found[0] != write.object_id:
            raise CatalogDrift(f"{write.table} was replaced since the campaign was prepared")
        if found[1] != write.digest:
            raise CatalogDrift(f"{write.table} was altered since the campaign was prepared")

    def write_live(self, live: LiveSlice, stream: RowStream) -> Written:
        """Give the rows their place in the live table.

        DELETE and not TRUNCATE, which would show an empty table to readers of an older snapshot.
        """
        if live.action == "merge":
            return self._merge(live, stream)
        deleted = 0 if live.action == "append" else self._delete(live)
        try:
            written = self.insert(stream)
        except pg.UniqueViolation as error:
            raise live.conflict(self._write.table, error.diag.constraint_name or "") from None  # it quotes values
        live.prove_not_emptied(self._write.table, deleted, written.rows, self._write.source_has_rows)
        return written

    def _delete(self, live: LiveSlice) -> int:
        found = read_columns(self._session, self._write.table)
        if found is None:
            raise CatalogDrift(f"{self._write.table} is gone")
        rows = sql.SQL("true") if live.action == "refresh" else in_chunk(found[2], live.column, live.chunk)
        query = statement("tables.sql", "delete_slice", table=identifier(self._write.table), rows=rows)
        return self._session.connection.execute(query).rowcount

    def _merge(self, live: LiveSlice, stream: RowStream) -> Written:
        changes = PostgresChanges(self._session)
        into = ChangeTarget(self._write.table, self._write.contract)
        rows = changes.stage_rows(into, stream)
        digest = None
        if self._write.digested:
            digest = self._digest() if rows else NOTHING
        try:
            changes.upsert(into)
        except UniqueConflict as error:
            raise live.conflict(self._write.table, error.message) from None
        return Written(changes.count_arrived(into) if rows else 0, digest)

    def insert(self, stream: RowStream) -> Written:
        """Add the rows to the table: by one COPY, or by way of a stage where they are digested.

        A COPY does not tell which rows it wrote, and to look for them in the table would take longer with each chunk.
        """
        table = identifier(self._write.table)
        if not self._write.digested:
            return Written(self._copy(table, stream))
        stage, columns = identifier(STAGED), self._names()
        create = statement(
            "changes.sql", "create_stage", name=sql.Identifier(STAGED.name), columns=columns, target=table
        )
        self._session.connection.execute(create)
        self._copy(stage, stream)
        digest = self._digest()
        add = statement("tables.sql", "insert_staged", table=table, columns=columns, stage=stage)
        return Written(self._session.connection.execute(add).rowcount, digest)

    def _digest(self) -> str:
        return content_digest(self._session, STAGED, self._write.contract)

    def _names(self) -> sql.Composed:
        return sql.SQL(", ").join(sql.Identifier(column.target) for column in self._write.contract.columns)

    def _copy(self, into: sql.Identifier, stream: RowStream) -> int:
        """COPY the stream's rows; returns how many the server counted."""
        claim, blocks = self._claim, Blocks(stream)
        # Whoever reads the run key off a session's statement can look up everything else.
        label = f"/* dpone:copy_chunk {claim.run_key[:12]} chunk={claim.chunk_index:d} epoch={claim.epoch:d} */"
        copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT {}) {}").format(
            into, self._names(), blocks.format, sql.SQL(label)
        )
        return copy_in(self._session, copy, blocks, lambda: reach("mid_extract", claim.chunk_index))

    def complete_receipt(self, receipt: ChunkReceipt) -> ChunkReceipt:
        """Fill in what the COPY has proven; the server's clock tells when."""
        if not self._schema:
            return receipt  # the ledger's file keeps it
        values = {
            "run_key": receipt.run_key,
            "chunk_index": receipt.chunk_index,
            "receipt_id": receipt.receipt_id,
            "rows": receipt.rows,
            "bytes": receipt.bytes,
            "nulled": Jsonb(receipt.nulled),
            "diagnostics": Jsonb(receipt.diagnostics),
        }
        row = self._session.connection.execute(self._queries["complete_receipt"], values).fetchone()
        if row is None:
            raise LeaseLost(f"chunk {receipt.chunk_index}: its receipt vanished while it was written")
        return replace(receipt, committed_at=row[0])
