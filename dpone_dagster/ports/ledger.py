"""The ledger: campaign, chunk and receipt rows, and the rows of the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkRecord, Claim, Neighbour, Phase, Worker
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import Plan
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.receipts import ChunkReceipt, DigestTotals, ReceiptTotals
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.vitals import Vitals, Watched


class Ledger(Protocol):
    """Campaign, chunk and receipt rows. Every move is one compare-and-set with a checked row count."""

    def provisioned(self) -> bool:
        """Whether the state tables are there, at a version this program can use.

        Raises:
            StateVersionOlder: An older program made them.
            StateVersionNewer: A newer program made them.
            RightsMissing: The login may not read them, where the server tells.
        """
        ...

    def provision(self) -> None:
        """Create or upgrade the state tables, idempotently, under a lock."""
        ...

    def campaign(self, run_key: str, *, lock: bool = False) -> CampaignRecord | None:
        """Read the committed campaign row; `lock` keeps it until the transaction ends."""
        ...

    def neighbours(self, target: TableRef) -> list[Neighbour]:
        """The target's campaigns that are not finished, cancelled ones among them, in every state schema by run key.

        The state tables need not be there. Lanes of a cancelled campaign may still be draining, so only its lock tells
        whether it is nobody's work.

        Raises:
            RightsMissing: Another schema's campaigns may not be read.
            StateElsewhere: The server has the state schema under another spelling, whose locks are others.
        """
        ...

    def create(self, record: CampaignRecord, plan: Plan) -> None:
        """Insert the campaign and all its chunks, in constant memory, in the caller's transaction."""
        ...

    def move(self, run_key: str, old: frozenset[Phase], new: Phase, **changes: object) -> bool:
        """CAS on the phase; `changes` are further `CampaignRecord` fields. False if the phase was not in `old`.

        A move to `published` also requires that no cancel is recorded.
        """
        ...

    def set_stop(self, run_key: str, reason: str | None) -> None:
        """Set (or, with None, clear) the stop token."""
        ...

    def cancel(self, run_key: str, reason: str, requested_by: str) -> bool:
        """Record a cancel and move to `cancelled`; False if published already."""
        ...

    def candidates(
        self, run_key: str, worker: Worker, selection: ChunkSelection, *, failed_only: bool, limit: int
    ) -> list[ChunkRecord]:
        """Chunks this worker might claim, spread by lane number.

        Pending, failed (not in this very run), lease_expired, and running ones of others: their lock decides.
        """
        ...

    def claim(self, run_key: str, seen: ChunkRecord, worker: Worker) -> Claim | None:
        """CAS (state, epoch) as seen → running, epoch + 1, if the campaign's phase allows loading.

        The chunk's lock must be held by this session. None if somebody was faster, the campaign takes no claims, or a
        newer program has upgraded the state since.
        """
        ...

    def renew(self, claim: Claim) -> bool:
        """Extend the lease by 90 s; False if the epoch is no longer ours."""
        ...

    def complete(self, claim: Claim, receipt: ChunkReceipt, seconds: float) -> bool:
        """CAS running → committed; False if the epoch is no longer ours."""
        ...

    def fail(self, claim: Claim, error: DponeError, *, stop: bool) -> bool:
        """CAS running → failed with code and message; with `stop` also set the campaign's stop token."""
        ...

    def give_back(self, claim: Claim) -> bool:
        """CAS running → pending: nothing was written and nobody is to blame (an interrupt)."""
        ...

    def progress(self, run_key: str, selection: ChunkSelection | None = None) -> Progress:
        """Counters, aggregated by the server, from tallies where they cover whole blocks.

        What it reads grows with the blocks of 1,000 chunks and with what was claimed and is not committed.
        """
        ...

    def count_chunks(self, run_key: str) -> tuple[int, int]:
        """All chunk rows and the committed ones, counted one by one."""
        ...

    def recount(self, run_key: str) -> None:
        """Count the committed chunks anew where their tallies say otherwise; nobody is at work."""
        ...

    def vitals(self, watched: Sequence[Watched]) -> list[Vitals]:
        """What the state tables say of each, in one statement however many there are; in the order given."""
        ...

    def chunks(
        self, run_key: str, selection: ChunkSelection, *, only: Sequence[str] = (), limit: int | None = None
    ) -> list[ChunkRecord]:
        """Chunk rows of the selection in these effective states (all if empty), by index, at most `limit`."""
        ...

    def receipt(self, run_key: str, chunk_index: int) -> ChunkReceipt | None:
        """The committed receipt of a chunk; final if the chunk's lock is held."""
        ...

    def receipt_totals(self, record: CampaignRecord) -> ReceiptTotals:
        """Sums over all receipts of the campaign."""
        ...

    def digest_totals(self, run_key: str, limit: int) -> DigestTotals:
        """Sums over the digests that receipts note, and at most `limit` chunks that note two different ones."""
        ...

    def start_load(self, load_id: str, dataset: str, kind: str, run_id: str) -> None:
        """Open a row in `__dpone__loads`, or leave the one that is there."""
        ...

    def finish_load(self, load_id: str, status: str, facts: Mapping[str, object]) -> None:
        """Close it."""
        ...

    def record_step(self, load_id: str, step: str, status: str, seconds: float, facts: Mapping[str, object]) -> None:
        """Append a row to `__dpone__load_steps`."""
        ...
