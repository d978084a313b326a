"""One chunk, step by step: probe the receipt, read, write rows and receipt, move the ledger."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import (
    ConnectionLost,
    DponeError,
    OutcomeUnknown,
    ReceiptMismatch,
)
from dpone_dagster.campaign.identity import sha256_of
from dpone_dagster.campaign.ledger import CampaignRecord, Claim
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.engine.lane import LaneSessions
from dpone_dagster.engine.outcome import said
from dpone_dagster.faultpoints import reach
from dpone_dagster.ports.source import ChunkRead
from dpone_dagster.ports.tables import ChunkWrite

_TRIES = 3
_RETRY_WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class ChunkDone:
    """A committed chunk. `replayed` if its receipt was there before and nothing was read."""

    receipt: ChunkReceipt
    replayed: bool


def load_chunk(sessions: LaneSessions, chunk: Chunk, claim: Claim) -> ChunkDone:
    """Bring one claimed chunk to `committed`. Up to three tries for what a server says may be tried again.

    Raises:
        ReceiptMismatch: A receipt of another plan is there; it stops the campaign.
        LeaseLost: The chunk is another worker's.
        Interrupted: The lane has to stop.
        DponeError: The chunk's own failure; nothing of it was kept.
    """
    sessions.hold(claim)
    tries = 0
    while True:
        tries += 1
        try:
            return _attempt(sessions, chunk, claim, first=tries == 1)
        except DponeError as error:
            sessions.heartbeat.check()  # a statement that was cut shows as an error of its own
            if not error.retryable or tries == _TRIES:
                raise
            if isinstance(error, (ConnectionLost, OutcomeUnknown)):
                claim = sessions.reclaim(claim)
                if isinstance(error, OutcomeUnknown):
                    said(f"chunk {chunk.index}", sessions.target.ledger.receipt(claim.run_key, chunk.index))
            else:
                time.sleep(_RETRY_WAIT_SECONDS)


def _attempt(sessions: LaneSessions, chunk: Chunk, claim: Claim, *, first: bool) -> ChunkDone:
    started = time.monotonic()
    reach("after_claim", chunk.index)
    if not (first and claim.is_first):
        sessions.target.tables.drop_dead_stages(sessions.record.shadow, claim.run_key, chunk.index)
    found = _probe(sessions, chunk, claim)
    receipt = found or _transfer(sessions, chunk, claim)
    sessions.finish(claim, receipt, time.monotonic() - started)
    return ChunkDone(receipt, replayed=first and found is not None)


def _probe(sessions: LaneSessions, chunk: Chunk, claim: Claim) -> ChunkReceipt | None:
    """The receipt, if the chunk is loaded: final, because we hold the chunk's lock."""
    receipt = sessions.target.ledger.receipt(claim.run_key, chunk.index)
    if receipt is None:
        return None
    record = sessions.record
    expected = (record.plan_hash, record.contract_hash, binding_of(chunk, record))
    if (receipt.plan_hash, receipt.contract_hash, receipt.binding) != expected:
        raise ReceiptMismatch(f"chunk {chunk.index} has a receipt of another plan")
    return receipt


def binding_of(chunk: Chunk, record: CampaignRecord) -> str:
    """What a chunk's receipt vouches for: its own range under the campaign's projection."""
    return sha256_of([chunk.kind, chunk.lower, chunk.upper, chunk.upper_inclusive, record.contract_hash])


def _transfer(sessions: LaneSessions, chunk: Chunk, claim: Claim) -> ChunkReceipt:
    record = sessions.record
    contract = ColumnContract.from_dict(record.contract)
    read = ChunkRead(
        table=sessions.spec.source,
        chunk=chunk,
        chunk_column=sessions.spec.chunk.column,
        contract=contract,
        source_digest=record.source_digest,
        anchor=record.anchor,
        digest_key=record.digest_key,
        wire=sessions.target.wire,
        label=f"{record.run_key[:12]} chunk={chunk.index} epoch={claim.epoch}",
        digested=sessions.spec.digested,
    )
    write = ChunkWrite(
        table=record.shadow,
        object_id=record.shadow_object_id,
        digest=record.shadow_digest,
        contract=contract,
        plan_hash=record.plan_hash,
        binding=binding_of(chunk, record),
        live=sessions.spec.live_slice(chunk),
        digested=sessions.spec.digested,
        source_has_rows=partial(
            sessions.source.has_rows, sessions.spec.source, sessions.spec.chunk.column, sessions.spec.plan
        ),
    )
    with sessions.source.read_chunk(read) as stream:
        return sessions.target.tables.write_chunk(claim, write, stream)
