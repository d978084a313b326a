"""The port `Ledger` on SQL Server: every move is one compare-and-set whose row count is read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from dpone_dagster.campaign.errors import DponeError, StateElsewhere
from dpone_dagster.campaign.ledger import (
    BEGUN,
    CANCELLABLE,
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
from dpone_dagster.campaign.tallies import BLOCK_CHUNKS, block_of
from dpone_dagster.campaign.vitals import Vitals, Watched, vitals_of
from dpone_dagster.mssql import provisioning
from dpone_dagster.mssql.faults import ServerError
from dpone_dagster.mssql.progress import json_ranges, progress_of
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import quoted
from dpone_dagster.mssql.rights import unseen_campaigns
from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.mssql.statevalues import read, stored

_CHUNKS_A_STATEMENT = 2_000
_SELECT_DENIED = 229  # Microsoft's list of system error messages
_ALL = 2**31 - 1
# A look at very many chunks is slow, and no fault; Dagster gives a sensor's tick a minute.
_WATCH_SECONDS = 30


class MssqlLedger:
    """Campaign, chunk and receipt rows in the state schema.

    Args:
        session: The target's session.
        state_schema: Where the state tables are.
    """

    def __init__(self, session: Session, state_schema: str) -> None:
        self._session = session
        self._schema = state_schema
        self._queries = load("ledger.sql", state_schema)

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
        if lock:
            self._session.changed(self._queries["touch_campaign"], run_key)
        query = "campaign" if self._session.in_transaction else "campaign_seen"
        found = self._session.records(self._queries["campaign_locked" if lock else query], run_key)
        return campaign_record(read(found[0])) if found else None

    def neighbours(self, target: TableRef) -> list[Neighbour]:
        """The target's campaigns that are not finished, in every state schema that this login is shown.

        Raises:
            RightsMissing: Another schema's campaigns may not be read.
            StateElsewhere: The server has the state schema under another spelling, whose locks are others.
        """
        found = []
        for schema, own in self._session.rows(self._queries["state_schemas"], self._schema):
            if own and schema != self._schema:
                raise StateElsewhere(f"state schema {self._schema} is spelt {schema} on the server")
            found += [neighbour(row, None if own else schema) for row in self._campaigns_in(schema, target)]
        return found

    def _campaigns_in(self, schema: str, target: TableRef) -> list[dict[str, object]]:
        query = load("ledger.sql", schema)["neighbours"]
        try:
            return [read(row) for row in self._session.records(query, target.schema, target.name)]
        except ServerError as error:
            if error.number == _SELECT_DENIED:
                raise unseen_campaigns(schema, target) from error
            raise

    def create(self, record: CampaignRecord, plan: Plan) -> None:
        """Insert the campaign and all its chunks, in constant memory, in the caller's transaction."""
        if not self._session.in_transaction:
            raise DponeError("a campaign and its chunks are created in one transaction, and there is none")
        row = campaign_row(record)
        columns = ", ".join(quoted(name) for name in row)
        marks = ", ".join("CAST(? AS datetime2(6))" if isinstance(value, datetime) else "?" for value in row.values())
        self._session.changed(self._filled("create_campaign", columns=columns, marks=marks), *map(stored, row.values()))
        made = self._create_chunks(record.run_key, plan)
        if made != record.chunk_count:
            raise DponeError(f"{made} chunks were stored, not {record.chunk_count}")
        self._create_tallies(record)

    def _create_chunks(self, run_key: str, plan: Plan) -> int:
        made = 0
        lines = ([chunk.index, chunk.lower, chunk.upper, int(chunk.upper_inclusive)] for chunk in plan)
        while block := list(itertools.islice(lines, _CHUNKS_A_STATEMENT)):
            text = json.dumps(block, separators=(",", ":"))
            made += self._session.changed(self._queries["create_chunks"], run_key, text, seconds=UNBOUNDED)
        return made

    def _create_tallies(self, record: CampaignRecord) -> None:
        self._session.changed(self._queries["create_tallies"], BLOCK_CHUNKS, record.run_key, seconds=UNBOUNDED)

    def recount(self, run_key: str) -> None:
        """Count the committed chunks anew where their tallies say otherwise; nobody is at work."""
        self._session.changed(self._queries["recount"], BLOCK_CHUNKS, run_key, run_key, seconds=UNBOUNDED)

    def move(self, run_key: str, old: frozenset[Phase], new: Phase, **changes: object) -> bool:
        """CAS on the phase; `changes` are further `CampaignRecord` fields. False if the phase was not in `old`.

        A move to `published` also requires that no cancel is recorded.
        """
        require_move(old, new, changes)
        assignments = "".join(f", {quoted(name)} = ?" for name in changes)
        return self._moved(
            self._filled("move", assignments=assignments, old=_marks(old)),
            str(new),
            *changes.values(),
            run_key,
            *map(str, old),
            int(new is Phase.PUBLISHED),
        )

    def set_stop(self, run_key: str, reason: str | None) -> None:
        """Set (or, with None, clear) the stop token."""
        self._moved(self._queries["set_stop"], reason, run_key)

    def cancel(self, run_key: str, reason: str, requested_by: str) -> bool:
        """Record a cancel and move to `cancelled`; False if published already."""
        query = self._filled("cancel", old=_marks(CANCELLABLE))
        return self._moved(query, reason, requested_by, run_key, *map(str, CANCELLABLE))

    # ------------------------------------------------------------ chunks

    def candidates(
        self, run_key: str, worker: Worker, selection: ChunkSelection, *, failed_only: bool, limit: int
    ) -> list[ChunkRecord]:
        """Chunks this worker might claim, spread by lane number; running ones of other sessions come last."""
        states = claimable_states(failed_only=failed_only)
        ranges = json_ranges(selection.seen_from(worker.lane))
        query = self._filled("candidates_free", states=_marks(states))
        found = self._session.records(query, limit, ranges, limit, run_key, *states, worker.run_id)
        if len(found) < limit and not failed_only:
            session = self._session
            found += session.records(
                self._queries["candidates_running"],
                limit - len(found),
                ranges,
                run_key,
                session.session_id,
                stored(session.login_at),
            )
        return [chunk_record(read(row)) for row in found]

    def claim(self, run_key: str, seen: ChunkRecord, worker: Worker) -> Claim | None:
        """CAS (state, epoch) as seen → running, epoch + 1, if campaign and version of the state allow it.

        The campaign's first claim, and the first after a pause, also moves it to `loading`.
        """
        claimed = self._session.value(
            self._filled("claim", loadable=_marks(LOADABLE)),
            worker.run_id,
            worker.lane,
            worker.host,
            worker.pid,
            self._session.session_id,
            stored(self._session.login_at),
            LEASE_TTL_SECONDS,
            run_key,
            seen.index,
            str(seen.state),
            seen.epoch,
            *map(str, LOADABLE),
            STATE_VERSION,
            run_key,
        )
        return Claim(run_key, seen.index, seen.epoch + 1, worker) if claimed == 1 else None

    def renew(self, claim: Claim) -> bool:
        """Extend the lease by 90 s; False if the epoch is no longer ours."""
        return self._moved(self._queries["renew"], LEASE_TTL_SECONDS, *_named(claim))

    def complete(self, claim: Claim, receipt: ChunkReceipt, seconds: float) -> bool:
        """CAS running → committed; False if the epoch is no longer ours."""
        values = (receipt.rows, seconds, receipt.receipt_id, *_named(claim))
        with self._session.transaction():
            done = self._moved(self._queries["complete"], *values)
            if done:
                index = claim.chunk_index
                self._session.changed(self._queries["tally"], claim.run_key, block_of(index), index)
        return done

    def fail(self, claim: Claim, error: DponeError, *, stop: bool) -> bool:
        """CAS running → failed with code and message; with `stop` also set the campaign's stop token."""
        text = failure_text(error)
        with self._session.transaction():
            failed = self._moved(self._queries["fail"], error.code, text, claim.worker.run_id, *_named(claim))
            if failed and stop:
                self._moved(self._queries["stop_after_failure"], claim.stop_reason(error), claim.run_key)
        return failed

    def give_back(self, claim: Claim) -> bool:
        """CAS running → pending: nothing was written and nobody is to blame (an interrupt)."""
        return self._moved(self._queries["give_back"], *_named(claim))

    def progress(self, run_key: str, selection: ChunkSelection | None = None) -> Progress:
        """Counters, aggregated by the server, from tallies where they cover whole blocks."""
        return progress_of(self._session, self._schema, run_key, selection or EVERY_CHUNK)

    def count_chunks(self, run_key: str) -> tuple[int, int]:
        """All chunk rows and the committed ones, counted one by one."""
        ((chunks, committed),) = self._session.rows(self._queries["count_chunks"], run_key, seconds=UNBOUNDED)
        return int(chunks), int(committed)

    def vitals(self, watched: Sequence[Watched]) -> list[Vitals]:
        """What the state tables say of each, in one statement however many there are; in the order given."""
        asked = json.dumps([[each.run_key, str(each.target), place] for place, each in enumerate(watched)])
        loadable = tuple(map(str, LOADABLE))
        query = self._filled("vitals", loadable=_marks(loadable))
        rows = self._session.records(query, asked, *loadable, seconds=_WATCH_SECONDS)
        return [vitals_of(read(row)) for row in rows]

    def chunks(
        self, run_key: str, selection: ChunkSelection, *, only: Sequence[str] = (), limit: int | None = None
    ) -> list[ChunkRecord]:
        """Chunk rows of the selection in these effective states (all if empty), by index, at most `limit`."""
        wanted = list(only) or [""]
        begun = BEGUN.issuperset(wanted)
        query = "chunks_begun" if begun else "chunks"
        rows = self._session.records(
            self._filled(query, only=_marks(wanted)),
            _ALL if limit is None else limit,
            json_ranges(selection.ranges),
            run_key,
            *(() if begun else (len(only),)),
            *wanted,
        )
        return [chunk_record(read(row)) for row in rows]

    # ------------------------------------------------------------ receipts

    def receipt(self, run_key: str, chunk_index: int) -> ChunkReceipt | None:
        """The committed receipt of a chunk; final if the chunk's lock is held."""
        found = self._session.records(self._queries["receipt"], run_key, chunk_index)
        return receipt_record(read(found[0])) if found else None

    def receipt_totals(self, record: CampaignRecord) -> ReceiptTotals:
        """Sums over all receipts of the campaign."""
        query = self._queries["receipt_totals"]
        values = (record.plan_hash, record.contract_hash, record.run_key)
        (row,) = self._session.rows(query, *values, seconds=UNBOUNDED)
        return ReceiptTotals(*map(int, row))

    def digest_totals(self, run_key: str, limit: int) -> DigestTotals:
        """Sums over the digests that receipts note, and at most `limit` chunks that note two different ones."""
        (row,) = self._session.rows(self._queries["digest_totals"], run_key)
        differing = self._session.rows(self._queries["digests_differing"], limit, run_key)
        receipts, source, written, differ = map(int, row)
        return DigestTotals(receipts, source, written, differ, tuple(index for (index,) in differing))

    # ------------------------------------------------------------ audit

    def start_load(self, load_id: str, dataset: str, kind: str, run_id: str) -> None:
        """Open a row in `__dpone__loads`, or leave the one that is there."""
        self._moved(self._queries["start_load"], load_id, dataset, kind, run_id, load_id)

    def finish_load(self, load_id: str, status: str, facts: Mapping[str, object]) -> None:
        """Close it; facts of earlier steps stay."""
        row = self._session.row(self._queries["load_facts"], load_id)
        merged = {**(json.loads(row[0]) if row else {}), **facts}
        self._moved(self._queries["finish_load"], status, merged, load_id)

    def record_step(self, load_id: str, step: str, status: str, seconds: float, facts: Mapping[str, object]) -> None:
        """Append a row to `__dpone__load_steps`."""
        self._moved(self._queries["record_step"], load_id, step, status, seconds, facts)

    # ------------------------------------------------------------ statements

    def _filled(self, query: str, **parts: str) -> str:
        return filled(self._queries[query], **parts)

    def _moved(self, statement: str, *values: object) -> bool:
        return self._session.changed(statement, *map(stored, values)) == 1


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" for _ in values)


def _named(claim: Claim) -> tuple[str, int, int]:
    return claim.run_key, claim.chunk_index, claim.epoch
