"""What is true when the campaign is over: counted, digested and read from state tables, never taken from its report."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate

from certify.measurements import LARGE_CHUNK_ROWS, Publication, Seen, State, Times
from certify.orders import LIVE, OLD_ROWS, SOURCE
from certify.procedure import Campaign
from certify.route import Route
from demo.reader import Observations
from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkRecord, ChunkState
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.selection import EVERY_CHUNK
from dpone_dagster.engine.sessions import existing_campaign, source_session, target_session
from dpone_dagster.ports.target import Target

_PURPOSE = "certify"


def seen_by(observed: Observations) -> Seen:
    """What the reader saw, as it stands in the report."""
    return Seen(
        looks=observed.looks,
        states=tuple(State(old_rows=s.old_rows, new_rows=s.new_rows) for s in observed.states),
        errors=tuple(observed.errors),
        longest_look_seconds=observed.longest_look_seconds,
        last_look_seconds=observed.last_look_seconds,
    )


def of_state(campaign: Campaign) -> Mapping[str, object]:
    """What ledger, receipts and publications of the target say."""
    spec = campaign.spec
    with target_session(campaign.connector, _PURPOSE) as target:
        record = existing_campaign(spec, target)
        chunks = target.ledger.chunks(spec.run_key, EVERY_CHUNK)
        receipts = {chunk.index: target.ledger.receipt(spec.run_key, chunk.index) for chunk in chunks}
        totals = target.ledger.receipt_totals(record)
        publication = _publication(target, record)
    return {
        "chunks": record.chunk_count,
        "committed_chunks": sum(chunk.state is ChunkState.COMMITTED for chunk in chunks),
        "lanes": most_at_once(
            [(c.started_at, c.finished_at) for c in chunks if c.started_at is not None and c.finished_at is not None]
        ),
        "receipts": totals.receipts,
        "receipt_rows": totals.rows,
        "foreign_receipts": totals.foreign,
        "chunks_with_receipt": sum(_is_named(chunk, receipts[chunk.index]) for chunk in chunks),
        "publication": publication,
        **_times(chunks, receipts),
    }


def of_rows(campaign: Campaign, route: Route) -> Mapping[str, object]:
    """What the rows themselves say, on both servers."""
    source_rows, _ = route.source.rows_and_keys(SOURCE)
    target_rows, target_keys = route.target.rows_and_keys(LIVE)
    backup_rows, _ = route.target.rows_and_keys(campaign.spec.backup)
    with (
        source_session(campaign.connector, _PURPOSE) as source,
        target_session(campaign.connector, _PURPOSE) as target,
    ):
        contract = ColumnContract.from_dict(existing_campaign(campaign.spec, target).contract)
        digests = source.content_digest(SOURCE, contract), target.tables.content_digest(LIVE, contract)
    return {
        "source_rows": source_rows,
        "target_rows": target_rows,
        "target_keys": target_keys,
        "old_rows": OLD_ROWS,
        "backup_rows": backup_rows,
        "source_digest": digests[0],
        "target_digest": digests[1],
    }


def times_of(chunks: Sequence[tuple[int, float]]) -> Times | None:
    """How long chunks took.

    Args:
        chunks: (rows, seconds) of each.

    Returns:
        None if there is none.
    """
    if not chunks:
        return None
    seconds = sorted(duration for _, duration in chunks)
    return Times(
        chunks=len(seconds),
        fewest_rows=min(rows for rows, _ in chunks),
        median_seconds=round(statistics.median(seconds), 3),
        p95_seconds=round(seconds[math.ceil(0.95 * len(seconds)) - 1], 3),
        max_seconds=round(seconds[-1], 3),
    )


def most_at_once(spans: Sequence[tuple[datetime, datetime]]) -> int:
    """How many there were at the moment with the most of them; one that ends as another begins is not beside it.

    Args:
        spans: Begin and end of each.
    """
    steps = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    return max(accumulate((step for _, step in steps), initial=0))


def _times(chunks: Sequence[ChunkRecord], receipts: Mapping[int, ChunkReceipt | None]) -> Mapping[str, Times | None]:
    """Of chunks that were read and written by the try that committed them."""
    measured: list[tuple[int, float]] = []
    for chunk in chunks:
        receipt = receipts[chunk.index]
        if receipt is not None and receipt.epoch == chunk.epoch and chunk.seconds is not None:
            measured.append((receipt.rows, chunk.seconds))
    large = [(rows, seconds) for rows, seconds in measured if rows >= LARGE_CHUNK_ROWS]
    return {"chunk_times": times_of(measured), "large_chunk_times": times_of(large)}


def _is_named(chunk: ChunkRecord, receipt: ChunkReceipt | None) -> bool:
    return receipt is not None and (receipt.receipt_id, receipt.rows) == (chunk.receipt_id, chunk.rows)


def _publication(target: Target, record: CampaignRecord) -> Publication | None:
    mine, head = target.publications.of_campaign(record.run_key), target.publications.head(record.target)
    if mine is None or head is None:
        return None
    checkpoint = target.publications.checkpoint(record.target, mine.generation)
    closed = head.receipt_id == mine.receipt_id and mine.head == "closed" and checkpoint is not None
    # A target's receipts are numbered without a gap, and its schema was not there before.
    return Publication(phase=str(record.phase), publications=head.sequence, handoff_closed=closed)
