"""The course of a campaign, aggregated by the server."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from dpone_dagster.campaign.history import (
    ChunkGroup,
    Course,
    FailureGroup,
    LaneSpan,
    LaneTotals,
    ReceiptSums,
    SliceRows,
    Slices,
    Spread,
    Steps,
)
from dpone_dagster.campaign.ledger import ChunkRecord

SPREAD_SAMPLES = 50


class History(Protocol):
    """What chunk rows, receipts and audit rows tell of a campaign. Reads only.

    Every answer is bounded by what is asked for, and never by the number of chunks.
    """

    def course(self, run_key: str) -> Course:
        """When lanes were at work."""
        ...

    def groups(self, run_key: str, size: int) -> list[ChunkGroup]:
        """All chunks by index, `size` of them a group."""
        ...

    def slowest(self, run_key: str, limit: int) -> list[ChunkRecord]:
        """Committed and running chunks that took longest, longest first; a running one's `seconds` are those so far."""
        ...

    def lanes(self, run_key: str, limit: int) -> tuple[int, list[LaneTotals]]:
        """How many lanes there were, and those that loaded the most rows, at most `limit`, by their start."""
        ...

    def spans(self, run_key: str, slices: Slices, lanes: int) -> list[LaneSpan]:
        """What those `lanes` finished, at most one span a lane, slice and state, by start."""
        ...

    def committed_rows(self, run_key: str, slices: Slices) -> list[SliceRows]:
        """Rows and chunks committed in each slice that has any, by place."""
        ...

    def rows_spread(self, run_key: str) -> Spread:
        """Rows of the committed chunks, at most `SPREAD_SAMPLES` + 1 samples."""
        ...

    def seconds_spread(self, run_key: str) -> Spread:
        """Durations of the committed chunks, likewise."""
        ...

    def failures(self, run_key: str, limit: int) -> list[FailureGroup]:
        """Failed chunks by error code, the most frequent first."""
        ...

    def receipt_sums(self, run_key: str) -> ReceiptSums:
        """Sums over all receipts."""
        ...

    def campaign_steps(self, dataset: str, since: datetime, limit: int) -> Steps:
        """Steps of runs of a campaign since its prepare, until the next campaign of the dataset was prepared."""
        ...

    def increments(self, generation: str, limit: int) -> Steps:
        """Increments that were applied to a generation."""
        ...
