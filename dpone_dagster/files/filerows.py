"""A state file's plain data as records, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from dpone_dagster.campaign.history import StepRecord
from dpone_dagster.campaign.ledger import LOADABLE, CampaignRecord, ChunkRecord, ChunkState, Phase
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.staterows import campaign_record, campaign_row, chunk_record
from dpone_dagster.campaign.vitals import Loading, Vitals
from dpone_dagster.files.statefile import FORMAT, VERSION, Document

_NEVER_CLAIMED = dict.fromkeys(
    (
        "worker_run_id",
        "worker_lane",
        "worker_host",
        "worker_pid",
        "session_id",
        "session_login_at",
        "lease_expires_at",
        "rows",
        "seconds",
        "receipt_id",
        "started_at",
        "finished_at",
        "error_code",
        "error",
        "failed_run_id",
    )
)
_CHUNK_TIMES = ("lease_expires_at", "started_at", "finished_at")
_RECEIPT = tuple(field.name for field in fields(ChunkReceipt))


def now() -> datetime:
    """This machine's clock: all who share a state file are on it."""
    return datetime.now(UTC)


def new_document(record: CampaignRecord, chunks: list[dict[str, Any]]) -> Document:
    """A campaign's file as it begins.

    Args:
        record: The campaign.
        chunks: Its chunks, as `new_chunk`.
    """
    made = now().isoformat()
    row = {**campaign_row(record), "created_at": made, "updated_at": made}
    taken = record.anchor.taken_at if record.anchor else None
    row["anchor_taken_at"] = None if taken is None else taken.isoformat()
    return {"format": FORMAT, "version": VERSION, "campaign": row, "chunks": chunks}


def record_of(document: Document) -> CampaignRecord:
    """The campaign of a file."""
    row = document["campaign"]
    return campaign_record(_timed(row, ("created_at", "updated_at", "anchor_taken_at")))


def new_chunk(chunk: Chunk) -> dict[str, Any]:
    """A chunk that nobody has claimed."""
    bounds = {"lower": chunk.lower, "upper": chunk.upper, "upper_inclusive": chunk.upper_inclusive}
    return {"chunk_index": chunk.index, "state": "pending", "epoch": 0, "tries": 0, **bounds}


def chunk_of(row: Mapping[str, Any]) -> ChunkRecord:
    """The chunk of a row; its expiry is derived."""
    timed = {**_NEVER_CLAIMED, **_timed(row, _CHUNK_TIMES)}
    lease = timed["lease_expires_at"]
    return chunk_record({**timed, "expired": lease is not None and lease <= now()})


def receipt_row(receipt: ChunkReceipt) -> dict[str, Any]:
    """A receipt as plain data."""
    committed = receipt.committed_at or now()
    return {**asdict(receipt), "committed_at": committed.isoformat()}


def receipt_of(row: Mapping[str, Any]) -> ChunkReceipt:
    """The receipt of a row, whatever else that has."""
    timed = _timed(row, ("committed_at",))
    return ChunkReceipt(**{name: timed[name] for name in _RECEIPT})


def steps_of(document: Document, dataset: str) -> list[StepRecord]:
    """The steps of a file's campaign runs, oldest first.

    Args:
        document: Empty for none.
        dataset: The manifest's name.
    """
    loads = document.get("loads", {})
    own = {key for key, load in loads.items() if (load["dataset"], load["kind"]) == (dataset, "campaign")}
    return [
        StepRecord(
            run_id=loads[step["load_id"]]["run_id"],
            step=step["step"],
            status=step["status"],
            seconds=step["seconds"],
            recorded_at=datetime.fromisoformat(step["recorded_at"]),
            facts=step["facts"],
        )
        for step in document.get("load_steps", [])
        if step["load_id"] in own
    ]


def counters(chunks: Sequence[ChunkRecord]) -> Progress:
    """The counters over these chunks.

    Args:
        chunks: As they stand now.
    """
    counted = Counter(str(chunk.effective_state) for chunk in chunks)
    committed = [chunk for chunk in chunks if chunk.state is ChunkState.COMMITTED]
    rows = sum(chunk.rows or 0 for chunk in committed)
    return Progress(
        **{str(state): counted[str(state)] for state in ChunkState},
        rows_extracted=rows,
        rows_loaded=rows,
        busy_seconds=sum(chunk.seconds or 0.0 for chunk in committed),
        wall_seconds=_wall_seconds(chunks, now() if counted["running"] else _latest(committed)),
    )


def _wall_seconds(chunks: Sequence[ChunkRecord], until: datetime | None) -> float:
    started = min((chunk.started_at for chunk in chunks if chunk.started_at), default=None)
    return max((until - started).total_seconds(), 0.0) if until and started else 0.0


def _latest(chunks: Sequence[ChunkRecord]) -> datetime | None:
    return max((chunk.finished_at for chunk in chunks if chunk.finished_at), default=None)


def vitals_in(document: Document | None) -> Vitals:
    """What a file says of its campaign; no publication is in it.

    Args:
        document: None where there is no file.
    """
    if not document:
        return Vitals(now())
    record = record_of(document)
    loading = _loading([chunk_of(row) for row in document["chunks"]]) if record.phase in LOADABLE else None
    validation = record.validation if record.phase is Phase.BLOCKED else None
    return Vitals(now(), record.phase, record.updated_at, loading, validation)


def _loading(chunks: Sequence[ChunkRecord]) -> Loading:
    claimed = max((chunk.started_at for chunk in chunks if chunk.started_at), default=None)
    lapsed = [chunk.lease_expires_at for chunk in chunks if chunk.lease_expired and chunk.lease_expires_at]
    moves = [at for at in (claimed, _latest(chunks)) if at is not None]
    started = min((chunk.started_at for chunk in chunks if chunk.started_at), default=None)
    return Loading(counters(chunks), started, max(moves, default=None), min(lapsed, default=None))


def _timed(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The row with these texts as times."""
    times = {name: row.get(name) for name in names}
    return {**row, **{name: None if text is None else datetime.fromisoformat(text) for name, text in times.items()}}
