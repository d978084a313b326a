"""What must be true when a campaign is done: every finding is a sentence."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkState, Phase
from dpone_dagster.campaign.selection import EVERY_CHUNK
from dpone_dagster.ports.target import Target
from tests.chaos.ground import OLD
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders
from tests.waiting import promised, within

SECONDS_TO_LEAVE = 15
_OF_POSTGRES = (
    "SELECT application_name FROM pg_stat_activity "
    "WHERE application_name LIKE 'dpone %' AND datname = current_database()"
)
_OF_MSSQL = (
    "SELECT program_name FROM sys.dm_exec_sessions WHERE program_name LIKE 'dpone %' AND database_id = DB_ID() "
    "AND session_id > 0"
)


def live_is_whole(orders: Orders) -> Iterator[str]:
    """At any time the live table is the old one or a new one, never a mixture."""
    ids = [row[0] for row in orders.target_rows()]
    old = len(set(map(str, OLD)) & set(ids))
    if old and (old, len(ids)) != (len(OLD), len(OLD)):
        yield f"the live table has {old} of the {len(OLD)} old rows among {len(ids)}"


def nothing_is_left(orders: Orders, groups: list[int]) -> Iterator[str]:
    """No session on either server and no process, a few seconds after the last one was told to stop or killed."""
    if not within(promised(SECONDS_TO_LEAVE), lambda: not _left(orders, groups)):
        left = _left(orders, groups)
        yield f"left after {SECONDS_TO_LEAVE} s: {', '.join(left)}"


def _left(orders: Orders, groups: list[int]) -> list[str]:
    return _sessions(orders) + _processes(groups)


def _sessions(orders: Orders) -> list[str]:
    on_target = _OF_MSSQL if isinstance(orders, MssqlOrders) else _OF_POSTGRES
    names = [name for (name,) in orders.on_source(_OF_POSTGRES) + orders.on_target(on_target)]
    return [name for name in names if "test harness" not in name]


def _processes(groups: list[int]) -> list[str]:
    left = []
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, 0)
            left.append(f"process group {group}")
    return left


def campaign_is_exact(orders: Orders) -> Iterator[str]:
    """After the increment: equal content, one receipt a chunk, one publication, the old table kept, nothing else."""
    source, target = orders.source_rows(), orders.target_rows()
    if source != target:
        here, there = Counter(source), Counter(target)
        yield (
            f"content: {len(source)} rows in the source, {len(target)} in the target; "
            f"missing {list((here - there).elements())[:2]}, too many {list((there - here).elements())[:2]}"
        )
    with contextlib.closing(orders.connector.target("oracle")) as session:
        record = session.ledger.campaign(orders.spec.run_key)
        if record is None:
            yield "there is no campaign"
            return
        yield from _ledger(orders, session, record)
        yield from _publication(orders, session, record)
    tables = {name for (name,) in orders.on_target(_TABLES)}
    if tables != {"orders", record.backup.name}:
        yield f"tables: {sorted(tables)}"
    kept = [row[0] for row in orders.rows_of(record.backup)]
    if kept != sorted(map(str, OLD)):
        yield f"the backup has {kept}"


_TABLES = "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'landing'"


def _ledger(orders: Orders, session: Target, record: CampaignRecord) -> Iterator[str]:
    chunks = session.ledger.chunks(record.run_key, EVERY_CHUNK)
    states = Counter(chunk.state for chunk in chunks)
    if states != {ChunkState.COMMITTED: orders.spec.plan.count}:
        yield f"chunks: {dict(states)}"
    for chunk in chunks:
        receipt = session.ledger.receipt(record.run_key, chunk.index)
        if receipt is None or receipt.receipt_id != chunk.receipt_id or receipt.epoch > chunk.epoch:
            yield f"chunk {chunk.index}: {chunk} with {receipt}"
    totals = session.ledger.receipt_totals(record)
    if (totals.receipts, totals.foreign) != (orders.spec.plan.count, 0):
        yield f"receipts: {totals}"
    if record.phase is not Phase.HANDOFF_COMMITTED:
        yield f"phase {record.phase}"
    if holders := session.fence.holders(record.run_key):
        yield f"held by {holders}"
    if not session.fence.lock_campaign(record.run_key, "exclusive", 0):
        yield "the campaign's lock is not free"


def _publication(orders: Orders, session: Target, record: CampaignRecord) -> Iterator[str]:
    (number,) = orders.on_target("SELECT COUNT(*) FROM system.__dpone__publications")[0]
    receipt = session.publications.of_campaign(record.run_key)
    if number != 1 or receipt is None:
        yield f"{number} publications"
        return
    if (receipt.head, receipt.receipt_id) != ("closed", record.receipt_id):
        yield f"publication {receipt}"
    if receipt.expected_rows != receipt.actual_rows:
        yield f"published {receipt.actual_rows} of {receipt.expected_rows} rows"
    checkpoint = session.publications.checkpoint(orders.spec.target, receipt.generation)
    if checkpoint is None or not checkpoint.reconciled:
        yield f"checkpoint {checkpoint}"


def told(looks: Iterator[str]) -> list[str]:
    """All findings; a look that is refused is one."""
    found: list[str] = []
    try:
        found.extend(looks)
    except DponeError as error:
        found.append(f"the oracle was refused: {error.code}: {error.message}")
    return found
