"""The port `History` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from dpone_dagster.campaign.errors import DponeError
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
from dpone_dagster.campaign.historyrows import lanes_of, spread_of, steps_of
from dpone_dagster.campaign.ledger import ChunkRecord
from dpone_dagster.campaign.staterows import chunk_record
from dpone_dagster.campaign.tallies import BLOCK_CHUNKS
from dpone_dagster.ports.history import SPREAD_SAMPLES
from dpone_dagster.postgres.session import Session
from dpone_dagster.postgres.staterows import StateRows


class PostgresHistory:
    """What the state tables tell of a campaign.

    Args:
        session: The target's session.
        state_schema: Where the state tables are.
    """

    def __init__(self, session: Session, state_schema: str) -> None:
        self._statements = StateRows(session, "history.sql", state_schema)

    def course(self, run_key: str) -> Course:
        """When lanes were at work."""
        return Course(**self._one("course", run_key=run_key))

    def groups(self, run_key: str, size: int) -> list[ChunkGroup]:
        """All chunks by index, `size` of them a group."""
        return [ChunkGroup(**row) for row in self._statements.rows("groups", run_key=run_key, size=size)]

    def slowest(self, run_key: str, limit: int) -> list[ChunkRecord]:
        """Committed and running chunks that took longest, longest first; a running one's `seconds` are those so far."""
        rows = self._statements.rows("slowest", run_key=run_key, limit=limit, size=BLOCK_CHUNKS)
        return [replace(chunk_record(row), seconds=float(row["took"] or 0)) for row in rows]

    def lanes(self, run_key: str, limit: int) -> tuple[int, list[LaneTotals]]:
        """How many lanes there were, and those that loaded the most rows, at most `limit`, by their start."""
        return lanes_of(self._statements.rows("lanes", run_key=run_key, limit=limit))

    def spans(self, run_key: str, slices: Slices, lanes: int) -> list[LaneSpan]:
        """What those `lanes` finished, at most one span a lane, slice and state, by start."""
        rows = self._statements.rows("spans", run_key=run_key, lanes=lanes, **_where(slices))
        return [LaneSpan(**row) for row in rows]

    def committed_rows(self, run_key: str, slices: Slices) -> list[SliceRows]:
        """Rows and chunks committed in each slice that has any, by place."""
        rows = self._statements.rows("committed_rows", run_key=run_key, count=slices.count, **_where(slices))
        return [SliceRows(**row) for row in rows]

    def rows_spread(self, run_key: str) -> Spread:
        """Rows of the committed chunks, at most `SPREAD_SAMPLES` + 1 samples."""
        return spread_of(self._statements.rows("rows_spread", run_key=run_key, samples=SPREAD_SAMPLES))

    def seconds_spread(self, run_key: str) -> Spread:
        """Durations of the committed chunks, likewise."""
        return spread_of(self._statements.rows("seconds_spread", run_key=run_key, samples=SPREAD_SAMPLES))

    def failures(self, run_key: str, limit: int) -> list[FailureGroup]:
        """Failed chunks by error code, the most frequent first."""
        rows: Sequence[Mapping[str, Any]] = self._statements.rows("failures", run_key=run_key, limit=limit)
        return [FailureGroup(row["code"], row["chunks"], row["first"], row["error"] or "") for row in rows]

    def receipt_sums(self, run_key: str) -> ReceiptSums:
        """Sums over all receipts."""
        nulled = {row["key"]: row["number"] for row in self._statements.rows("nulled", run_key=run_key)}
        return ReceiptSums(**self._one("receipt_sums", run_key=run_key), nulled=nulled)

    def campaign_steps(self, dataset: str, since: datetime, limit: int) -> Steps:
        """Steps of runs of a campaign since its prepare, until the next campaign of the dataset was prepared."""
        return steps_of(self._statements.rows("campaign_steps", dataset=dataset, since=since, limit=limit))

    def increments(self, generation: str, limit: int) -> Steps:
        """Increments that were applied to a generation."""
        return steps_of(self._statements.rows("increments", generation=generation, limit=limit))

    def _one(self, query: str, **values: object) -> dict[str, Any]:
        row = self._statements.row(query, **values)
        if row is None:
            raise DponeError("the server returned no sums")
        return row


def _where(slices: Slices) -> dict[str, object]:
    return {"start": slices.start, "milliseconds": slices.milliseconds}
