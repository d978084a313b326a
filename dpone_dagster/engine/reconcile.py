"""Reconcile: what vanished from the source leaves the target; what was missed, or differs, comes in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from dpone_dagster.campaign.errors import IncrementRefused
from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.ports.changes import ChangeTarget
from dpone_dagster.ports.source import ChangeSnapshot, KeyBucket
from dpone_dagster.ports.target import Target

BUCKETS = 1024

Comparison = Literal["keys", "rows"]


@dataclass(frozen=True)
class Sides:
    """Both sides of one increment.

    Attributes:
        spec: The campaign.
        target: Its session, in the increment's transaction.
        into: Where changes go.
        snapshot: The source.
        nulled: Values that `on_bad_value: null` set to NULL in the rows that were read, a column; filled by the reads.
    """

    spec: RouteSpec
    target: Target
    into: ChangeTarget
    snapshot: ChangeSnapshot
    nulled: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Reconciled:
    """What a comparison found.

    Attributes:
        deleted: Rows deleted or marked.
        differing: Buckets of keys that were not equal, of 1,024.
    """

    deleted: int = 0
    differing: int = 0


def reconcile(sides: Sides, by: Comparison) -> Reconciled:
    """Compare digests a bucket, then key by key where they differ; delete, or mark, what the source no longer has.

    Rows of the source that the target has not, or (by `rows`) that differ, are staged.

    Args:
        sides: Source and target.
        by: What is digested: keys, or whole rows.

    Raises:
        IncrementRefused: More rows would go than the manifest's guards allow; nothing was deleted.
    """
    changes, into, snapshot = sides.target.changes, sides.into, sides.snapshot
    if by == "keys":
        here, there = changes.key_buckets(into, BUCKETS), snapshot.key_buckets(BUCKETS)
    else:
        here, there = changes.row_buckets(into, BUCKETS), snapshot.row_buckets(BUCKETS)
    wanted = _differing(here, there)
    if not wanted:
        return Reconciled()
    found = changes.stage_keys(into, snapshot.keys(BUCKETS, wanted), BUCKETS, wanted)
    _guard(sides.spec, found.extra_in_target, sum(b.keys for b in here), sum(b.keys for b in there))
    if found.missing_in_target or by == "rows":
        rows = snapshot.rows_by_key(BUCKETS, wanted)
        changes.stage_rows(into, rows)
        sides.nulled.update(rows.nulled)
    return Reconciled(changes.delete_unmatched(into) if found.extra_in_target else 0, len(wanted))


def _differing(here: list[KeyBucket], there: list[KeyBucket]) -> list[int]:
    left, right = {b.bucket: b for b in here}, {b.bucket: b for b in there}
    return sorted(bucket for bucket in left.keys() | right.keys() if left.get(bucket) != right.get(bucket))


def _guard(spec: RouteSpec, vanishing: int, target_rows: int, source_rows: int) -> None:
    policy = spec.increment
    seen = f"{vanishing} of {target_rows} target rows are gone from the source, which has {source_rows}"
    advice = "Check the source; if it is right, raise the guard under `dagster.incremental`, then run it again."
    if vanishing and source_rows == 0 and not spec.allow_empty:
        raise IncrementRefused(
            f"the source is empty: {seen}",
            next_step="Check the source; only a campaign with `allow_empty: true` may be emptied by an increment.",
        )
    if policy.max_delete_rows is not None and vanishing > policy.max_delete_rows:
        raise IncrementRefused(f"max_delete_rows is {policy.max_delete_rows}: {seen}", next_step=advice)
    if target_rows and vanishing / target_rows > policy.max_delete_fraction:
        raise IncrementRefused(f"max_delete_fraction is {policy.max_delete_fraction}: {seen}", next_step=advice)
