"""The port `Ledger` on a state file: every move is a compare-and-set under the file's lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dpone_dagster.campaign.errors import DponeError, TooManyChunks
from dpone_dagster.campaign.history import StepRecord
from dpone_dagster.campaign.ledger import (
    CANCELLABLE,
    LEASE_TTL_SECONDS,
    LOADABLE,
    CampaignRecord,
    ChunkRecord,
    ChunkState,
    Claim,
    Neighbour,
    Phase,
    Worker,
    claimable_states,
    failure_text,
    require_move,
)
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import Plan
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.receipts import DIGEST, TARGET_DIGEST, ChunkReceipt, DigestTotals, ReceiptTotals
from dpone_dagster.campaign.selection import EVERY_CHUNK, ChunkSelection
from dpone_dagster.campaign.staterows import campaign_row, neighbour
from dpone_dagster.campaign.vitals import Vitals, Watched
from dpone_dagster.files.filerows import (
    chunk_of,
    counters,
    new_chunk,
    new_document,
    now,
    receipt_of,
    receipt_row,
    record_of,
    steps_of,
    vitals_in,
)
from dpone_dagster.files.statefile import Document, StateFile

MOST_CHUNKS = 10_000
_STEPS_KEPT = 200
_FINISHED = frozenset({Phase.PUBLISHED, Phase.HANDOFF_COMMITTED, Phase.ROLLED_BACK})


class FileLedger:
    """Campaign, chunks and receipts of each campaign in a file of its own.

    Args:
        folder: Where the files are.
        run_key: The campaign at work; its audit rows go into its file.
    """

    def __init__(self, folder: Path, run_key: str) -> None:
        self._folder = folder
        self._run_key = run_key
        self._files: dict[str, StateFile] = {}
        self._claimed: set[tuple[str, int, int]] = set()

    def file(self, run_key: str) -> StateFile:
        """The file of a campaign.

        Args:
            run_key: Its identity.
        """
        return self._files.setdefault(run_key, StateFile(self._folder, run_key))

    def provisioned(self) -> bool:
        """Whether the folder is there."""
        return self._folder.is_dir()

    def provision(self) -> None:
        """Create the folder."""
        with self.file(self._run_key).change():
            pass

    # ------------------------------------------------------------ campaign

    def campaign(self, run_key: str, *, lock: bool = False) -> CampaignRecord | None:  # noqa: ARG002 - see `transaction`
        """Read the campaign; inside a transaction the file is locked anyway."""
        document = self.file(run_key).read()
        return None if not document else record_of(document)

    def neighbours(self, target: TableRef) -> list[Neighbour]:
        """The target's campaigns in this folder that are not finished; the target's lock keeps all others apart."""
        keys = sorted(path.stem for path in self._folder.glob("*.json") if len(path.stem) == len(self._run_key))
        records = (self.campaign(run_key) for run_key in keys)
        rows = (campaign_row(each) for each in records if each and each.target == target)
        return [neighbour(row, None) for row in rows if row["phase"] not in _FINISHED]

    def create(self, record: CampaignRecord, plan: Plan) -> None:
        """Write the campaign and all its chunks at once.

        Raises:
            TooManyChunks: More than a file that is rewritten with every move should hold.
        """
        if record.chunk_count > MOST_CHUNKS:
            raise TooManyChunks(
                f"{record.chunk_count:,} chunks are more than the {MOST_CHUNKS:,} of a `local_file` state",
                next_step="Write a longer `chunk.step`, or `backend: audit_schema`.",
            )
        with self.file(record.run_key).change() as document:
            if document:
                raise DponeError(f"campaign {record.run_key[:12]} is there already")
            document |= new_document(record, [new_chunk(chunk) for chunk in plan])
            if len(document["chunks"]) != record.chunk_count:
                stored = len(document["chunks"])
                document.clear()
                raise DponeError(f"{stored} chunks were stored, not {record.chunk_count}")

    def move(self, run_key: str, old: frozenset[Phase], new: Phase, **changes: object) -> bool:
        """CAS on the phase; a move to `published` also requires that no cancel is recorded."""
        require_move(old, new, changes)
        with self.file(run_key).change() as document:
            campaign = document.get("campaign")
            if campaign is None or Phase(campaign["phase"]) not in old:
                return False
            if new is Phase.PUBLISHED and campaign["cancel_reason"] is not None:
                return False
            campaign |= {**changes, "phase": str(new), "updated_at": _text(now())}
            return True

    def set_stop(self, run_key: str, reason: str | None) -> None:
        """Set (or, with None, clear) the stop token."""
        with self.file(run_key).change() as document:
            if document:
                document["campaign"] |= {"stop_reason": reason, "updated_at": _text(now())}

    def cancel(self, run_key: str, reason: str, requested_by: str) -> bool:
        """Record a cancel and move to `cancelled`; False if published already."""
        with self.file(run_key).change() as document:
            campaign = document.get("campaign")
            if campaign is None or Phase(campaign["phase"]) not in CANCELLABLE:
                return False
            campaign |= {
                "phase": str(Phase.CANCELLED),
                "cancel_reason": campaign["cancel_reason"] or reason,
                "cancel_requested_by": campaign["cancel_requested_by"] or requested_by,
                "updated_at": _text(now()),
            }
            return True

    # ------------------------------------------------------------ chunks

    def candidates(
        self, run_key: str, worker: Worker, selection: ChunkSelection, *, failed_only: bool, limit: int
    ) -> list[ChunkRecord]:
        """Chunks this worker might claim, spread by lane number; running ones of other sessions come last."""
        states = claimable_states(failed_only=failed_only)
        rotated = list(_within(self.file(run_key).read(), selection.seen_from(worker.lane)))
        free = [
            row
            for row in rotated
            if row["state"] in states and (row["state"] != "failed" or row.get("failed_run_id") != worker.run_id)
        ]
        others = [
            row
            for row in rotated
            if row["state"] == "running" and (run_key, row["chunk_index"], row["epoch"]) not in self._claimed
        ]
        taken = [] if failed_only else sorted(others, key=lambda row: row["lease_expires_at"])
        return [chunk_of(row) for row in (free + taken)[:limit]]

    def claim(self, run_key: str, seen: ChunkRecord, worker: Worker) -> Claim | None:
        """CAS (state, epoch) as seen → running, epoch + 1, if the campaign's phase allows loading."""
        with self.file(run_key).change() as document:
            campaign, row = document["campaign"], document["chunks"][seen.index]
            if (row["state"], row["epoch"]) != (str(seen.state), seen.epoch) or seen.state is ChunkState.COMMITTED:
                return None
            stopped = campaign["stop_reason"] is not None or campaign["cancel_reason"] is not None
            if stopped or Phase(campaign["phase"]) not in LOADABLE:
                return None
            started = now()
            row |= {
                "state": "running",
                "epoch": row["epoch"] + 1,
                "tries": row["tries"] + 1,
                "worker_run_id": worker.run_id,
                "worker_lane": worker.lane,
                "worker_host": worker.host,
                "worker_pid": worker.pid,
                "lease_expires_at": _text(started + timedelta(seconds=LEASE_TTL_SECONDS)),
                "started_at": _text(started),
                "finished_at": None,
            }
            if campaign["phase"] != str(Phase.LOADING):
                campaign |= {"phase": str(Phase.LOADING), "updated_at": _text(started)}
            claimed = Claim(run_key, seen.index, row["epoch"], worker)
        self._claimed.add((run_key, seen.index, claimed.epoch))
        return claimed

    def renew(self, claim: Claim) -> bool:
        """Extend the lease by 90 s; False if the epoch is no longer ours."""
        return self._moved(claim, {"lease_expires_at": _text(now() + timedelta(seconds=LEASE_TTL_SECONDS))})

    def complete(self, claim: Claim, receipt: ChunkReceipt, seconds: float) -> bool:
        """CAS running → committed, with the receipt; False if the epoch is no longer ours."""
        done = {
            "state": "committed",
            "rows": receipt.rows,
            "seconds": seconds,
            "receipt_id": receipt.receipt_id,
            "finished_at": _text(now()),
            "lease_expires_at": None,
            "error_code": None,
            "error": None,
            "failed_run_id": None,
            "receipt": receipt_row(receipt),
        }
        return self._moved(claim, done)

    def fail(self, claim: Claim, error: DponeError, *, stop: bool) -> bool:
        """CAS running → failed with code and message; with `stop` also set the campaign's stop token."""
        with self.file(claim.run_key).change() as document:
            failed = {
                "state": "failed",
                "error_code": error.code,
                "error": failure_text(error),
                "failed_run_id": claim.worker.run_id,
                "finished_at": _text(now()),
                "lease_expires_at": None,
            }
            if not self._moved(claim, failed):
                return False
            if stop:
                campaign = document["campaign"]
                reason = campaign["stop_reason"] or claim.stop_reason(error)
                campaign |= {"stop_reason": reason, "updated_at": _text(now())}
            return True

    def give_back(self, claim: Claim) -> bool:
        """CAS running → pending: nothing was written and nobody is to blame (an interrupt)."""
        return self._moved(claim, {"state": "pending", "lease_expires_at": None})

    def _moved(self, claim: Claim, changes: Mapping[str, object]) -> bool:
        with self.file(claim.run_key).change() as document:
            row = document["chunks"][claim.chunk_index]
            if (row["state"], row["epoch"]) != ("running", claim.epoch):
                return False
            row |= changes
            return True

    def progress(self, run_key: str, selection: ChunkSelection | None = None) -> Progress:
        """Counters over the chunks of the selection."""
        rows = _within(self.file(run_key).read(), (selection or EVERY_CHUNK).ranges)
        return counters([chunk_of(row) for row in rows])

    def count_chunks(self, run_key: str) -> tuple[int, int]:
        """All chunk rows and the committed ones, counted one by one."""
        counted = self.progress(run_key)
        return counted.total, counted.committed

    def recount(self, run_key: str) -> None:
        """A file keeps no tallies: whoever counts, counts its chunks."""

    def vitals(self, watched: Sequence[Watched]) -> list[Vitals]:
        """What the files say of each, in the order given."""
        return [vitals_in(self.file(each.run_key).read() if each.run_key else None) for each in watched]

    def chunks(
        self, run_key: str, selection: ChunkSelection, *, only: Sequence[str] = (), limit: int | None = None
    ) -> list[ChunkRecord]:
        """Chunk rows of the selection in these effective states (all if empty), by index, at most `limit`."""
        rows = _within(self.file(run_key).read(), selection.ranges)
        found = [each for each in map(chunk_of, rows) if not only or str(each.effective_state) in only]
        return sorted(found, key=lambda each: each.index)[:limit]

    # ------------------------------------------------------------ receipts

    def receipt(self, run_key: str, chunk_index: int) -> ChunkReceipt | None:
        """The receipt of a committed chunk."""
        found = list(_within(self.file(run_key).read(), [(chunk_index, chunk_index + 1)]))
        return receipt_of(found[0]["receipt"]) if found and found[0].get("receipt") else None

    def receipts(self, run_key: str) -> list[ChunkReceipt]:
        """Every receipt of a campaign, by chunk.

        Args:
            run_key: Its identity.
        """
        rows = _within(self.file(run_key).read(), EVERY_CHUNK.ranges)
        return [receipt_of(row["receipt"]) for row in rows if row.get("receipt")]

    def receipt_totals(self, record: CampaignRecord) -> ReceiptTotals:
        """Sums over all receipts of the campaign."""
        found = self.receipts(record.run_key)
        own = (record.plan_hash, record.contract_hash)
        return ReceiptTotals(
            receipts=len(found),
            rows=sum(each.rows for each in found),
            foreign=sum((each.plan_hash, each.contract_hash) != own for each in found),
            differing=sum("rows_read" in each.diagnostics for each in found),
        )

    def digest_totals(self, run_key: str, limit: int) -> DigestTotals:
        """Sums over the digests that receipts note, and at most `limit` chunks that note two different ones."""
        noted = [each for each in self.receipts(run_key) if DIGEST in each.diagnostics]
        differing = [each for each in noted if TARGET_DIGEST in each.diagnostics]
        source = [int(str(each.diagnostics[DIGEST])) for each in noted]
        target = [int(str(each.diagnostics.get(TARGET_DIGEST, each.diagnostics[DIGEST]))) for each in noted]
        first = tuple(each.chunk_index for each in differing[:limit])
        return DigestTotals(len(noted), sum(source), sum(target), len(differing), first)

    # ------------------------------------------------------------ audit

    def start_load(self, load_id: str, dataset: str, kind: str, run_id: str) -> None:
        """Note the run in the campaign's file, or leave what is there."""
        with self.file(self._run_key).change() as document:
            if document:
                loads = document.setdefault("loads", {})
                opened = {"dataset": dataset, "kind": kind, "run_id": run_id, "status": "running"}
                loads.setdefault(load_id, {**opened, "started_at": _text(now()), "facts": {}})

    def finish_load(self, load_id: str, status: str, facts: Mapping[str, object]) -> None:
        """Close it."""
        with self.file(self._run_key).change() as document:
            load = document.get("loads", {}).get(load_id)
            if load is not None:
                load |= {"status": status, "finished_at": _text(now()), "facts": {**load["facts"], **facts}}

    def record_step(self, load_id: str, step: str, status: str, seconds: float, facts: Mapping[str, object]) -> None:
        """Note a step; the file keeps the latest 200."""
        with self.file(self._run_key).change() as document:
            if document:
                made = {"load_id": load_id, "step": step, "status": status, "seconds": seconds, "facts": dict(facts)}
                steps = [*document.get("load_steps", []), {**made, "recorded_at": _text(now())}]
                document["load_steps"] = steps[-_STEPS_KEPT:]

    def steps(self, dataset: str) -> list[StepRecord]:
        """Steps that runs of the campaign have noted, oldest first.

        Args:
            dataset: The manifest's name.
        """
        document = self.file(self._run_key).read() or {}
        return steps_of(document, dataset)


def _within(document: Document | None, ranges: Iterable[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    chunks = document.get("chunks", []) if document else []
    for start, stop in ranges:
        yield from chunks[start:stop]


def _text(moment: datetime) -> str:
    return moment.isoformat()
