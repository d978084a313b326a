"""What a chunk does to the rows that its range has in the live table: the inner modes of a `direct` campaign."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from dpone_dagster.campaign.errors import Finding, ManifestInvalid, UniqueConflict, ValidationBlocked
from dpone_dagster.campaign.plan import Chunk, ChunkSpec, Plan

PublicationMode = Literal["direct", "shadow_swap"]
InnerMode = Literal["incremental_append", "incremental_merge", "replace", "partition_replace", "full_refresh"]
Action = Literal["append", "merge", "replace", "refresh"]

# `replace` and `partition_replace` are two words for one thing: a chunk's range is its partition.
ACTIONS: Mapping[InnerMode, Action] = {
    "incremental_append": "append",
    "incremental_merge": "merge",
    "replace": "replace",
    "partition_replace": "replace",
    "full_refresh": "refresh",
}

_MEANT_TO_BE_EMPTY = (
    "Look why the source has none; then `dpone backfill resume MANIFEST`. If it is meant to have none, set "
    "`allow_empty: true` and begin anew, with a new `backfill_id`."
)
_LOADED_ALREADY = (
    "The range, or another row with its keys, is in the target already: load it by `inner_mode: replace` or "
    "`incremental_merge` with a new `backfill_id`; or delete those rows of the target, then `dpone backfill resume "
    "MANIFEST`."
)
_KEYS_ELSEWHERE = (
    "Rows outside the chunk have its keys: remove them, then `dpone backfill resume MANIFEST`; or load by "
    "`inner_mode: incremental_merge` with a new `backfill_id`."
)
_UNIQUE_IN_BOTH = (
    "Make the same columns unique in the source, as the target compares them, or remove the rows of the target that "
    "hold their values; then `dpone backfill resume MANIFEST`. Or give the target's column a binary collation, and "
    "begin anew with a new `backfill_id`."
)
_BLOCKED, _CONFLICT = ValidationBlocked.code, UniqueConflict.code

# What to do about a chunk, by what it does to its range and by its error's code.
ADVICE: Mapping[Action, Mapping[str, str]] = {
    "append": {_CONFLICT: _LOADED_ALREADY},
    "merge": {_CONFLICT: _UNIQUE_IN_BOTH, _BLOCKED: ValidationBlocked.UNIQUE_KEYS},
    "replace": {_CONFLICT: _KEYS_ELSEWHERE, _BLOCKED: _MEANT_TO_BE_EMPTY},
    "refresh": {_CONFLICT: _UNIQUE_IN_BOTH, _BLOCKED: _MEANT_TO_BE_EMPTY},
}


def prove_one_chunk(inner_mode: InnerMode, spec: ChunkSpec) -> None:
    """Only one chunk may empty the table: the next one would take its rows with it.

    Args:
        inner_mode: Of the campaign.
        spec: Of its chunks.

    Raises:
        ManifestInvalid: A `full_refresh` has more chunks.
    """
    count = Plan(spec).count
    if inner_mode == "full_refresh" and count > 1:
        problem = f"found `full_refresh` with {count} chunks"
        advice = "write `partition_replace` or `replace`, or make the plan one chunk"
        raise ManifestInvalid("", findings=[Finding("sink.strategy.backfill.inner_mode", problem, advice)])


@dataclass(frozen=True)
class LiveSlice:
    """One chunk's place in the live table.

    Attributes:
        action: `append` adds the chunk's rows. `merge` updates what has their key and adds the rest. `replace` first
            deletes the range, `refresh` the whole table.
        chunk: The range.
        column: The chunk column, by the one name that it has on both sides.
        allow_empty: Whether rows may be deleted although the source has none for the whole campaign.
    """

    action: Action
    chunk: Chunk
    column: str
    allow_empty: bool = False

    def prove_not_emptied(self, table: object, deleted: int, rows: int, source_has_rows: Callable[[], bool]) -> None:
        """Nothing was deleted by an accident of the source: it still has rows for the campaign, if none for this chunk.

        Args:
            table: The live table.
            deleted: Rows that were deleted.
            rows: Rows that were written.
            source_has_rows: Whether it has any for the whole campaign; only asked where that decides.

        Raises:
            ValidationBlocked: It has none.
        """
        if deleted and not rows and not self.allow_empty and not source_has_rows():
            raise ValidationBlocked(
                "the source has no row for the whole campaign, "
                f"and {table} has {deleted:,} for chunk {self.chunk.index}",
                next_step=ADVICE[self.action][_BLOCKED],
            )

    def conflict(self, table: object, problem: str) -> UniqueConflict:
        """The error where a unique index of the live table is in the way of a row.

        Args:
            table: The live table.
            problem: What the server said, without values.
        """
        return UniqueConflict(
            f"a row of chunk {self.chunk.index} breaks a unique index of {table}: {problem}",
            next_step=ADVICE[self.action][_CONFLICT],
        )
