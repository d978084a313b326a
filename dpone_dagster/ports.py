"""What the engine asks of a source and a target. Each docstring states what an adapter guarantees.

A `Target` is one connection. Its parts (`fence`, `ledger`, `tables`, `publications`, `changes`) work on that one
connection, so that a session lock, the rows and their receipt always belong to the same server session.
Every method may raise `ConnectionLost`, `TransientFailure` or `Interrupted`; adapters translate driver errors
once, by explicit error number, and an unknown one is permanent (`DponeError`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from dpone_dagster.campaign.contract import Column, ColumnContract
from dpone_dagster.campaign.deletion import DeleteMark
from dpone_dagster.campaign.errors import DponeError, Finding
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkRecord, Claim, Holder, Phase, Worker
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import Chunk, Plan
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.receipts import ChunkReceipt, Kind, PublicationReceipt, ReceiptTotals
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.typetable import TypeTable
from dpone_dagster.campaign.watermark import Anchor, Checkpoint, RecordedAnchor, SourceIdentity

Wire = Literal["pgcopy", "arrow"]


# ---------------------------------------------------------------- source


@dataclass(frozen=True)
class SourceTable:
    """The source object as its catalog has it.

    Attributes:
        kind: `table`, `partitioned`, `view`, `foreign`, `matview`.
        columns: In catalog order, generated columns included, dropped ones not.
        digest: SHA-256 over the catalog of the columns that are read; what `read_chunk` compares.
    """

    table: TableRef
    kind: str
    columns: tuple[Column, ...]
    digest: str


@dataclass(frozen=True)
class ChunkRead:
    """One chunk to read.

    Attributes:
        table: The source table.
        chunk: The range.
        chunk_column: Its column in the source.
        contract: Projection, guards and key.
        source_digest: The catalog digest that must still hold.
        anchor: The server must be the anchor's and not lag behind it; None where the source has no xmin.
        digest_key: Hexadecimal secret for key digests in error messages.
        wire: The form the target takes.
        label: Goes into the statement's comment: run and chunk.
    """

    table: TableRef
    chunk: Chunk
    chunk_column: str
    contract: ColumnContract
    source_digest: str
    anchor: Anchor | None
    digest_key: str
    wire: Wire
    label: str


class RowStream(Protocol):
    """Rows of one read, in batches, once. `rows` and `bytes` are final after the last batch."""

    wire: Wire

    def __iter__(self) -> Iterator[Any]:
        """`bytes` of a binary COPY (pgcopy), or Arrow record batches whose fields are the target columns (arrow)."""
        ...

    @property
    def rows(self) -> int:
        """Rows that the source says it sent."""
        ...

    @property
    def bytes(self) -> int:
        """Bytes that passed."""
        ...

    @property
    def nulled(self) -> Mapping[str, int]:
        """Values that `on_bad_value: null` set to NULL, a column; for the receipt."""
        ...


@dataclass(frozen=True)
class KeyBucket:
    """Order-free digest over the keys, or the whole rows, of one bucket: count and sum, so that multiplicity counts.

    The bucket of a key is `first 16 bits of SHA-256(canonical key text) mod buckets`; `total` is the sum of the
    following 60 bits (of the whole row's SHA-256, where rows are compared) as an exact integer, in decimal. Both sides
    compute the same from the same canonical text.
    """

    bucket: int
    keys: int
    total: str


@dataclass(frozen=True)
class ChangeRead:
    """The rows to read for one increment.

    Attributes:
        since: The watermark.
        in_full: Whole rows are compared and no window is read, so that another timeline of the watermark's cluster, or
            a watermark of any age, will do.
    """

    table: TableRef
    contract: ColumnContract
    source_digest: str
    since: Anchor
    digest_key: str
    wire: Wire
    label: str
    in_full: bool = False


class ChangeSnapshot(Protocol):
    """One REPEATABLE READ snapshot of the source: the next anchor, changed rows and keys all belong to it."""

    @property
    def anchor(self) -> Anchor:
        """Where the next increment starts: this snapshot's xmin, taken before any row was read."""
        ...

    def changed_rows(self) -> RowStream:
        """Rows whose xmin lies in [since, snapshot xmax), by modular comparison."""
        ...

    def key_buckets(self, buckets: int) -> list[KeyBucket]:
        """Digest of all keys, a bucket each; empty buckets are left out."""
        ...

    def row_buckets(self, buckets: int) -> list[KeyBucket]:
        """Digest of all rows as the target would hold them, in the buckets of their keys; empty ones are left out."""
        ...

    def keys(self, buckets: int, wanted: Sequence[int]) -> RowStream:
        """The key columns of all rows of the wanted buckets, cast as in the contract."""
        ...

    def rows_by_key(self, buckets: int, wanted: Sequence[int]) -> RowStream:
        """All contract columns of all rows of the wanted buckets."""
        ...


class Source(Protocol):
    """One connection to the source server. Reads only."""

    def identity(self) -> SourceIdentity:
        """Which server this is."""
        ...

    def describe(self, table: TableRef, columns: tuple[str, ...] | None) -> SourceTable:
        """Read the catalog; no row is read.

        Raises:
            TableMissing: The table is not there, or a wanted column is not.
        """
        ...

    def capture_anchor(self) -> Anchor:
        """The xmin anchor, now. Every transaction below it has finished."""
        ...

    def read_chunk(self, read: ChunkRead) -> AbstractContextManager[RowStream]:
        """Open one chunk: REPEATABLE READ, ACCESS SHARE lock, catalog digest, server proof, then one COPY.

        Raises:
            CatalogDrift: The catalog digest differs.
            SourceChanged: Another cluster or timeline, or a snapshot older than the anchor.
            ValueNotRepresentable: While iterating: a guard fired, with column, reason and key digest.
        """
        ...

    def read_changes(self, read: ChangeRead) -> AbstractContextManager[ChangeSnapshot]:
        """Open one increment's snapshot, with the same proofs as `read_chunk`.

        Raises:
            CatalogDrift, SourceChanged: As for `read_chunk`.
            SourceTimelineChanged: Another timeline, and rows are not compared in full.
            IncrementRefused: The watermark is too old for 32-bit xmins, or ahead of the server's counter.
        """
        ...

    def count_outside(self, table: TableRef, chunk_column: str, plan: Plan) -> int:
        """Rows whose chunk column is NULL or outside the plan's range (for `doctor`)."""
        ...

    def content_digest(self, table: TableRef, contract: ColumnContract) -> str:
        """`<rows>:<sum>`: order-free digest over all contract columns, comparable with the target's."""
        ...

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread."""
        ...

    def close(self) -> None:
        """Close the connection; never raises."""
        ...


# ---------------------------------------------------------------- target


@dataclass(frozen=True)
class TargetTable:
    """The live table or a shadow as its catalog has it.

    Attributes:
        object_id: Object id on the server.
        columns: In catalog order.
        contract: Everything that a swap must reproduce, as canonical plain data, free of names that must differ.
        sha256: `object_contract_sha256` over `contract`.
        findings: What a swap would lose and that cannot be reproduced; all at once.
        unique_keys: Column sets that a not-deferrable unique index without predicate enforces.
        rows_exist: Whether there is at least one row.
        generation: The generation's UUID that the table itself bears; None if it bears none, or the server has no
            place for it.
    """

    table: TableRef
    object_id: int
    columns: tuple[Column, ...]
    contract: Mapping[str, object]
    sha256: str
    findings: tuple[Finding, ...]
    unique_keys: tuple[tuple[str, ...], ...]
    rows_exist: bool
    generation: str | None = None


@dataclass(frozen=True)
class ShadowHandle:
    """A shadow that this campaign owns: its object id and the digest of its loadable catalog."""

    object_id: int
    digest: str


@dataclass(frozen=True)
class ChunkWrite:
    """What `write_chunk` needs besides claim and rows."""

    shadow: TableRef
    shadow_object_id: int
    shadow_digest: str
    contract: ColumnContract
    plan_hash: str
    binding: str

    def new_receipt(self, claim: Claim) -> ChunkReceipt:
        """The receipt that a try inserts first; what it moved is filled in at the end."""
        return ChunkReceipt(
            run_key=claim.run_key,
            chunk_index=claim.chunk_index,
            receipt_id=uuid.uuid4().hex,
            plan_hash=self.plan_hash,
            contract_hash=self.contract.sha256,
            binding=self.binding,
            epoch=claim.epoch,
            rows=0,
        )


@dataclass(frozen=True)
class KeyQuality:
    """NULLs and duplicates of the unique key, as the target's own collation sees them."""

    null_keys: int
    duplicate_keys: int


@dataclass(frozen=True)
class IndexViolation:
    """A unique index of the live table that the shadow's rows do not allow.

    Attributes:
        index: Its name on the live table.
        surplus_rows: Rows that are one too many of their key, as the index compares.
    """

    index: str
    surplus_rows: int


class Fence(Protocol):
    """Application locks. Every return code is read; a lock that is not held is never assumed."""

    def lock_campaign(self, run_key: str, mode: Literal["shared", "exclusive"], wait_seconds: float) -> bool:
        """Take the campaign's session lock, or return False after the wait (at most 5 s for exclusive)."""
        ...

    def unlock_campaign(self, run_key: str, mode: Literal["shared", "exclusive"]) -> None:
        """Release it.

        Raises:
            LeaseLost: It was not held.
        """
        ...

    def try_lock_chunk(self, run_key: str, chunk_index: int) -> bool:
        """Take the chunk's session lock now, or return False."""
        ...

    def unlock_chunk(self, run_key: str, chunk_index: int) -> None:
        """Release it.

        Raises:
            LeaseLost: It was not held.
        """
        ...

    def lock_target(self, target: TableRef, wait_seconds: float) -> None:
        """Inside a transaction: the target's lock, until its end.

        Raises:
            PublicationBlocked: Not free within the wait; names the holder.
        """
        ...

    def lock_publication(self, target: TableRef, wait_seconds: float) -> None:
        """Inside a transaction, after `lock_target`: the publication lock, until its end."""
        ...

    def holders(self, run_key: str) -> list[Holder]:
        """Sessions that hold the campaign's lock or, by the ledger's running chunks, a chunk's lock."""
        ...

    def target_holders(self, target: TableRef) -> list[Holder]:
        """Sessions that hold the target's lock: a publication, a handoff, an increment, a rollback, or a drop."""
        ...

    def end_session(self, run_key: str, holder: Holder) -> bool:
        """End the session of this id and login time on the server, and what copies rows on its behalf.

        The server rolls back and frees the locks; until it has, the session is still among the holders.

        Returns:
            False if there is no such session any more, whoever may have its id now.

        Raises:
            RightsMissing: This login may not see or end it; the right is named.
        """
        ...

    def prove_session_locks(self, other: Fence) -> None:
        """Prove by trying that a lock of this session keeps another session out, across transactions.

        Raises:
            LockNotDistributed: It does not (a transaction pooler, a shared session).
        """
        ...


class Ledger(Protocol):
    """Campaign, chunk and receipt rows. Every move is one compare-and-set with a checked row count."""

    def provisioned(self) -> bool:
        """Whether the state tables are there, at a version this program can use.

        Raises:
            StateVersionOlder: An older program made them.
            StateVersionNewer: A newer program made them.
            RightsMissing: The login may not read them, where the server tells.
        """
        ...

    def provision(self) -> None:
        """Create or upgrade the state tables, idempotently, under a lock."""
        ...

    def campaign(self, run_key: str, *, lock: bool = False) -> CampaignRecord | None:
        """Read the committed campaign row; `lock` keeps it until the transaction ends."""
        ...

    def unfinished(self, target: TableRef) -> list[str]:
        """Run keys of the target's campaigns that are neither published, rolled back nor cancelled, by run key."""
        ...

    def create(self, record: CampaignRecord, plan: Plan) -> None:
        """Insert the campaign and all its chunks, in constant memory, in the caller's transaction."""
        ...

    def move(self, run_key: str, old: frozenset[Phase], new: Phase, **changes: object) -> bool:
        """CAS on the phase; `changes` are further `CampaignRecord` fields. False if the phase was not in `old`.

        A move to `published` also requires that no cancel is recorded.
        """
        ...

    def set_stop(self, run_key: str, reason: str | None) -> None:
        """Set (or, with None, clear) the stop token."""
        ...

    def cancel(self, run_key: str, reason: str, requested_by: str) -> bool:
        """Record a cancel and move to `cancelled`; False if published already."""
        ...

    def candidates(
        self, run_key: str, worker: Worker, selection: ChunkSelection, *, failed_only: bool, limit: int
    ) -> list[ChunkRecord]:
        """Chunks this worker might claim, spread by lane number.

        Pending, failed (not in this very run), lease_expired, and running ones of others: their lock decides.
        """
        ...

    def claim(self, run_key: str, seen: ChunkRecord, worker: Worker) -> Claim | None:
        """CAS (state, epoch) as seen → running, epoch + 1, if the campaign's phase allows loading.

        The chunk's lock must be held by this session. None if somebody was faster or the campaign takes no claims.
        """
        ...

    def renew(self, claim: Claim) -> bool:
        """Extend the lease by 90 s; False if the epoch is no longer ours."""
        ...

    def complete(self, claim: Claim, receipt: ChunkReceipt, seconds: float) -> bool:
        """CAS running → committed; False if the epoch is no longer ours."""
        ...

    def fail(self, claim: Claim, error: DponeError, *, stop: bool) -> bool:
        """CAS running → failed with code and message; with `stop` also set the campaign's stop token."""
        ...

    def give_back(self, claim: Claim) -> bool:
        """CAS running → pending: nothing was written and nobody is to blame (an interrupt)."""
        ...

    def progress(self, run_key: str, selection: ChunkSelection | None = None) -> Progress:
        """Counters, aggregated by the server."""
        ...

    def chunks(
        self, run_key: str, selection: ChunkSelection, *, only: Sequence[str] = (), limit: int | None = None
    ) -> list[ChunkRecord]:
        """Chunk rows of the selection in these effective states (all if empty), by index, at most `limit`."""
        ...

    def receipt(self, run_key: str, chunk_index: int) -> ChunkReceipt | None:
        """The committed receipt of a chunk; final if the chunk's lock is held."""
        ...

    def receipt_totals(self, record: CampaignRecord) -> ReceiptTotals:
        """Sums over all receipts of the campaign."""
        ...

    def start_load(self, load_id: str, dataset: str, kind: str, run_id: str) -> None:
        """Open a row in `__dpone__loads`, or leave the one that is there."""
        ...

    def finish_load(self, load_id: str, status: str, facts: Mapping[str, object]) -> None:
        """Close it."""
        ...

    def record_step(self, load_id: str, step: str, status: str, seconds: float, facts: Mapping[str, object]) -> None:
        """Append a row to `__dpone__load_steps`."""
        ...


class Tables(Protocol):
    """The target's user tables: catalog, shadow, rows, swap.

    Attributes:
        marks_generations: Whether every table that was published bears its generation's UUID (SQL Server, whose object
            ids are used again). Where it does not, the object id tells generations apart.
    """

    marks_generations: bool

    def describe(self, table: TableRef) -> TargetTable | None:
        """Read the exact catalog in one go; None if the table is not there."""
        ...

    def create_shadow(self, live: TargetTable, shadow: TableRef, run_key: str) -> ShadowHandle:
        """Create the loadable shadow from the live catalog, marked as owned by `run_key`, in the caller's transaction.

        Raises:
            ShadowForeign: The name is taken.
        """
        ...

    def shadow_owner(self, shadow: TableRef) -> str | None:
        """The run key that owns the table of this name; None if there is no table; "" if it is nobody's shadow."""
        ...

    def write_chunk(self, claim: Claim, write: ChunkWrite, stream: RowStream) -> ChunkReceipt:
        """Append the chunk and its receipt in one transaction of this session.

        The receipt is inserted first, and only if the chunk row has our epoch and this session holds the chunk's and
        the campaign's lock. Extracted and inserted rows are proven equal before COMMIT.

        Raises:
            LeaseLost: Lock or epoch is not ours any more.
            TransientFailure: Also where a receipt is there already: the next try begins with a probe.
            CatalogDrift: The shadow is not the one of prepare.
            CountMismatch: Extracted and inserted rows differ.
            OutcomeUnknown: COMMIT was sent and not answered.
        """
        ...

    def count(self, table: TableRef) -> int:
        """Exact number of rows."""
        ...

    def key_quality(self, table: TableRef, key: tuple[str, ...]) -> KeyQuality:
        """NULL and duplicate keys."""
        ...

    def build_indexes(self, shadow: TableRef, live: TargetTable) -> list[IndexViolation]:
        """Build every index and key of the live table that the shadow lacks; idempotent.

        Returns:
            The unique indexes that could not be built for the rows' sake; the others are there.

        Raises:
            CatalogDrift: All are built, and the shadow is not like the live table.
        """
        ...

    def drop_dead_stages(self, shadow: TableRef, run_key: str, chunk_index: int | None = None) -> None:
        """Drop what dead tries of a chunk left, its lock held; or of all chunks, the campaign held.

        A stage that somebody still uses is left after at most a second; nothing here fails for it.
        """
        ...

    def stages(self, shadow: TableRef, run_key: str) -> list[str]:
        """Names of the campaign's stages that are there, dead or in use."""
        ...

    def seal(self, shadow: TableRef) -> int | None:
        """Take the horizon that readers may not be older than at the swap; None where the server needs none."""
        ...

    def settle_horizon(self, shadow: TableRef, horizon: int | None) -> list[str]:
        """Freeze the shadow and name the sessions that are still older than the horizon; empty = may be swapped."""
        ...

    def lock_table(self, table: TableRef, wait_seconds: float) -> None:
        """Inside a transaction: lock one table against everybody, until its end.

        Raises:
            PublicationBlocked: Not within the wait; names the blocker.
        """
        ...

    def swap(self, live: TargetTable, shadow: TargetTable, backup: TableRef, generation: str) -> None:
        """Inside a transaction, both locked: live → backup, shadow → live, which bears `generation` from then on.

        A retained backup is swapped back by the same call. Index and constraint names, owner, grants and comments are
        carried, so that every name on the live table is what it was; the new live is then read back and proven equal
        to the old one's contract.

        Raises:
            CatalogDrift: It is not equal.
        """
        ...

    def drop(self, table: TableRef) -> None:
        """Inside a transaction, the table locked: drop it.

        Raises:
            BackupRefused: Something depends on it.
        """
        ...

    def content_digest(self, table: TableRef, contract: ColumnContract) -> str:
        """As `Source.content_digest`."""
        ...


class Publications(Protocol):
    """Publication receipts and xmin checkpoints."""

    def head(self, target: TableRef) -> PublicationReceipt | None:
        """The latest receipt of the target."""
        ...

    def of_campaign(self, run_key: str, kind: Kind = "publish") -> PublicationReceipt | None:
        """The publication of a campaign, or its rollback, if it was made; there is at most one of each."""
        ...

    def receipt(self, receipt_id: str) -> PublicationReceipt | None:
        """The receipt of this id."""
        ...

    def record(self, receipt: PublicationReceipt) -> None:
        """Insert, in the swap's transaction. The sequence's uniqueness keeps history from forking."""
        ...

    def close_head(self, receipt_id: str) -> bool:
        """CAS head pending → closed; False if it was not the pending head."""
        ...

    def record_drop(self, receipt_id: str, approved_by: str) -> bool:
        """CAS: the backup that this receipt names is dropped; False if that was recorded before."""
        ...

    def checkpoint(self, target: TableRef, generation: str) -> Checkpoint | None:
        """The checkpoint of one generation."""
        ...

    def handoff_owner(self, handoff_id: str) -> tuple[str, str] | None:
        """(source, target) that the handoff id was first used for."""
        ...

    def seed_checkpoint(self, checkpoint: Checkpoint, source: str) -> bool:
        """Insert the first checkpoint of a generation; True also if the very same one is there already."""
        ...

    def reopen_checkpoint(self, target: TableRef, generation: str) -> bool:
        """Its generation is live again: the next increment reconciles keys. False if there is no checkpoint."""
        ...

    def advance_checkpoint(self, checkpoint: Checkpoint, to: Anchor, *, reconciled: bool) -> bool:
        """CAS on the revision; never backwards on one timeline, never to another cluster's ids."""
        ...

    def rewind_checkpoint(self, checkpoint: Checkpoint, to: Anchor) -> bool:
        """CAS on the revision; backwards only, on the same server. The next increment reconciles."""
        ...

    def recorded_anchors(self, generation: str) -> list[RecordedAnchor]:
        """Where handoff and increments of a generation have put its checkpoint, as far as the audit rows tell."""
        ...


@dataclass(frozen=True)
class StagedKeys:
    """What a key comparison of the wanted buckets found."""

    extra_in_target: int
    missing_in_target: int


@dataclass(frozen=True)
class ChangeCounts:
    """What one increment wrote."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ChangeTarget:
    """Where changes go.

    Attributes:
        table: The live table.
        contract: Its loaded columns and its key.
        mark: The column that marks deleted rows; None where they are deleted. Marked rows count as not there.
    """

    table: TableRef
    contract: ColumnContract
    mark: DeleteMark | None = None


class Changes(Protocol):
    """Stage and apply an increment, all inside the caller's one transaction."""

    def stage_rows(self, into: ChangeTarget, stream: RowStream) -> int:
        """Load changed rows into a stage of this transaction; returns their number. Without rows nothing is made.

        Raises:
            ValidationBlocked: Duplicate keys in the stage.
        """
        ...

    def key_buckets(self, into: ChangeTarget, buckets: int) -> list[KeyBucket]:
        """Digest of all target keys, as `ChangeSnapshot.key_buckets`."""
        ...

    def row_buckets(self, into: ChangeTarget, buckets: int) -> list[KeyBucket]:
        """Digest of all target rows, as `ChangeSnapshot.row_buckets`."""
        ...

    def stage_keys(self, into: ChangeTarget, stream: RowStream, buckets: int, wanted: Sequence[int]) -> StagedKeys:
        """Load the source's keys of the wanted buckets and compare them with the target's.

        A key that is among the staged rows is not missing.
        """
        ...

    def delete_unmatched(self, into: ChangeTarget) -> int:
        """Delete, or mark, target rows of the staged buckets whose key is not among the staged keys."""
        ...

    def upsert(self, into: ChangeTarget) -> ChangeCounts:
        """UPDATE … FROM the stage, then INSERT … WHERE NOT EXISTS; what is marked as deleted is so no longer.

        Raises:
            UniqueConflict: Another unique index is in the way; the transaction is lost.
        """
        ...

    def replace(self, into: ChangeTarget) -> ChangeCounts:
        """As `upsert`, but changed rows are deleted and inserted anew, so that unique values may change places.

        Columns that are not loaded are what the server makes of them.
        """
        ...


class Target(Protocol):
    """One connection to the target server and what can be done on it.

    Attributes:
        wire: The form in which it takes rows.
        types: The type table of a PostgreSQL source and this server.
    """

    wire: Wire
    types: TypeTable
    fence: Fence
    ledger: Ledger
    tables: Tables
    publications: Publications
    changes: Changes

    def transaction(self) -> AbstractContextManager[None]:
        """One transaction of this session: COMMIT at the end, ROLLBACK on any exception.

        Raises:
            OutcomeUnknown: COMMIT was sent and not answered.
        """
        ...

    def domain(self) -> str:
        """Server and database, as proven by the server: equal for connections of one transaction domain."""
        ...

    def missing_rights(self, table: TableRef) -> list[Finding]:
        """Rights that a campaign on this table needs and this login lacks, by name; changes nothing."""
        ...

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread."""
        ...

    def close(self) -> None:
        """Close the connection, which frees every lock of it; never raises."""
        ...


class Connector(Protocol):
    """Opens connections for a campaign; `purpose` goes into the application name."""

    def source(self, purpose: str) -> Source:
        """A new source connection."""
        ...

    def target(self, purpose: str) -> Target:
        """A new target connection."""
        ...

    def state(self, purpose: str) -> Target:
        """A new connection to where the state is said to live; it must prove to be the target's own domain."""
        ...
