"""One chunk's transaction on SQL Server: receipt and rows together or not at all, under this session's locks only.

Verified on Babelfish 4.3. UNVERIFIED on SQL Server: that the INSERT's lock keeps the shadow from being altered.
"""

from __future__ import annotations

import logging

import pytest

from dpone_dagster.campaign.errors import (
    CatalogDrift,
    ConnectionLost,
    CountMismatch,
    Interrupted,
    LeaseLost,
    TransientFailure,
    ValueNotRepresentable,
)
from dpone_dagster.mssql import chunkwrite, stagefill
from dpone_dagster.mssql.bulk import BulkRefused
from dpone_dagster.mssql.quoting import quoted, quoted_table
from dpone_dagster.mssql.stages import drop_dead_stages
from dpone_dagster.mssql.target import MssqlTarget
from dpone_dagster.ports.tables import ShadowHandle
from tests.integration.mssql_bench import (
    CLAIM,
    RUN_KEY,
    SHADOW,
    MssqlBench,
    Rows,
    make_shadow,
    mssql_bench,
    run,
    tables,
    target,
    write_of,
)

__all__ = ["mssql_bench", "target"]
NAME = quoted_table(SHADOW)


@pytest.fixture
def handle(target: MssqlTarget) -> ShadowHandle:
    return make_shadow(target)


def lock(target: MssqlTarget) -> None:
    assert target.fence.lock_campaign(RUN_KEY, "shared", 1)
    assert target.fence.try_lock_chunk(RUN_KEY, 3)


def kept(target: MssqlTarget) -> tuple[int, int, int]:
    """Rows of the shadow, receipts, stages that are left."""
    receipts = target.session.value("SELECT COUNT(*) FROM system.__dpone__chunk_receipts")
    return target.tables.count(SHADOW), receipts, len(stages(target))


def stages(target: MssqlTarget) -> list[str]:
    return [name for (name,) in tables(target, "landing") if name.startswith("__dpone_stage_")]


def test_rows_and_receipt_are_committed_together(target: MssqlTarget, handle: ShadowHandle) -> None:
    lock(target)
    stream = Rows([600, 400])
    receipt = target.tables.write_chunk(CLAIM, write_of(handle), stream)
    assert kept(target) == (1000, 1, 0)
    assert (receipt.rows, receipt.bytes, receipt.epoch) == (1000, stream.bytes, 5)
    assert receipt.nulled == {"te'xt %s": 2}
    assert receipt.committed_at is not None
    assert target.ledger.receipt(RUN_KEY, 3) == receipt
    values = f"SELECT MIN(n), MAX(n), MIN([te'xt %s]), COUNT(extra) FROM {NAME}"
    assert target.session.rows(values) == [(1, 1000, "é😀 1", 0)]


def test_an_empty_chunk_has_a_receipt_and_makes_no_stage(target: MssqlTarget, handle: ShadowHandle) -> None:
    lock(target)
    assert target.tables.write_chunk(CLAIM, write_of(handle), Rows([])).rows == 0
    assert kept(target) == (0, 1, 0)


def test_the_campaigns_lock_may_be_exclusive(target: MssqlTarget, handle: ShadowHandle) -> None:
    assert target.fence.lock_campaign(RUN_KEY, "exclusive", 1)
    assert target.fence.try_lock_chunk(RUN_KEY, 3)
    target.tables.write_chunk(CLAIM, write_of(handle), Rows([1]))
    assert kept(target) == (1, 1, 0)


def test_without_the_chunks_lock_nothing_is_written(target: MssqlTarget, handle: ShadowHandle) -> None:
    assert target.fence.lock_campaign(RUN_KEY, "shared", 1)
    assert target.fence.try_lock_chunk(RUN_KEY, 4)
    with pytest.raises(LeaseLost, match="its lock is not held"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([1]))
    assert kept(target) == (0, 0, 0)


def test_without_the_campaigns_lock_nothing_is_written(target: MssqlTarget, handle: ShadowHandle) -> None:
    assert target.fence.try_lock_chunk(RUN_KEY, 3)
    assert target.fence.lock_campaign("8" * 64, "shared", 1)
    with pytest.raises(LeaseLost, match="campaign's lock"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([1]))
    assert kept(target) == (0, 0, 0)


def test_another_sessions_locks_do_not_count(
    target: MssqlTarget, handle: ShadowHandle, mssql_bench: MssqlBench
) -> None:
    lock(mssql_bench.target("other lane"))
    with pytest.raises(LeaseLost):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([1]))
    assert kept(target) == (0, 0, 0)


@pytest.mark.parametrize("change", ["epoch = 6", "state = N'pending'", "chunk_index = 2"])
def test_a_chunk_that_is_not_ours_any_more_is_not_written(
    target: MssqlTarget, handle: ShadowHandle, change: str
) -> None:
    lock(target)
    run(target, f"UPDATE system.__dpone__backfill_chunks SET {change}")
    with pytest.raises(LeaseLost, match="epoch 5"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([1]))
    assert kept(target) == (0, 0, 0)


def test_a_loser_is_told_so_even_if_its_successor_has_finished(target: MssqlTarget, handle: ShadowHandle) -> None:
    lock(target)
    target.tables.write_chunk(CLAIM, write_of(handle), Rows([1]))
    run(target, "UPDATE system.__dpone__backfill_chunks SET epoch = 6")
    with pytest.raises(LeaseLost, match="epoch 5"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([1]))
    assert kept(target) == (1, 1, 0)


def test_a_second_receipt_is_refused(target: MssqlTarget, handle: ShadowHandle) -> None:
    lock(target)
    target.tables.write_chunk(CLAIM, write_of(handle), Rows([2]))
    with pytest.raises(TransientFailure, match="has a receipt already"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([2]))
    assert kept(target) == (2, 1, 0)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE {shadow} ADD more int NULL",
        "ALTER TABLE {shadow} DROP COLUMN extra",
        "ALTER TABLE {shadow} ALTER COLUMN n bigint",
        "ALTER TABLE {shadow} ADD CONSTRAINT orders_five DEFAULT 5 FOR extra",
        "ALTER TABLE {shadow} ADD CONSTRAINT orders_positive CHECK (n > 0)",
        "EXEC sp_dropextendedproperty N'dpone_shadow_of', N'SCHEMA', N'landing', N'TABLE', N'orders it''s {x} %s'",
        "DROP TABLE {shadow}",
        "DROP TABLE {shadow}; SELECT TOP (0) * INTO {shadow} FROM landing.orders",
    ],
)
@pytest.mark.parametrize("rows", [[], [1]])
def test_an_altered_shadow_takes_no_row(
    target: MssqlTarget, handle: ShadowHandle, change: str, rows: list[int]
) -> None:
    lock(target)
    run(target, *change.replace("{shadow}", NAME).split(";"))
    with pytest.raises(CatalogDrift, match=r"altered|replaced"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows(rows))
    assert target.ledger.receipt(RUN_KEY, 3) is None
    assert stages(target) == []


def test_a_shadow_altered_while_rows_are_staged_takes_no_row(
    target: MssqlTarget, handle: ShadowHandle, mssql_bench: MssqlBench
) -> None:
    lock(target)
    other = mssql_bench.target("stranger")

    def alter() -> None:
        run(other, f"ALTER TABLE {NAME} ADD more int NULL")

    with pytest.raises(CatalogDrift, match="altered"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([5, 5], after_first=alter))
    assert kept(target) == (0, 0, 0)


@pytest.mark.parametrize("said", [0, 9, 11])
def test_rows_that_the_source_did_not_send_are_not_kept(target: MssqlTarget, handle: ShadowHandle, said: int) -> None:
    lock(target)
    with pytest.raises(CountMismatch, match=f"{said} rows read, 10 sent, 10 staged"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([10], said))
    assert kept(target) == (0, 0, 0)


def test_rows_that_are_lost_between_stage_and_shadow_are_not_kept(
    target: MssqlTarget, handle: ShadowHandle, mssql_bench: MssqlBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(target)
    other = mssql_bench.target("test other")

    def lose_one(place: str, _index: int) -> None:
        if place == "after_stage":
            (stage,) = stages(other)
            run(other, f"DELETE TOP (1) FROM landing.{quoted(stage)}")

    monkeypatch.setattr(chunkwrite, "reach", lose_one)
    with pytest.raises(CountMismatch, match="10 rows read, 9 rows written"):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([10]))
    assert kept(target) == (0, 0, 0)


@pytest.mark.parametrize(
    "error", [ValueNotRepresentable("n: nan"), KeyboardInterrupt(), ConnectionLost("source"), SystemExit()]
)
def test_an_exception_in_the_stream_comes_through_and_leaves_nothing(
    target: MssqlTarget, handle: ShadowHandle, error: BaseException
) -> None:
    lock(target)

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([10, 10], after_first=fail))
    assert caught.value is error
    assert kept(target) == (0, 0, 0)
    # The session and its locks are as good as before.
    target.tables.write_chunk(CLAIM, write_of(handle), Rows([10]))
    assert kept(target) == (10, 1, 0)


def test_a_cancel_from_outside_leaves_nothing(target: MssqlTarget, handle: ShadowHandle) -> None:
    lock(target)
    with pytest.raises(Interrupted):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([10, 10], after_first=target.cancel))
    assert kept(target) == (0, 0, 0)


def test_a_session_that_is_ended_meanwhile_leaves_nothing_and_frees_its_locks(
    target: MssqlTarget, handle: ShadowHandle, mssql_bench: MssqlBench
) -> None:
    lock(target)
    other = mssql_bench.target("operator")

    def end() -> None:
        run(other, f"KILL {target.session.session_id}")

    with pytest.raises(ConnectionLost):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([10, 10], after_first=end))
    assert kept(other)[:2] == (0, 0)
    assert other.fence.try_lock_chunk(RUN_KEY, 3)
    # The stage that was left is dropped by the next claimer.
    assert other.fence.lock_campaign(RUN_KEY, "shared", 1)
    other.tables.drop_dead_stages(SHADOW, RUN_KEY, 3)
    other.tables.write_chunk(CLAIM, write_of(handle), Rows([10]))
    assert kept(other) == (10, 1, 0)


def test_stages_of_dead_tries_are_dropped_and_those_of_others_are_not(
    target: MssqlTarget, handle: ShadowHandle
) -> None:
    lock(target)
    run(target, "CREATE TABLE landing.__dpone_stage_0000000000000000_c3_e1_t0 (c0 int)")
    made: list[str] = []

    def look() -> None:
        made.extend(name for name in stages(target) if "0000000000000000" not in name)

    target.tables.write_chunk(CLAIM, write_of(handle), Rows([1, 1], after_first=look))
    (stage,) = made
    assert "_c3_e5_t" in stage
    chunk_4 = stage.replace("_c3_", "_c4_")
    chunk_33 = stage.replace("_c3_", "_c33_")
    for name in (stage, chunk_4, chunk_33):
        run(target, f"CREATE TABLE landing.[{name}] (c0 int)")
    drop_dead_stages(target.session, "landing", RUN_KEY, 3)
    assert sorted(stages(target))[1:] == sorted([chunk_33, chunk_4])
    target.tables.drop_dead_stages(SHADOW, RUN_KEY)
    assert stages(target) == ["__dpone_stage_0000000000000000_c3_e1_t0"]


def test_the_bulk_session_says_for_whom_it_writes(
    target: MssqlTarget, handle: ShadowHandle, mssql_bench: MssqlBench
) -> None:
    lock(target)
    other = mssql_bench.target("looking")
    seen: list[tuple[object, ...]] = []

    def look() -> None:
        seen.extend(
            other.session.rows(
                "SELECT program_name, CAST(context_info AS varchar(128)) FROM sys.dm_exec_sessions "
                "WHERE program_name LIKE 'dpone % bulk'"
            )
        )

    target.tables.write_chunk(CLAIM, write_of(handle), Rows([1, 1], after_first=look))
    assert ("dpone test lane bulk", f"{RUN_KEY[:12]} chunk=3 epoch=5") in [
        (name, str(label).rstrip("\0")) for name, label in seen
    ]


def test_a_dead_stage_that_is_still_written_to_is_left_alone(
    target: MssqlTarget, handle: ShadowHandle, mssql_bench: MssqlBench, caplog: pytest.LogCaptureFixture
) -> None:
    lock(target)
    made: list[str] = []
    target.tables.write_chunk(CLAIM, write_of(handle), Rows([1, 1], after_first=lambda: made.extend(stages(target))))
    run(target, f"CREATE TABLE landing.[{made[0]}] (c0 int)")
    writer = mssql_bench.target("dying")
    with writer.transaction():
        run(writer, f"INSERT INTO landing.[{made[0]}] VALUES (1)")
        with caplog.at_level(logging.INFO, "dpone_dagster.mssql.stages"):
            drop_dead_stages(target.session, "landing", RUN_KEY, 3)
        assert "stays for now" in caplog.text
        assert target.session.value("SELECT @@LOCK_TIMEOUT") == -1
    drop_dead_stages(target.session, "landing", RUN_KEY, 3)
    assert stages(target) == []


def test_where_bulk_copy_is_refused_rows_go_one_by_one_and_the_log_says_so(
    target: MssqlTarget,
    handle: ShadowHandle,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lock(target)

    def refuse(_session: object, _stage: object, stream: object) -> int:
        next(iter(stream))  # type: ignore[call-overload]
        raise BulkRefused("bulk copy: the INSERT permission was denied")

    monkeypatch.setattr(stagefill, "bulk_copy", refuse)
    receipt = target.tables.write_chunk(CLAIM, write_of(handle), Rows([60, 0, 40]))
    assert receipt.rows == 100
    assert kept(target) == (100, 1, 0)
    assert "exact but slower" in caplog.text
    values = f"SELECT MIN(n), MAX(n), COUNT(DISTINCT [te'xt %s]), COUNT(extra) FROM {NAME}"
    assert target.session.rows(values) == [(1, 100, 100, 0)]


def test_a_bulk_copy_that_fails_halfway_is_not_mended_row_by_row(
    target: MssqlTarget, handle: ShadowHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(target)

    def refuse(_session: object, _stage: object, stream: object) -> int:
        list(stream)  # type: ignore[call-overload]
        raise BulkRefused("bulk copy: it broke")

    monkeypatch.setattr(stagefill, "bulk_copy", refuse)
    with pytest.raises(BulkRefused):
        target.tables.write_chunk(CLAIM, write_of(handle), Rows([60, 40]))
    assert kept(target) == (0, 0, 0)


def test_while_rows_flow_the_lease_can_be_renewed(
    target: MssqlTarget, handle: ShadowHandle, mssql_bench: MssqlBench
) -> None:
    lock(target)
    other = mssql_bench.target("lease")

    def renew() -> None:
        run(
            other,
            "SET LOCK_TIMEOUT 1000",
            "UPDATE system.__dpone__backfill_chunks SET lease_expires_at = SYSUTCDATETIME()",
        )

    target.tables.write_chunk(CLAIM, write_of(handle), Rows([10, 10], after_first=renew))
    assert kept(target) == (20, 1, 0)
