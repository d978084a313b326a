"""One chunk's transaction: receipt and rows together or not at all, under this session's locks and epoch only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import pytest

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract
from dpone_dagster.campaign.errors import (
    CatalogDrift,
    ConnectionLost,
    CountMismatch,
    DponeError,
    LeaseLost,
    TransientFailure,
    ValueNotRepresentable,
)
from dpone_dagster.campaign.ledger import Claim, Worker
from dpone_dagster.campaign.names import TableRef, chunk_lock
from dpone_dagster.ports.source import Wire
from dpone_dagster.ports.tables import ChunkWrite, ShadowHandle
from dpone_dagster.postgres.fence import lock_key
from dpone_dagster.postgres.target import PostgresTarget

LIVE = TableRef("landing", "orders")
SHADOW = TableRef("landing", 'orders "s" 日本')
RUN_KEY = "7" * 64
CONTRACT = ColumnContract(
    (
        ColumnBinding("n", "n", "integer", "integer"),
        ColumnBinding("t", 'te"xt', "text", "text"),
    ),
    ("n",),
)
CLAIM = Claim(RUN_KEY, 3, 5, Worker("run-1", 0, "host", 1))


class Rows:
    """A stream of prepared batches; may fail, or do something, after the first one."""

    wire: Wire = "pgcopy"

    def __init__(self, batches: Sequence[bytes], rows: int, after_first: Callable[[], None] | None = None) -> None:
        self._batches = batches
        self._after_first = after_first
        self.rows = rows
        self.bytes = 0
        self.nulled = {'te"xt': 2}

    def __iter__(self) -> Iterator[bytes]:
        for number, batch in enumerate(self._batches):
            self.bytes += len(batch)
            yield batch
            if number == 0 and self._after_first is not None:
                self._after_first()


@pytest.fixture
def target(database: str) -> Iterator[PostgresTarget]:
    opened = PostgresTarget(database, "test lane", "system")
    run(opened, "CREATE SCHEMA landing", 'CREATE TABLE landing.orders (n int PRIMARY KEY, "te""xt" text, extra int)')
    opened.ledger.provision()
    run(
        opened,
        "INSERT INTO system.__dpone__backfill_chunks (run_key, chunk_index, lower_bound, upper_bound, upper_inclusive,"
        " state, epoch, worker_run_id, lease_expires_at)"
        f" VALUES ('{RUN_KEY}', 3, '0', '9', true, 'running', 5, 'run-1', clock_timestamp())",
    )
    yield opened
    opened.close()


@pytest.fixture
def handle(target: PostgresTarget) -> ShadowHandle:
    live = target.tables.describe(LIVE)
    assert live is not None
    with target.transaction():
        return target.tables.create_shadow(live, SHADOW, RUN_KEY)


def run(target: PostgresTarget, *statements: str) -> None:
    for statement in statements:
        target.session.connection.execute(statement.encode())


def lock(target: PostgresTarget) -> None:
    assert target.fence.lock_campaign(RUN_KEY, "shared", 1)
    assert target.fence.try_lock_chunk(RUN_KEY, 3)


def write_of(handle: ShadowHandle) -> ChunkWrite:
    return ChunkWrite(SHADOW, handle.object_id, handle.digest, CONTRACT, "plan", "binding")


def batches(target: PostgresTarget, rows: int, size: int = 5) -> list[bytes]:
    """Binary COPY of `rows` rows, header and trailer included."""
    query = f"COPY (SELECT n, repeat('é', {size}) FROM generate_series(1, {rows}) n) TO STDOUT (FORMAT binary)"
    with target.session.connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
        return [bytes(block) for block in copy]


def kept(target: PostgresTarget) -> tuple[int, int]:
    """Rows of the shadow, receipts."""
    receipts = target.session.connection.execute("SELECT count(*) FROM system.__dpone__chunk_receipts").fetchone()
    assert receipts is not None
    return target.tables.count(SHADOW), receipts[0]


def test_rows_and_receipt_are_committed_together(target: PostgresTarget, handle: ShadowHandle) -> None:
    lock(target)
    stream = Rows(batches(target, 1000), 1000)
    receipt = target.tables.write_chunk(CLAIM, write_of(handle), stream)
    assert kept(target) == (1000, 1)
    assert (receipt.rows, receipt.bytes, receipt.epoch) == (1000, stream.bytes, 5)
    assert receipt.committed_at is not None
    assert receipt.nulled == {'te"xt': 2}
    assert target.ledger.receipt(RUN_KEY, 3) == receipt
    row = target.session.connection.execute("SELECT run_id, diagnostics FROM system.__dpone__chunk_receipts").fetchone()
    assert row == ("run-1", {})
    values = target.session.connection.execute(
        'SELECT min(n), max(n), min("te""xt"), count(extra) FROM landing."orders ""s"" 日本"'.encode()
    ).fetchone()
    assert values == (1, 1000, "ééééé", 0)


def test_an_empty_chunk_has_a_receipt(target: PostgresTarget, handle: ShadowHandle) -> None:
    lock(target)
    assert target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 0), 0)).rows == 0
    assert kept(target) == (0, 1)


def test_a_chunk_larger_than_every_block_is_written_whole(target: PostgresTarget, handle: ShadowHandle) -> None:
    lock(target)
    parts = batches(target, 300, 20_000)
    assert sum(map(len, parts)) > 10_000_000
    target.tables.write_chunk(CLAIM, write_of(handle), Rows([b"".join(parts)], 300))
    assert kept(target) == (300, 1)


def test_the_campaigns_lock_may_be_exclusive(target: PostgresTarget, handle: ShadowHandle) -> None:
    assert target.fence.lock_campaign(RUN_KEY, "exclusive", 1)
    assert target.fence.try_lock_chunk(RUN_KEY, 3)
    target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 1), 1))
    assert kept(target) == (1, 1)


def test_without_the_chunks_lock_nothing_is_written(target: PostgresTarget, handle: ShadowHandle) -> None:
    assert target.fence.lock_campaign(RUN_KEY, "shared", 1)
    assert target.fence.try_lock_chunk(RUN_KEY, 4)
    with pytest.raises(LeaseLost, match="its lock is not held"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 1), 1))
    assert kept(target) == (0, 0)


def test_a_shared_lock_on_the_chunk_is_none(target: PostgresTarget, handle: ShadowHandle) -> None:
    assert target.fence.lock_campaign(RUN_KEY, "shared", 1)
    run(target, f"SELECT pg_advisory_lock_shared({lock_key(chunk_lock('system', RUN_KEY, 3))})")
    with pytest.raises(LeaseLost, match="its lock is not held"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 1), 1))
    assert kept(target) == (0, 0)


def test_a_loser_is_told_so_even_if_its_successor_has_finished(target: PostgresTarget, handle: ShadowHandle) -> None:
    """It inserts nothing, so it does not run into its successor's receipt either."""
    lock(target)
    target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 1), 1))
    run(target, "UPDATE system.__dpone__backfill_chunks SET epoch = 6")
    with pytest.raises(LeaseLost, match="epoch 5"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 1), 1))
    assert kept(target) == (1, 1)


def test_without_the_campaigns_lock_nothing_is_written(target: PostgresTarget, handle: ShadowHandle) -> None:
    assert target.fence.try_lock_chunk(RUN_KEY, 3)
    assert target.fence.lock_campaign("8" * 64, "shared", 1)
    with pytest.raises(LeaseLost, match="campaign's lock"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 1), 1))
    assert kept(target) == (0, 0)


def test_another_sessions_locks_do_not_count(target: PostgresTarget, handle: ShadowHandle, database: str) -> None:
    other = PostgresTarget(database, "other lane", "system")
    try:
        lock(other)
        with pytest.raises(LeaseLost):
            target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 1), 1))
    finally:
        other.close()
    assert kept(target) == (0, 0)


@pytest.mark.parametrize("change", ["epoch = 6", "state = 'pending'", "chunk_index = 2"])
def test_a_chunk_that_is_not_ours_any_more_is_not_written(
    target: PostgresTarget, handle: ShadowHandle, change: str
) -> None:
    lock(target)
    run(target, f"UPDATE system.__dpone__backfill_chunks SET {change}")
    with pytest.raises(LeaseLost, match="epoch 5"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 1), 1))
    assert kept(target) == (0, 0)


def test_a_second_receipt_is_refused_before_any_row(target: PostgresTarget, handle: ShadowHandle) -> None:
    lock(target)
    target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 2), 2))
    read = Rows(batches(target, 2), 2)
    with pytest.raises(TransientFailure, match="has a receipt already"):
        target.tables.write_chunk(CLAIM, write_of(handle), read)
    assert read.bytes == 0
    assert kept(target) == (2, 1)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE {shadow} ADD more int",
        "ALTER TABLE {shadow} DROP extra",
        "ALTER TABLE {shadow} ALTER n TYPE bigint",
        "ALTER TABLE {shadow} ALTER extra SET DEFAULT 1",
        "ALTER TABLE {shadow} ALTER extra SET NOT NULL",
        "ALTER TABLE {shadow} ADD CHECK (n > 0)",
        "ALTER TABLE {shadow} SET UNLOGGED",
        "ALTER TABLE {shadow} ENABLE ROW LEVEL SECURITY",
        "CREATE RULE r AS ON INSERT TO {shadow} DO INSTEAD NOTHING",
        "CREATE TRIGGER t BEFORE INSERT ON {shadow} FOR EACH ROW EXECUTE FUNCTION landing.nothing()",
        "CREATE TABLE landing.child () INHERITS ({shadow})",
        "DROP TABLE {shadow}",
        "DROP TABLE {shadow}; CREATE TABLE {shadow} (LIKE landing.orders)",
    ],
)
def test_an_altered_shadow_takes_no_row(target: PostgresTarget, handle: ShadowHandle, change: str) -> None:
    lock(target)
    run(target, "CREATE FUNCTION landing.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    for statement in change.replace("{shadow}", 'landing."orders ""s"" 日本"').split(";"):
        run(target, statement)
    read = Rows(batches(target, 1), 1)
    with pytest.raises(CatalogDrift, match=r"altered|replaced"):
        target.tables.write_chunk(CLAIM, write_of(handle), read)
    assert read.bytes == 0
    assert target.ledger.receipt(RUN_KEY, 3) is None


def test_indexes_and_statistics_are_no_drift(target: PostgresTarget, handle: ShadowHandle) -> None:
    lock(target)
    run(target, 'CREATE INDEX ON landing."orders ""s"" 日本" (n)', 'ANALYZE landing."orders ""s"" 日本"')
    target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 1), 1))
    assert kept(target) == (1, 1)


@pytest.mark.parametrize("said", [0, 9, 11])
def test_rows_that_the_source_did_not_send_are_not_kept(
    target: PostgresTarget, handle: ShadowHandle, said: int
) -> None:
    lock(target)
    with pytest.raises(CountMismatch, match=f"{said} rows read, 10 rows written"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 10), said))
    assert kept(target) == (0, 0)


def test_a_stream_that_stops_between_two_rows_is_not_taken_for_whole(
    target: PostgresTarget, handle: ShadowHandle
) -> None:
    """PostgreSQL takes a binary COPY without its trailer for complete; only the count tells."""
    lock(target)
    first_rows = batches(target, 10)[:6]
    with pytest.raises(CountMismatch, match="10 rows read"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(first_rows, 10))
    assert kept(target) == (0, 0)


@pytest.mark.parametrize(
    "error", [ValueNotRepresentable("n: nan"), KeyboardInterrupt(), ConnectionLost("source"), SystemExit()]
)
def test_an_exception_in_the_stream_comes_through_and_leaves_nothing(
    target: PostgresTarget, handle: ShadowHandle, error: BaseException
) -> None:
    lock(target)

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 10), 10, fail))
    assert caught.value is error
    assert kept(target) == (0, 0)
    # The session and its locks are as good as before.
    target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 10), 10))
    assert kept(target) == (10, 1)


def test_a_cancel_from_outside_leaves_nothing(target: PostgresTarget, handle: ShadowHandle) -> None:
    lock(target)
    with pytest.raises(DponeError, match="57014"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 10), 10, target.cancel))
    assert kept(target) == (0, 0)


def test_a_session_that_is_ended_meanwhile_leaves_nothing(
    target: PostgresTarget, handle: ShadowHandle, database: str
) -> None:
    lock(target)
    other = PostgresTarget(database, "operator", "system")
    try:

        def end() -> None:
            other.session.connection.execute("SELECT pg_terminate_backend(%s, 5000)", [target.session.pid])

        with pytest.raises(ConnectionLost):
            target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 10), 10, end))
        assert kept(other) == (0, 0)
        assert other.fence.try_lock_chunk(RUN_KEY, 3)
    finally:
        other.close()


def test_bad_bytes_leave_nothing(target: PostgresTarget, handle: ShadowHandle) -> None:
    lock(target)
    with pytest.raises(DponeError, match="22P04"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([b"not a copy stream at all"], 1))
    assert kept(target) == (0, 0)


def test_while_rows_flow_the_lease_can_be_renewed_and_the_statement_names_its_chunk(
    target: PostgresTarget, handle: ShadowHandle, database: str
) -> None:
    lock(target)
    other = PostgresTarget(database, "lease", "system")
    seen: list[str] = []

    def renew() -> None:
        run(other, "SET lock_timeout = '1s'", "UPDATE system.__dpone__backfill_chunks SET lease_expires_at = now()")
        query = "SELECT query FROM pg_stat_activity WHERE pid = %s"
        row = other.session.connection.execute(query, [target.session.pid]).fetchone()
        assert row is not None
        seen.append(row[0])

    try:
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 10), 10, renew))
    finally:
        other.close()
    assert f"dpone:copy_chunk {RUN_KEY[:12]} chunk=3 epoch=5" in seen[0]


def test_the_shadow_cannot_be_altered_while_rows_flow(
    target: PostgresTarget, handle: ShadowHandle, database: str
) -> None:
    lock(target)
    other = PostgresTarget(database, "stranger", "system")

    def alter() -> None:
        run(other, "SET lock_timeout = '50ms'")
        with pytest.raises(DponeError, match="55P03"), other.transaction():
            run(other, 'ALTER TABLE landing."orders ""s"" 日本" ADD more int')

    try:
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(batches(target, 10), 10, alter))
    finally:
        other.close()
    assert kept(target) == (10, 1)


def test_a_domain_is_a_server_and_a_database(
    target: PostgresTarget, database: str, new_database: Callable[[str], str]
) -> None:
    same, elsewhere = (
        PostgresTarget(database, "same", "system"),
        PostgresTarget(new_database("other"), "other", "system"),
    )
    try:
        assert target.domain() == same.domain() != elsewhere.domain()
        assert json.dumps(target.domain()).isascii()
    finally:
        same.close()
        elsewhere.close()
