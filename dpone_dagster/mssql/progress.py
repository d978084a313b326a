"""A campaign's counters on SQL Server, from small statements: whole blocks, what lies beside them, what is in hand.

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
from dpone_dagster.mssql.session import Session

_FILE = "ledger.sql"


def progress_of(session: Session, state_schema: str, run_key: str, selection: ChunkSelection) -> Progress:
    """The counters of these chunks.

    Args:
        session: The connection.
        state_schema: Where the state tables are.
        run_key: The campaign; zeros if there is none.
        selection: Any chunks, more than there are too.
    """
    queries, cut = load(_FILE, state_schema), TalliedRanges.of(selection.ranges)
    chunks = session.row(queries["planned"], run_key)
    sums = [
        session.records(queries[query], json_ranges(ranges), run_key)[0]
        for query, ranges in (("tallied", cut.blocks), ("beside_blocks", cut.edges))
        if ranges
    ]
    begun = session.records(queries["begun"], json_ranges(selection.ranges), run_key)
    number = dict.fromkeys(ChunkState, 0)
    for row in begun:
        number[_shown(row)] += int(row["number"])
    committed, rows = (sum(int(each[name] or 0) for each in sums) for name in ("committed", "rows_loaded"))
    in_hand = number[ChunkState.RUNNING], number[ChunkState.FAILED], number[ChunkState.LEASE_EXPIRED]
    return Progress(
        pending=_planned(selection, int(chunks[0]) if chunks else 0) - committed - sum(in_hand),
        running=in_hand[0],
        committed=committed,
        failed=in_hand[1],
        lease_expired=in_hand[2],
        rows_extracted=rows,
        rows_loaded=rows,
        busy_seconds=sum(float(each["busy_seconds"] or 0) for each in sums),
        wall_seconds=_wall_seconds(sums, begun),
    )


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
