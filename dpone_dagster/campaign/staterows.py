"""State rows: the records of ledger and publications as columns by name, and back, in plain values.

Times carry their zone and JSON columns are plain data here. An adapter turns these into what its driver takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkRecord, ChunkState, Neighbour, Phase, Worker
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.receipts import ChunkReceipt, PublicationReceipt
from dpone_dagster.campaign.watermark import Anchor, Checkpoint, SourceIdentity

Row = Mapping[str, Any]
SLICES = "slices"  # where a campaign's diagnostics have which rows of the live table it writes

_TABLES = ("target", "shadow", "backup")
_SERVER_TIMES = ("created_at", "updated_at")
# Columns that bear the field's name and hold its value.
_PLAIN = tuple(
    field.name for field in fields(CampaignRecord) if field.name not in {*_TABLES, *_SERVER_TIMES, "anchor", "phase"}
)
# What the server, or a later statement, fills in.
_LATER = frozenset({"published_at", "backup_dropped_at", "backup_dropped_by"})
_PUBLICATION = tuple(field.name for field in fields(PublicationReceipt))
_CHECKPOINT = tuple(field.name for field in fields(Checkpoint) if field.name != "anchor")


def campaign_row(record: CampaignRecord) -> dict[str, object]:
    """The columns of a campaign that a writer gives; its times are the server's."""
    row = {name: getattr(record, name) for name in _PLAIN}
    for name in _TABLES:
        table: TableRef = getattr(record, name)
        row |= {f"{name}_schema": table.schema, f"{name}_name": table.name}
    return {**row, "phase": str(record.phase), **anchor_row(record.anchor)}


def campaign_record(row: Row) -> CampaignRecord:
    """The campaign of a row."""
    tables: dict[str, Any] = {name: TableRef(row[f"{name}_schema"], row[f"{name}_name"]) for name in _TABLES}
    return CampaignRecord(
        **{name: row[name] for name in (*_PLAIN, *_SERVER_TIMES)},
        **tables,
        anchor=anchor_of(row),
        phase=Phase(row["phase"]),
    )


def neighbour(row: Row, elsewhere: str | None) -> Neighbour:
    """The campaign of a row, for others of its target.

    Args:
        row: With these columns of a campaign.
        elsewhere: The other state schema that it is in.
    """
    direct = (row["shadow_schema"], row["shadow_name"]) == (row["target_schema"], row["target_name"])
    said = row["diagnostics"].get(SLICES) if direct else None
    slices = said if isinstance(said, Mapping) else None
    plain = {name: row[name] for name in ("run_key", "dataset", "backfill_id", "phase")}
    return Neighbour(**plain, direct=direct, slices=slices, elsewhere=elsewhere)


def anchor_row(anchor: Anchor | None) -> dict[str, object]:
    """The columns of an anchor; all NULL for none."""
    identity = anchor.identity if anchor else None
    return {
        "anchor_xid": anchor.xid if anchor else None,
        "anchor_system_identifier": identity.system_identifier if identity else None,
        "anchor_timeline": identity.timeline if identity else None,
        "anchor_database_oid": identity.database_oid if identity else None,
        "anchor_taken_at": anchor.taken_at if anchor else None,
    }


def anchor_of(row: Row) -> Anchor | None:
    """The anchor of a row."""
    if row["anchor_xid"] is None:
        return None
    identity = SourceIdentity(row["anchor_system_identifier"], row["anchor_timeline"], row["anchor_database_oid"])
    return Anchor(row["anchor_xid"], identity, row["anchor_taken_at"])


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
        session_login_at=row["session_login_at"],
        lease_expires_at=row["lease_expires_at"],
        lease_expired=state is ChunkState.RUNNING and bool(row["expired"]),
        rows=row["rows"],
        seconds=row["seconds"],
        receipt_id=row["receipt_id"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        error_code=row["error_code"],
        error=row["error"],
        failed_run_id=row["failed_run_id"],
    )


def receipt_record(row: Row) -> ChunkReceipt:
    """The receipt of a row, whose columns bear the fields' names."""
    return ChunkReceipt(**row)


def publication_row(receipt: PublicationReceipt) -> dict[str, object]:
    """The columns of a publication that a writer gives."""
    return {name: getattr(receipt, name) for name in _PUBLICATION if name not in _LATER}


def publication_of(row: Row | None) -> PublicationReceipt | None:
    """The publication of a row, if there is one."""
    return None if row is None else PublicationReceipt(**{name: row[name] for name in _PUBLICATION})


def checkpoint_row(checkpoint: Checkpoint) -> dict[str, object]:
    """The columns of a checkpoint."""
    return {**{name: getattr(checkpoint, name) for name in _CHECKPOINT}, **anchor_row(checkpoint.anchor)}


def checkpoint_of(row: Row) -> Checkpoint:
    """The checkpoint of a row.

    Raises:
        DponeError: It has no anchor.
    """
    anchor = anchor_of(row)
    if anchor is None:
        raise DponeError(f"the checkpoint of {row['target']} has no anchor")
    return Checkpoint(**{name: row[name] for name in _CHECKPOINT}, anchor=anchor)
