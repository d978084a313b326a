"""A campaign's counters on SQL Server, in one batch: whole blocks, what lies beside them, what is in hand.

What is committed is read before what is in hand: a chunk that is committed in between shows as pending, never twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dpone_dagster.campaign.ledger import ChunkState
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.tallies import TalliedRanges
from dpone_dagster.mssql.queries import load
from dpone_dagster.mssql.session import CONTROL_SECONDS, Session

_FILE = "ledger.sql"


def progress_of(session: Session, state_schema: str, run_key: str, selection: ChunkSelection) -> Progress:
    """The counters of these chunks.

    Args:
        session: The connection.
        state_schema: Where the state tables are.
        run_key: The campaign; zeros if there is none.
        selection: Any chunks, more than there are too.
    """
    cut = TalliedRanges.of(selection.ranges)
    sources = [(query, ranges) for query, ranges in (("tallied", cut.blocks), ("beside_blocks", cut.edges)) if ranges]
    counted = [*sources, ("begun", selection.ranges)]
    batch = progress_batch([query for query, _ in counted], state_schema)
    values = [value for _, ranges in counted for value in (json_ranges(ranges), run_key)]
    (planned, *summed, begun) = session.results(batch, run_key, *values, seconds=len(counted) * CONTROL_SECONDS)
    sums = [rows[0] for rows in summed]
    number = dict.fromkeys(ChunkState, 0)
    for row in begun:
        number[_shown(row)] += int(row["number"])
    committed, rows = (sum(int(each[name] or 0) for each in sums) for name in ("committed", "rows_loaded"))
    in_hand = number[ChunkState.RUNNING], number[ChunkState.FAILED], number[ChunkState.LEASE_EXPIRED]
    return Progress(
        pending=_planned(selection, int(planned[0]["chunk_count"]) if planned else 0) - committed - sum(in_hand),
        running=in_hand[0],
        committed=committed,
        failed=in_hand[1],
        lease_expired=in_hand[2],
        rows_extracted=rows,
        rows_loaded=rows,
        busy_seconds=sum(float(each["busy_seconds"] or 0) for each in sums),
        wall_seconds=_wall_seconds(sums, begun),
    )


def progress_batch(counted: Sequence[str], state_schema: str) -> str:
    """What is asked for a campaign's counters, in one round trip.

    Args:
        counted: `tallied` and `beside_blocks`, either or both, then `begun`.
        state_schema: Where the state tables are.
    """
    queries = load(_FILE, state_schema)
    return ";\n".join(queries[name] for name in ("planned", *counted))


def json_ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """Ranges with their places, as statements take them."""
    return json.dumps([[start, stop, place] for place, (start, stop) in enumerate(ranges)])


def _shown(row: dict[str, Any]) -> ChunkState:
    state = ChunkState(row["state"])
    return ChunkState.LEASE_EXPIRED if state is ChunkState.RUNNING and row["expired"] else state


def _planned(selection: ChunkSelection, chunks: int) -> int:
    return sum(min(stop, chunks) - min(start, chunks) for start, stop in selection.ranges)


def _wall_seconds(sums: list[dict[str, Any]], begun: list[dict[str, Any]]) -> float:
    started = [row["started_at"] for row in (*sums, *begun) if row["started_at"] is not None]
    finished = [row["finished_at"] for row in sums if row["finished_at"] is not None]
    running = [row["now_at"] for row in begun if _shown(row) is ChunkState.RUNNING]
    if not started or not (running or finished):
        return 0.0
    wall: float = (max(running or finished) - min(started)).total_seconds()
    return max(wall, 0.0)
