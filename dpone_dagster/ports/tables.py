"""The target's user tables: catalog, shadow, rows, swap."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dpone_dagster.campaign.contract import Column, ColumnContract
from dpone_dagster.campaign.errors import CountMismatch, DigestMismatch, Finding
from dpone_dagster.campaign.ledger import Claim
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.receipts import DIGEST, TARGET_DIGEST, ChunkReceipt, digest_sum
from dpone_dagster.campaign.slices import LiveSlice
from dpone_dagster.ports.source import RowStream


@dataclass(frozen=True)
class TargetTable:
    """The live table or a shadow as its catalog has it.

    Attributes:
        object_id: Object id on the server.
        columns: In catalog order.
        contract: Everything that a swap must reproduce, as canonical plain data, free of names that must differ.
        sha256: `object_contract_sha256` over `contract`.
        findings: What a swap would lose and that cannot be reproduced; all at once.
        unwritable: Those findings that also keep rows from being written to the table exactly as they are.
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
    unwritable: tuple[Finding, ...] = ()

    def keeps_apart(self, key: Sequence[str]) -> bool:
        """Whether a unique index lets no two rows have one key, where none of its columns is NULL."""
        return any(set(columns) <= set(key) for columns in self.unique_keys)


@dataclass(frozen=True)
class ShadowHandle:
    """A table that this campaign writes to: its object id, and the digest of what decides how rows are taken."""

    object_id: int
    digest: str


@dataclass(frozen=True)
class Written:
    """What a chunk's transaction wrote.

    Attributes:
        rows: As the server counted them.
        digest: Over the rows as the target holds them, as `content_digest`; None if not asked for.
    """

    rows: int
    digest: str | None = None


@dataclass(frozen=True)
class ChunkWrite:
    """What `write_chunk` needs besides claim and rows.

    Attributes:
        table: The shadow, or the live table of a `direct` campaign.
        object_id: Its object id at prepare.
        digest: The digest of its loadable catalog at prepare.
        contract: The loaded columns.
        plan_hash: For the receipt.
        binding: For the receipt.
        live: What the chunk does to its range of the live table; None for a shadow, to which it is appended.
        digested: Whether the rows are also digested, and compared with what the source says.
        source_has_rows: Whether the source has a row for the whole campaign, in the snapshot that this chunk was read
            in. Asked at the stream's end, where rows are deleted and none is written.
    """

    table: TableRef
    object_id: int
    digest: str
    contract: ColumnContract
    plan_hash: str
    binding: str
    live: LiveSlice | None = None
    digested: bool = False
    source_has_rows: Callable[[], bool] = lambda: False

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

    def filled(self, receipt: ChunkReceipt, stream: RowStream, written: Written) -> ChunkReceipt:
        """The receipt with what was moved; what was read and what was written are compared.

        Args:
            receipt: As inserted.
            stream: At its end.
            written: By this transaction.

        Raises:
            CountMismatch: Their numbers of rows differ, and the table is a shadow. For a live table that is noted.
            DigestMismatch: Their digests do; likewise.
        """
        notes: dict[str, object] = {}
        if written.rows != stream.rows:
            if self.live is None:
                raise CountMismatch(
                    f"chunk {receipt.chunk_index}: {stream.rows} rows read, {written.rows} rows written"
                )
            notes["rows_read"] = stream.rows
        if self.digested:
            notes |= self._digests(receipt, stream.digest or "", written.digest or "")
        return replace(receipt, rows=written.rows, bytes=stream.bytes, nulled=dict(stream.nulled), diagnostics=notes)

    def _digests(self, receipt: ChunkReceipt, read: str, written: str) -> dict[str, object]:
        if read and read == written:
            return {DIGEST: digest_sum(read)}
        if self.live is None:
            raise DigestMismatch(f"chunk {receipt.chunk_index}: digest {read} read, {written} written")
        return {DIGEST: digest_sum(read), TARGET_DIGEST: digest_sum(written)}


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

    def loadable(self, table: TableRef) -> ShadowHandle | None:
        """The live table as a `direct` campaign's chunks will find it; None if it is not there."""
        ...

    def write_chunk(self, claim: Claim, write: ChunkWrite, stream: RowStream) -> ChunkReceipt:
        """Write the chunk and its receipt in one transaction of this session.

        The receipt is inserted first, and only if the chunk row has our epoch and this session holds the chunk's and
        the campaign's lock. Rows are appended, or take the place that `write.live` says; read and written rows are
        compared before COMMIT.

        Raises:
            LeaseLost: Lock or epoch is not ours any more.
            TransientFailure: Also where a receipt is there already: the next try begins with a probe.
            CatalogDrift: The table is not the one of prepare.
            CountMismatch: Numbers of rows read and written differ, and the table is a shadow.
            DigestMismatch: Their digests differ, where they are asked for, and the table is a shadow.
            UniqueConflict: A unique index of the live table is in the way.
            ValidationBlocked: Keys of a merge come twice; or rows would be deleted, and the source has none at all.
            OutcomeUnknown: COMMIT was sent and not answered.
        """
        ...

    def types_without_digest(self) -> frozenset[str]:
        """Types, by name, whose values this server does not write as the source does: they have no common digest.

        Found out by known values; no row is read.
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

    def orphaned_stages(self, table: TableRef) -> list[str]:
        """Stage tables beside this table that belong to no unfinished campaign; the state tables are there."""
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
