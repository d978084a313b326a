"""The port `Ledger` on PostgreSQL: every move is one compare-and-set whose row count is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from psycopg import pq, sql

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.ledger import (
    BEGUN,
    CANCELLABLE,
    CHANGEABLE,
    LEASE_TTL_SECONDS,
    LOADABLE,
    CampaignRecord,
    ChunkRecord,
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
from dpone_dagster.campaign.receipts import ChunkReceipt, DigestTotals, ReceiptTotals
from dpone_dagster.campaign.selection import EVERY_CHUNK, ChunkSelection
from dpone_dagster.campaign.staterows import campaign_record, campaign_row, chunk_record, neighbour, receipt_record
from dpone_dagster.campaign.stateversion import STATE_VERSION
from dpone_dagster.campaign.tallies import BLOCK_CHUNKS, TalliedRanges, block_of
from dpone_dagster.campaign.vitals import Vitals, Watched, vitals_of
from dpone_dagster.postgres import provisioning
from dpone_dagster.postgres.queries import statement
from dpone_dagster.postgres.rights import unseen_campaigns
from dpone_dagster.postgres.session import Session, translated
from dpone_dagster.postgres.staterows import StateRows

_COPY_LINES = 1_000


class PostgresLedger:
    """Campaign, chunk and receipt rows in the state schema.

    Args:
        session: The target's session.
        state_schema: Where the state tables are.
    """

    def __init__(self, session: Session, state_schema: str) -> None:
        self._session = session
        self._schema = state_schema
        self._statements = StateRows(session, "ledger.sql", state_schema)

    def provisioned(self) -> bool:
        """Whether the state tables are there, at a version this program can use.

        Raises:
            StateVersionOlder: An older program made them.
            StateVersionNewer: A newer program made them.
        """
        return provisioning.provisioned(self._session, self._schema)

    def provision(self) -> None:
        """Create or upgrade the state tables, idempotently, under a lock."""
        provisioning.provision(self._session, self._schema)

    # ------------------------------------------------------------ campaign

    def campaign(self, run_key: str, *, lock: bool = False) -> CampaignRecord | None:
        """Read the committed campaign row; `lock` keeps it until the transaction ends."""
        row = self._statements.row("campaign_locked" if lock else "campaign", run_key=run_key)
        return None if row is None else campaign_record(row)

    def neighbours(self, target: TableRef) -> list[Neighbour]:
        """The target's campaigns that are not finished, in every state schema of the database.

        Raises:
            RightsMissing: Another schema's campaigns may not be read.
        """
        found = []
        for row in self._statements.rows("state_schemas"):
            schema = row["schema"]
            if not row["readable"]:
                raise unseen_campaigns(schema, target)
            elsewhere = None if schema == self._schema else schema
            rows = StateRows(self._session, "ledger.sql", schema).rows(
                "neighbours", target_schema=target.schema, target_name=target.name
            )
            found += [neighbour(each, elsewhere) for each in rows]
        return found

    def create(self, record: CampaignRecord, plan: Plan) -> None:
        """Insert the campaign and all its chunks, in constant memory, in the caller's transaction."""
        connection = self._session.connection
        if connection.info.transaction_status != pq.TransactionStatus.INTRANS:
            raise DponeError("a campaign and its chunks are created in one transaction, and there is none")
        with translated():
            self._statements.execute("create_campaign", **campaign_row(record))
            chunks = statement("ledger.sql", "create_chunks", schema=sql.Identifier(self._schema))
            with connection.cursor() as cursor:
                with cursor.copy(chunks) as copy:
                    for block in _copy_blocks(record.run_key, plan):
                        copy.write(block)
                stored = cursor.rowcount
            if stored != record.chunk_count:
                raise DponeError(f"{stored} chunks were stored, not {record.chunk_count}")
            self._create_tallies(record)

    def _create_tallies(self, record: CampaignRecord) -> None:
        self._statements.execute("create_tallies", run_key=record.run_key, last=block_of(record.chunk_count - 1))

    def recount(self, run_key: str) -> None:
        """Count the committed chunks anew where their tallies say otherwise; nobody is at work."""
        with translated():
            self._statements.execute("recount", run_key=run_key, size=BLOCK_CHUNKS)

    def move(self, run_key: str, old: frozenset[Phase], new: Phase, **changes: object) -> bool:
        """CAS on the phase; `changes` are further `CampaignRecord` fields. False if the phase was not in `old`.

        A move to `published` also requires that no cancel is recorded.
        """
        require_move(old, new, changes)
        values = {name: changes.get(name) for name in CHANGEABLE}
        return self._statements.moved(
            "move", run_key=run_key, old=[str(phase) for phase in old], new=str(new), changed=list(changes), **values
        )

    def set_stop(self, run_key: str, reason: str | None) -> None:
        """Set (or, with None, clear) the stop token."""
        self._statements.moved("set_stop", run_key=run_key, reason=reason)

    def cancel(self, run_key: str, reason: str, requested_by: str) -> bool:
        """Record a cancel and move to `cancelled`; False if published already."""
        old = [str(phase) for phase in CANCELLABLE]
        return self._statements.moved("cancel", run_key=run_key, reason=reason, requested_by=requested_by, old=old)

    # ------------------------------------------------------------ chunks

    def candidates(
        self, run_key: str, worker: Worker, selection: ChunkSelection, *, failed_only: bool, limit: int
    ) -> list[ChunkRecord]:
        """Chunks this worker might claim, spread by lane number; running ones of other sessions come last."""
        states = claimable_states(failed_only=failed_only)
        values: dict[str, object] = {"run_key": run_key, **_bounds(selection.seen_from(worker.lane))}
        found = self._statements.rows("candidates_free", **values, states=states, run_id=worker.run_id, limit=limit)
        if len(found) < limit and not failed_only:
            found += self._statements.rows("candidates_running", **values, limit=limit - len(found))
        return [chunk_record(row) for row in found]

    def claim(self, run_key: str, seen: ChunkRecord, worker: Worker) -> Claim | None:
        """CAS (state, epoch) as seen → running, epoch + 1, if campaign and version of the state allow it.

        The campaign's first claim, and the first after a pause, also moves it to `loading`.
        """
        row = self._statements.row(
            "claim",
            run_key=run_key,
            chunk_index=seen.index,
            state=str(seen.state),
            epoch=seen.epoch,
            run_id=worker.run_id,
            lane=worker.lane,
            host=worker.host,
            pid=worker.pid,
            ttl=LEASE_TTL_SECONDS,
            loadable=[str(phase) for phase in LOADABLE],
            version=STATE_VERSION,
        )
        return None if row is None else Claim(run_key, seen.index, row["epoch"], worker)

    def renew(self, claim: Claim) -> bool:
        """Extend the lease by 90 s; False if the epoch is no longer ours."""
        return self._statements.moved("renew", **_named(claim), ttl=LEASE_TTL_SECONDS)

    def complete(self, claim: Claim, receipt: ChunkReceipt, seconds: float) -> bool:
        """CAS running → committed; False if the epoch is no longer ours."""
        row = self._statements.row(
            "complete",
            **_named(claim),
            block=block_of(claim.chunk_index),
            rows=receipt.rows,
            receipt_id=receipt.receipt_id,
            seconds=seconds,
        )
        return row is not None and row["completed"] == 1

    def fail(self, claim: Claim, error: DponeError, *, stop: bool) -> bool:
        """CAS running → failed with code and message; with `stop` also set the campaign's stop token."""
        row = self._statements.row(
            "fail",
            **_named(claim),
            code=error.code,
            error=failure_text(error),
            run_id=claim.worker.run_id,
            stop_reason=claim.stop_reason(error) if stop else None,
        )
        return row is not None and row["failed"] == 1

    def give_back(self, claim: Claim) -> bool:
        """CAS running → pending: nothing was written and nobody is to blame (an interrupt)."""
        return self._statements.moved("give_back", **_named(claim))

    def progress(self, run_key: str, selection: ChunkSelection | None = None) -> Progress:
        """Counters, aggregated by the server, from tallies where they cover whole blocks."""
        ranges = (selection or EVERY_CHUNK).ranges
        cut = TalliedRanges.of(ranges)
        row = self._statements.row(
            "progress",
            run_key=run_key,
            **_bounds(ranges),
            **_bounds(cut.blocks, "first_blocks", "last_blocks"),
            **_bounds(cut.edges, "edge_starts", "edge_stops"),
        )
        if row is None:
            raise DponeError("the server returned no counters")
        rows = row.pop("rows")
        return Progress(**row, rows_extracted=rows, rows_loaded=rows)

    def count_chunks(self, run_key: str) -> tuple[int, int]:
        """All chunk rows and the committed ones, counted one by one."""
        row = self._statements.row("count_chunks", run_key=run_key)
        if row is None:
            raise DponeError("the server returned no counters")
        return row["chunks"], row["committed"]

    def vitals(self, watched: Sequence[Watched]) -> list[Vitals]:
        """What the state tables say of each, in one statement however many there are; in the order given."""
        rows = self._statements.rows(
            "vitals",
            run_keys=[each.run_key for each in watched],
            targets=[str(each.target) for each in watched],
            loadable=[str(phase) for phase in LOADABLE],
        )
        return [vitals_of(row) for row in rows]

    def chunks(
        self, run_key: str, selection: ChunkSelection, *, only: Sequence[str] = (), limit: int | None = None
    ) -> list[ChunkRecord]:
        """Chunk rows of the selection in these effective states (all if empty), by index, at most `limit`."""
        query = "chunks_begun" if only and BEGUN.issuperset(only) else "chunks"
        rows = self._statements.rows(query, run_key=run_key, **_bounds(selection.ranges), only=list(only), limit=limit)
        return [chunk_record(row) for row in rows]

    # ------------------------------------------------------------ receipts

    def receipt(self, run_key: str, chunk_index: int) -> ChunkReceipt | None:
        """The committed receipt of a chunk; final if the chunk's lock is held."""
        row = self._statements.row("receipt", run_key=run_key, chunk_index=chunk_index)
        return None if row is None else receipt_record(row)

    def receipt_totals(self, record: CampaignRecord) -> ReceiptTotals:
        """Sums over all receipts of the campaign."""
        row = self._statements.row(
            "receipt_totals", run_key=record.run_key, plan_hash=record.plan_hash, contract_hash=record.contract_hash
        )
        if row is None:
            raise DponeError("the server returned no sums")
        return ReceiptTotals(row["receipts"], row["rows"], row["foreign_receipts"], row["differing_receipts"])

    def digest_totals(self, run_key: str, limit: int) -> DigestTotals:
        """Sums over the digests that receipts note, and at most `limit` chunks that note two different ones."""
        (row,) = self._statements.rows("digest_totals", run_key=run_key)
        differing = self._statements.rows("digests_differing", run_key=run_key, limit=limit)
        first = tuple(found["chunk_index"] for found in differing)
        return DigestTotals(row["receipts"], int(row["source"]), int(row["target"]), row["differing"], first)

    # ------------------------------------------------------------ audit

    def start_load(self, load_id: str, dataset: str, kind: str, run_id: str) -> None:
        """Open a row in `__dpone__loads`, or leave the one that is there."""
        self._statements.moved("start_load", load_id=load_id, dataset=dataset, kind=kind, run_id=run_id)

    def finish_load(self, load_id: str, status: str, facts: Mapping[str, object]) -> None:
        """Close it."""
        self._statements.moved("finish_load", load_id=load_id, status=status, facts=facts)

    def record_step(self, load_id: str, step: str, status: str, seconds: float, facts: Mapping[str, object]) -> None:
        """Append a row to `__dpone__load_steps`."""
        self._statements.moved("record_step", load_id=load_id, step=step, status=status, seconds=seconds, facts=facts)


def _named(claim: Claim) -> dict[str, object]:
    return {"run_key": claim.run_key, "chunk_index": claim.chunk_index, "epoch": claim.epoch}


def _bounds(ranges: Sequence[tuple[int, int]], starts: str = "starts", stops: str = "stops") -> dict[str, list[int]]:
    return {starts: [start for start, _ in ranges], stops: [stop for _, stop in ranges]}


def _copy_blocks(run_key: str, plan: Plan) -> Iterator[bytes]:
    """Lines of COPY's text format; bounds are dates, timestamps, integers or uuids, which need no escape."""
    lines = (f"{run_key}\t{c.index}\t{c.lower}\t{c.upper}\t{'t' if c.upper_inclusive else 'f'}\n" for c in plan)
    while block := "".join(itertools.islice(lines, _COPY_LINES)):
        yield block.encode()
