"""Apply: stage what one increment found, delete, update and insert, all in the caller's one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from dpone_dagster.campaign.spec import IncrementPolicy
from dpone_dagster.campaign.watermark import Checkpoint
from dpone_dagster.engine.reconcile import Comparison, Reconciled, Sides, reconcile
from dpone_dagster.ports.changes import ChangeCounts

# What is compared besides the rows that changed: what the manifest says; every key; or every row instead of them.
Compare = Literal["policy", "keys", "rows"]


@dataclass(frozen=True)
class Steps:
    """What one increment does.

    Attributes:
        comparison: What is compared with the source; None for nothing. Whole rows need no xmin window.
        anew: Whether changed rows are deleted and inserted, since an update met another unique index.
    """

    comparison: Comparison | None
    anew: bool = False

    @classmethod
    def of(cls, compare: Compare, policy: IncrementPolicy, checkpoint: Checkpoint) -> Steps:
        """The steps of an increment that was asked for like this.

        Args:
            compare: What the run asks for.
            policy: What the manifest says.
            checkpoint: Where the increment starts; until keys were reconciled once they always are.
        """
        if compare != "policy":
            return cls(compare)
        due = policy.reconcile_deletes == "always" or not checkpoint.reconciled
        return cls("keys" if due else None)

    def after_conflict(self) -> Steps:
        """The steps that get past another unique index, if the source has the same uniqueness."""
        return replace(self, comparison=self.comparison or "keys", anew=True)


@dataclass(frozen=True)
class Applied:
    """What the steps did.

    Attributes:
        rows_read: Rows of the xmin window.
        counts: What was written.
        differing: Buckets of keys that differed, of 1,024.
        nulled: Values that were set to NULL in the rows that were read, a column.
        steps: The steps.
    """

    rows_read: int
    counts: ChangeCounts
    differing: int
    nulled: Mapping[str, int]
    steps: Steps

    def as_dict(self) -> dict[str, object]:
        """For the audit row."""
        counts = self.counts
        written = {"inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}
        compared = {"compared": self.steps.comparison, "differing_buckets": self.differing}
        return {**written, **compared, "nulled": dict(self.nulled)}


def apply(sides: Sides, steps: Steps) -> Applied:
    """Do the steps.

    Args:
        sides: Source and target.
        steps: What to do.

    Raises:
        IncrementRefused: Too many rows would be deleted.
        UniqueConflict: Another unique index is in the way; the transaction is lost.
    """
    changes, into = sides.target.changes, sides.into
    rows_read = 0
    if steps.comparison != "rows":
        rows = sides.snapshot.changed_rows()
        rows_read = changes.stage_rows(into, rows)
        sides.nulled.update(rows.nulled)
    found = reconcile(sides, steps.comparison) if steps.comparison else Reconciled()
    counts = changes.replace(into) if steps.anew else changes.upsert(into)
    return Applied(rows_read, replace(counts, deleted=found.deleted), found.differing, dict(sides.nulled), steps)
