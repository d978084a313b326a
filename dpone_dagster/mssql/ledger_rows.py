"""Reads and writes the ledger's rows as the domain's records. Times are UTC without a zone in the server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dpone_dagster.campaign.identity import canonical_json
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkRecord, ChunkState, Phase, Worker
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.watermark import Anchor, SourceIdentity

Row = Mapping[str, Any]

# Columns that are fields of the same name on both sides.
_CAMPAIGN_FIELDS = (
    "run_key",
    "dataset",
    "backfill_id",
    "chunk_count",
    "plan_hash",
    "config_hash",
    "contract",
    "contract_hash",
    "source_digest",
    "shadow_digest",
    "object_contract",
    "object_contract_sha256",
    "live_object_id",
    "live_generation",
    "predecessor_receipt",
    "shadow_object_id",
    "digest_key",
    "stop_reason",
    "cancel_reason",
    "cancel_requested_by",
    "seal_horizon",
    "validation",
    "receipt_id",
    "diagnostics",
)
_JSON = frozenset({"contract", "object_contract", "validation", "diagnostics"})
_TABLES = ("target", "shadow", "backup")

# What a move may change besides the phase.
CHANGEABLE = (
    "stop_reason",
    "cancel_reason",
    "cancel_requested_by",
    "seal_horizon",
    "validation",
    "receipt_id",
    "diagnostics",
)


def utc(moment: datetime | None) -> datetime | None:
    """A time as the server keeps it, with its zone."""
    return None if moment is None else moment.replace(tzinfo=UTC)


def utc_text(moment: datetime | None) -> str | None:
    """A time as the server reads it: a driver's own form of it loses digits on some servers."""
    return None if moment is None else moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")


def column_value(name: str, value: object) -> object:
    """A field's value as its column takes it."""
    return canonical_json(value) if name in _JSON and value is not None else value


def campaign_row(record: CampaignRecord) -> dict[str, object]:
    """The columns of a campaign."""
    row = {name: column_value(name, getattr(record, name)) for name in _CAMPAIGN_FIELDS}
    for name in _TABLES:
        table: TableRef = getattr(record, name)
        row |= {f"{name}_schema": table.schema, f"{name}_name": table.name}
    return {**row, "phase": str(record.phase), **anchor_row(record.anchor)}


def campaign_record(row: Row) -> CampaignRecord:
    """The campaign of a row."""
    tables: dict[str, Any] = {name: TableRef(row[f"{name}_schema"], row[f"{name}_name"]) for name in _TABLES}
    return CampaignRecord(
        **{name: _field(name, row[name]) for name in _CAMPAIGN_FIELDS},
        **tables,
        anchor=anchor_of(row),
        phase=Phase(row["phase"]),
        created_at=utc(row["created_at"]),
        updated_at=utc(row["updated_at"]),
    )


def _field(name: str, value: Any) -> Any:
    return json.loads(value) if name in _JSON and value is not None else value


def anchor_row(anchor: Anchor | None) -> dict[str, object]:
    """The columns of an anchor; all NULL for none."""
    identity = anchor.identity if anchor else None
    return {
        "anchor_xid": anchor.xid if anchor else None,
        "anchor_system_identifier": identity.system_identifier if identity else None,
        "anchor_timeline": identity.timeline if identity else None,
        "anchor_database_oid": identity.database_oid if identity else None,
        "anchor_taken_at": utc_text(anchor.taken_at) if anchor else None,
    }


def anchor_of(row: Row) -> Anchor | None:
    """The anchor of a row."""
    if row["anchor_xid"] is None:
        return None
    identity = SourceIdentity(row["anchor_system_identifier"], row["anchor_timeline"], row["anchor_database_oid"])
    return Anchor(row["anchor_xid"], identity, row["anchor_taken_at"].replace(tzinfo=UTC))


def chunk_record(row: Row) -> ChunkRecord:
    """The chunk of a row that has `expired` besides the table's columns."""
    state = ChunkState(row["state"])
    worker = None
    if row["worker_run_id"] is not None:
        worker = Worker(row["worker_run_id"], row["worker_lane"], row["worker_host"], row["worker_pid"])
    return ChunkRecord(
        index=row["chunk_index"],
        state=state,
        epoch=row["epoch"],
        tries=row["tries"],
        worker=worker,
        session_id=row["session_id"],
        session_login_at=utc(row["session_login_at"]),
        lease_expires_at=utc(row["lease_expires_at"]),
        lease_expired=state is ChunkState.RUNNING and bool(row["expired"]),
        rows=row["rows"],
        seconds=row["seconds"],
        receipt_id=row["receipt_id"],
        started_at=utc(row["started_at"]),
        finished_at=utc(row["finished_at"]),
        error_code=row["error_code"],
        error=row["error"],
        failed_run_id=row["failed_run_id"],
    )


def receipt_record(row: Row) -> ChunkReceipt:
    """The receipt of a row, whose columns bear the fields' names."""
    return ChunkReceipt(**{**row, "nulled": json.loads(row["nulled"]), "committed_at": utc(row["committed_at"])})
