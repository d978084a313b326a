"""The source: one connection that reads chunks, changes and keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from dpone_dagster.campaign.contract import Column, ColumnContract
from dpone_dagster.campaign.errors import CatalogDrift, Finding, TableMissing
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import Chunk, Plan
from dpone_dagster.campaign.watermark import Anchor, SourceIdentity

Wire = Literal["pgcopy", "arrow"]


@dataclass(frozen=True)
class SourceTable:
    """The source object as its catalog has it.

    Attributes:
        kind: `table`, `partitioned`, `view`, `foreign`, `matview`.
        columns: In catalog order, generated columns included, dropped ones not.
        digest: SHA-256 over the catalog of the columns that are read; what `read_chunk` compares.
        object_id: Object id on the server.
    """

    table: TableRef
    kind: str
    columns: tuple[Column, ...]
    digest: str
    object_id: int


@dataclass(frozen=True)
class CatalogState:
    """Digests over the catalog of a source table.

    Attributes:
        all_columns: Over every column.
        named_columns: Over those that are read.
    """

    all_columns: str
    named_columns: str

    def digest_for(self, wanted: tuple[str, ...] | None) -> str:
        """The digest of a campaign that reads these columns; None for all, whichever there are."""
        return self.all_columns if wanted is None else self.named_columns

    def prove(self, table: TableRef, digest: str) -> None:
        """The digest of prepare still holds.

        Args:
            table: The source table.
            digest: As `digest_for` gave it.

        Raises:
            CatalogDrift: It does not.
        """
        if digest not in (self.all_columns, self.named_columns):
            raise CatalogDrift(f"{table} no longer looks as it did when the campaign was prepared")


def require_columns(table: TableRef, wanted: tuple[str, ...] | None, columns: Sequence[Column]) -> None:
    """Every wanted column is there.

    Args:
        table: The source table.
        wanted: The columns that will be read; None for all.
        columns: Those that the table has.

    Raises:
        TableMissing: Some are not; each of them.
    """
    names = [column.name for column in columns]
    missing = [name for name in wanted or () if name not in names]
    if missing:
        findings = [Finding(f"{table}.{name}", "the source has no such column", "correct the name") for name in missing]
        raise TableMissing(f"{len(missing)} wanted column(s) are not in {table}", findings=findings)


def in_comment(label: str) -> str:
    """A label as it may stand in a statement's comment, which it must not end whatever it holds."""
    return re.sub(r"[^\w .=:-]", "_", label, flags=re.ASCII)


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
        wire: The form that the target takes best; a source that has none of it sends Arrow batches.
        label: Goes into the statement's comment: run and chunk.
        digested: Whether the rows are also digested, by a statement of their own in the same snapshot.
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
    digested: bool = False


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

    @property
    def digest(self) -> str | None:
        """Order-free digest of the rows as the target will hold them, as `content_digest`; None if not asked for."""
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

    def clock(self) -> datetime:
        """The server's clock, now."""
        ...

    def domain(self) -> str:
        """As `Target.domain`; comparable with that of a target on the same kind of server."""
        ...

    def describe(self, table: TableRef, columns: tuple[str, ...] | None) -> SourceTable:
        """Read the catalog; no row is read.

        Raises:
            TableMissing: The table is not there, or a wanted column is not.
        """
        ...

    def read_chunk(self, read: ChunkRead) -> AbstractContextManager[RowStream]:
        """Open one chunk: one snapshot, in which the catalog digest is proven, the server too, and the rows are read.

        Raises:
            CatalogDrift: The catalog digest differs.
            SourceChanged: Another cluster or timeline, or a snapshot older than the anchor.
            ValueNotRepresentable: While iterating, or before it if rows are digested: a guard fired, with column,
                reason and key digest.
        """
        ...

    def has_rows(self, table: TableRef, chunk_column: str, plan: Plan) -> bool:
        """Whether a row lies in the plan's range. Inside `read_chunk`, after its last row: in the same snapshot."""
        ...

    def count_outside(self, table: TableRef, chunk_column: str, plan: Plan) -> int:
        """Rows whose chunk column is NULL or outside the plan's range (for `doctor`)."""
        ...

    def content_digest(self, table: TableRef, contract: ColumnContract) -> str:
        """`<rows>:<sum>`: order-free digest over all contract columns, comparable with the target's."""
        ...

    def types_without_digest(self) -> frozenset[str]:
        """Types, as the catalog names them, whose values this server does not write as `content_digest` has them."""
        ...

    def cancel(self) -> None:
        """Cut the statement in flight; safe from another thread."""
        ...

    def close(self) -> None:
        """Close the connection; never raises."""
        ...


@runtime_checkable
class XminSource(Source, Protocol):
    """A source whose rows tell by which transaction they were written last: what handoffs and increments need."""

    def identity(self) -> SourceIdentity:
        """Which server this is."""
        ...

    def capture_anchor(self) -> Anchor:
        """The xmin anchor, now. Every transaction below it has finished."""
        ...

    def read_changes(self, read: ChangeRead) -> AbstractContextManager[ChangeSnapshot]:
        """Open one increment's snapshot, with the same proofs as `read_chunk`.

        Raises:
            CatalogDrift, SourceChanged: As for `read_chunk`.
            SourceTimelineChanged: Another timeline, and rows are not compared in full.
            IncrementRefused: The watermark is too old for 32-bit xmins, or ahead of the server's counter.
        """
        ...
