"""How a partition backfill is spread over runs: one run of lanes, or runs of one contiguous range and one lane each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpone_dagster.campaign.errors import Finding, ManifestInvalid, PlanDrift
from dpone_dagster.campaign.selection import ChunkSelection

MappingMode = Literal["internal", "visible", "summary"]
MOST_ITEMS = 200
MOST_ACTIVE = 64


@dataclass(frozen=True)
class MappingPolicy:
    """How a partition backfill becomes runs.

    Attributes:
        mode: `internal` is one run with all lanes; in the mapped modes a run has one lane: `visible` has one run a
            chunk, `summary` one run a range of partitions.
        max_items: Most runs of `summary` for the whole plan or any one range of it.
        max_active: Most lanes at once over all runs of the campaign; None for the pool's own limit.
        pool: The Dagster pool whose slots the lanes take; None for the campaign's own.
    """

    mode: MappingMode = "internal"
    max_items: int | None = None
    max_active: int | None = None
    pool: str | None = None

    @property
    def mapped(self) -> bool:
        """Whether a backfill is more than one run."""
        return self.mode != "internal"

    def lanes(self, of_a_run: int) -> int:
        """Lanes at once, also of the campaign's own job, which is always one run.

        Args:
            of_a_run: What the manifest says of a run.
        """
        return (self.max_active or of_a_run) if self.mapped else of_a_run

    def prove(self, chunks: int, max_partitions: int) -> None:
        """One run a chunk stays one run a chunk, and few enough of them.

        Args:
            chunks: Of the plan.
            max_partitions: Above it a partition is several chunks.

        Raises:
            ManifestInvalid: The plan has too many chunks for the mode.
        """
        if self.mode != "visible":
            return
        most = min(MOST_ITEMS, self.max_items or MOST_ITEMS)
        if chunks > most:
            problem = f"`visible` is one run a chunk, and this plan has {chunks:,} chunks"
            advice = f"plan at most {most} chunks, or write `mode: summary`"
            raise ManifestInvalid("", findings=[Finding("dagster.mapping.mode", problem, advice)])
        if max_partitions < chunks:
            problem = f"puts several of {chunks} chunks into one run, and `visible` is one run a chunk"
            raise ManifestInvalid("", findings=[Finding("dagster.max_partitions", problem, "leave it out")])

    def partitions_per_run(self, partitions: int) -> int | None:
        """Most partitions of one run; None for all of them.

        Args:
            partitions: Of the whole plan.
        """
        if self.mode == "internal":
            return None
        if self.mode == "visible":
            return 1
        return -(-partitions // (self.max_items or MOST_ITEMS))

    def runs_of(self, partitions: int) -> int:
        """Runs of a backfill of the whole plan.

        Args:
            partitions: Of the whole plan.
        """
        per_run = self.partitions_per_run(partitions)
        return 1 if per_run is None else -(-partitions // per_run)


def the_range(selection: ChunkSelection) -> tuple[int, int]:
    """The one contiguous range of chunks that a mapped run loads, half-open.

    Args:
        selection: The chunks of its partitions.

    Raises:
        PlanDrift: They are not contiguous, so they are no range of this plan's mapping.
    """
    if len(selection.ranges) != 1:
        found = ", ".join(f"{start} to {stop - 1}" for start, stop in selection.ranges[:10])
        raise PlanDrift(
            f"the chunks of this run are not one contiguous range: {found or 'none'}",
            next_step="Start the backfill anew, so that Dagster cuts it into ranges.",
        )
    return selection.ranges[0]
