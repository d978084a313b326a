"""The port `History` on SQL Server."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

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
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import quoted
from dpone_dagster.mssql.session import Session
from dpone_dagster.mssql.statevalues import read, stored
from dpone_dagster.ports.history import SPREAD_SAMPLES

# Over a million chunk rows each takes seconds; whoever looks can wait for that, and locks nothing.
_SECONDS = 60


class MssqlHistory:
    """What the state tables tell of a campaign.

    Args:
        session: The target's session.
        state_schema: Where the state tables are.
    """

    def __init__(self, session: Session, state_schema: str) -> None:
        self._session = session
        self._queries = load("history.sql", state_schema)

    def course(self, run_key: str) -> Course:
        """When lanes were at work."""
        (row,) = self._rows("course", run_key)
        return Course(**row)

    def groups(self, run_key: str, size: int) -> list[ChunkGroup]:
        """All chunks by index, `size` of them a group."""
        return [ChunkGroup(**row) for row in self._rows("groups", size, run_key)]

    def slowest(self, run_key: str, limit: int) -> list[ChunkRecord]:
        """Committed and running chunks that took longest, longest first; a running one's `seconds` are those so far."""
        # Within the usual bound: a lane's heartbeat asks for them.
        values = (limit, limit, run_key, run_key, BLOCK_CHUNKS, BLOCK_CHUNKS, run_key)
        rows = [read(row) for row in self._session.records(self._queries["slowest"], *values)]
        return [replace(chunk_record(row), seconds=float(row["took"] or 0)) for row in rows]

    def lanes(self, run_key: str, limit: int) -> tuple[int, list[LaneTotals]]:
        """How many lanes there were, and those that loaded the most rows, at most `limit`, by their start."""
        return lanes_of(self._rows("lanes", limit, run_key))

    def spans(self, run_key: str, slices: Slices, lanes: int) -> list[LaneSpan]:
        """What those `lanes` finished, at most one span a lane, slice and state, by start."""
        rows = self._rows("spans", stored(slices.start), slices.milliseconds, lanes, run_key, run_key)
        return [LaneSpan(**row) for row in rows]

    def committed_rows(self, run_key: str, slices: Slices) -> list[SliceRows]:
        """Rows and chunks committed in each slice that has any, by place."""
        rows = self._rows("committed_rows", stored(slices.start), slices.milliseconds, run_key)
        return [SliceRows(**row) for row in rows]

    def rows_spread(self, run_key: str) -> Spread:
        """Rows of the committed chunks, at most `SPREAD_SAMPLES` + 1 samples."""
        return self._spread(run_key, "rows")

    def seconds_spread(self, run_key: str) -> Spread:
        """Durations of the committed chunks, likewise."""
        return self._spread(run_key, "seconds")

    def failures(self, run_key: str, limit: int) -> list[FailureGroup]:
        """Failed chunks by error code, the most frequent first."""
        rows = self._rows("failures", limit, run_key, run_key)
        return [FailureGroup(row["code"], row["chunks"], row["first"], row["error"] or "") for row in rows]

    def receipt_sums(self, run_key: str) -> ReceiptSums:
        """Sums over all receipts."""
        nulled = {row["name"]: int(row["number"]) for row in self._rows("nulled", run_key)}
        (row,) = self._rows("receipt_sums", run_key)
        receipts, rows, moved = (int(row[name]) for name in ("receipts", "rows", "bytes"))
        return ReceiptSums(receipts, rows, moved, nulled, row["first_at"], row["last_at"])

    def campaign_steps(self, dataset: str, since: datetime, limit: int) -> Steps:
        """Steps of runs of a campaign since its prepare, until the next campaign of the dataset was prepared."""
        return self._steps("campaign_steps", limit, dataset, stored(since), stored(since))

    def increments(self, generation: str, limit: int) -> Steps:
        """Increments that were applied to a generation."""
        return self._steps("increments", limit, generation)

    def _spread(self, run_key: str, measure: Literal["rows", "seconds"]) -> Spread:
        query = filled(self._queries["spread"], measure=quoted(measure))
        return spread_of(self._session.records(query, run_key, SPREAD_SAMPLES, SPREAD_SAMPLES, seconds=_SECONDS))

    def _steps(self, query: str, *values: object) -> Steps:
        return steps_of([{**row, "facts": json.loads(row["facts"])} for row in self._rows(query, *values)])

    def _rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        return [read(row) for row in self._session.records(self._queries[query], *values, seconds=_SECONDS)]
