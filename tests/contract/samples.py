"""Records that the contract tests work on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract
from dpone_dagster.campaign.ledger import CampaignRecord, Claim, Worker
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import ChunkSpec, Plan
from dpone_dagster.campaign.receipts import ChunkReceipt, PublicationReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.watermark import Anchor, Checkpoint, SourceIdentity
from tests.contract.conftest import RUN_KEY, Parts

TARGET = TableRef("landing", "orders")
SERVER = SourceIdentity("7345678901234567890", 1, 16_384)
ANCHOR = Anchor(5_000_000_000, SERVER, datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC))
CONTRACT = ColumnContract(
    (
        ColumnBinding("id", "id", "integer", "integer"),
        ColumnBinding("note", "note", "text", "text"),
        ColumnBinding("detail", "detail", "json", "json"),
    ),
    ("id",),
)


def plan(chunks: int) -> Plan:
    return Plan(ChunkSpec("integer", "id", "0", str(chunks * 10 - 1), "10"))


def worker(lane: int = 0, run_id: str = "run-1") -> Worker:
    return Worker(run_id, lane, "host-1", 4_000 + lane)


def campaign(chunks: int, **changes: object) -> CampaignRecord:
    record = CampaignRecord(
        run_key=RUN_KEY,
        dataset="orders",
        backfill_id="orders_1",
        target=TARGET,
        shadow=TARGET.sibling("orders__dpone_shadow_1"),
        backup=TARGET.sibling("orders__dpone_backup_1"),
        chunk_count=chunks,
        plan_hash="plan",
        config_hash="config",
        contract=CONTRACT.as_dict(),
        contract_hash=CONTRACT.sha256,
        source_digest="source",
        shadow_digest="shadow",
        object_contract={"columns": [{"name": "naïve 😀", "width": 1.5, "default": None}]},
        object_contract_sha256="object",
        live_object_id=4_000_000_000,
        live_generation=None,
        predecessor_receipt=None,
        shadow_object_id=17,
        digest_key="00ff",
        anchor=ANCHOR,
        diagnostics={"unknown": {"kept": [1, "two"]}},
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def start(target: Parts, chunks: int = 4) -> CampaignRecord:
    """Provision the state and create a campaign with this many chunks."""
    record = campaign(chunks)
    target.ledger.provision()
    with target.transaction():
        target.ledger.create(record, plan(chunks))
    return record


def claim(target: Parts, index: int, lane: int = 0, run_id: str = "run-1") -> Claim:
    """Lock and claim one chunk, which must be free."""
    assert target.fence.try_lock_chunk(RUN_KEY, index)
    (seen,) = target.ledger.chunks(RUN_KEY, ChunkSelection(((index, index + 1),)))
    claimed = target.ledger.claim(RUN_KEY, seen, worker(lane, run_id))
    assert claimed is not None
    return claimed


def receipt(index: int, rows: int = 10) -> ChunkReceipt:
    return ChunkReceipt(RUN_KEY, index, f"receipt-{index}", "plan", CONTRACT.sha256, "binding", 1, rows)


def publication(sequence: int = 1, **changes: object) -> PublicationReceipt:
    made = PublicationReceipt(
        receipt_id=f"publication-{sequence}",
        target=str(TARGET),
        sequence=sequence,
        kind="publish",
        run_key=f"run-key-{sequence}",
        generation=f"generation-{sequence}",
        predecessor_receipt=f"publication-{sequence - 1}" if sequence > 1 else None,
        live_object_id=4_000_000_001,
        backup="landing.orders__dpone_backup_1",
        expected_rows=5_000_000_000,
        actual_rows=5_000_000_000,
        object_contract_sha256="object",
        head="pending",
        handoff_id="orders_v1",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def checkpoint(sequence: int = 1, **changes: object) -> Checkpoint:
    made = Checkpoint(
        handoff_id="orders_v1",
        target=str(TARGET),
        generation=f"generation-{sequence}",
        publication_receipt=f"publication-{sequence}",
        anchor=ANCHOR,
        revision=1,
        reconciled=False,
    )
    return replace(made, **changes)  # type: ignore[arg-type]
