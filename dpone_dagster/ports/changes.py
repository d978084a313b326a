"""The changes of one increment: staged, compared and applied in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.deletion import DeleteMark
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports.source import KeyBucket, RowStream


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

    Keys are one if they are written the same: the target's collation may take two of the source for one, and a row
    would be written over. Its unique index speaks up instead. A row that is marked as deleted gives its place to any
    that the collation takes for it.

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
