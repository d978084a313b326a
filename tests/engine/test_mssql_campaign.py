"""A whole campaign from PostgreSQL to SQL Server through the use cases.

Verified on Babelfish 4.3. UNVERIFIED on SQL Server: lock hints, clustered columnstore, lock escalation, and what
readers of row versions see during the swap.
"""

from __future__ import annotations

import logging
from contextlib import closing

import pytest

from dpone_dagster.campaign.errors import (
    CampaignActive,
    ColumnContractRefused,
    GenerationStale,
    KeyInvalid,
    PublicationBlocked,
)
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.increment import increment_gate, run_increment
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.rollback import preview_rollback
from dpone_dagster.engine.validate import validate
from dpone_dagster.mssql.session import Session
from dpone_dagster.mssql.stages import stage_prefix
from tests.engine.campaign import Seen, finish, lane, load
from tests.mssql_orders import TARGET_COLUMNS, MssqlOrders


@pytest.fixture
def orders(mssql_orders: MssqlOrders) -> MssqlOrders:
    return mssql_orders


def test_a_campaign_replaces_the_live_table_and_increments_follow(orders: MssqlOrders) -> None:
    old, names = orders.target_rows(), orders.index_names()
    assert names == ["orders_id", "orders_placed_at"]
    seen = load(orders)
    assert sorted(seen.done) == list(range(4))
    assert orders.target_rows() == old
    receipt = finish(orders)
    assert orders.target_rows() == orders.source_rows()
    assert orders.index_names() == names
    assert orders.target_rows(f"[landing].[{orders.spec.backup.name}]") == old
    assert (receipt.expected_rows, receipt.actual_rows, receipt.sequence) == (400, 400, 1)
    assert orders.digests()[0] == orders.digests()[1]

    assert increment_gate(orders.spec, orders.connector) is None
    change_the_source(orders)
    result = run_increment(orders.spec, orders.connector, "inc-1")
    assert (result.inserted, result.deleted, result.reconciled) == (30, 10, True)
    assert orders.target_rows() == orders.source_rows()
    quiet = run_increment(orders.spec, orders.connector, "inc-2")
    assert (quiet.inserted, quiet.updated, quiet.deleted, quiet.reconciled) == (0, 0, 0, False)
    assert left_behind(orders) == []


def change_the_source(orders: MssqlOrders) -> None:
    orders.on_source("DELETE FROM public.orders WHERE id IN (SELECT id FROM public.orders ORDER BY id LIMIT 10)")
    orders.on_source(
        "UPDATE public.orders SET note = 'Changed ' "
        "WHERE id IN (SELECT id FROM public.orders ORDER BY id DESC LIMIT 20)"
    )
    orders.on_source(
        "INSERT INTO public.orders SELECT gen_random_uuid(), 1, now(), 'new 😀', true, NULL FROM generate_series(1, 30)"
    )


def left_behind(orders: MssqlOrders) -> list[str]:
    """Tables of the target's schema that are neither live nor a backup."""
    rows = orders.on_target("SELECT t.name FROM sys.tables AS t WHERE t.schema_id = SCHEMA_ID('landing')")
    return [name for (name,) in rows if name != "orders" and "__dpone_backup_" not in name]


def test_a_column_that_has_no_digest_on_this_server_is_refused_by_name(orders: MssqlOrders) -> None:
    """On the stand-in that is a varbinary; SQL Server is expected to have none."""
    with closing(orders.connector.target("test")) as target:
        wrong = target.tables.types_without_digest()
    orders.backfill["verification"] = "digest"
    orders.on_source("ALTER TABLE public.orders ADD data bytea")
    orders.on_target("ALTER TABLE landing.orders ADD data varbinary(10) NULL")
    if not wrong:
        load(orders)
        finish(orders)
        return
    with pytest.raises(ColumnContractRefused) as refused:
        load(orders)
    (finding,) = refused.value.findings
    assert (finding.path, "varbinary(10)" in finding.problem) == ("target.data", True)
    assert "verification: row_count" in finding.advice
    assert orders.tables() == ["orders"]
    orders.backfill["verification"] = "row_count"
    load(orders)


def test_three_publications_in_a_row_keep_every_name(orders: MssqlOrders) -> None:
    names = orders.index_names()
    for number in range(1, 4):
        orders.backfill["backfill_id"] = f"orders_{number}"
        orders.on_source("UPDATE public.orders SET note = %s", f"generation {number}")
        load(orders)
        assert finish(orders).sequence == number
        assert orders.target_rows() == orders.source_rows()
        assert orders.index_names() == names


def test_a_receipt_without_its_ledger_row_is_replayed_without_reading_the_source(orders: MssqlOrders) -> None:
    load(orders)
    # As after a death between COMMIT and the ledger's move.
    orders.on_target(
        "UPDATE system.__dpone__backfill_chunks "
        "SET state = N'running', receipt_id = NULL, lease_expires_at = SYSUTCDATETIME() WHERE chunk_index = 3"
    )
    orders.on_source("ALTER TABLE public.orders RENAME TO elsewhere")
    seen = Seen()
    lane(orders, seen, run_id="run-2")
    assert (seen.done, seen.replayed) == ([], [3])


def dead_stage(orders: MssqlOrders, chunk_index: int) -> str:
    """A stage as a try that died leaves it; its chunk was claimed for it."""
    name = f"{stage_prefix(orders.spec.run_key)}c{chunk_index}_e1_t0"
    orders.on_target(f"CREATE TABLE landing.[{name}] (c0 int)")
    orders.on_target("UPDATE system.__dpone__backfill_chunks SET epoch = epoch + 1 WHERE chunk_index = ?", chunk_index)
    return name


def test_stages_of_dead_tries_go_with_the_next_claim_and_the_publication(
    orders: MssqlOrders, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dpone_dagster.mssql.stages")
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    dead, in_use, other = dead_stage(orders, 0), dead_stage(orders, 1), dead_stage(orders, 9)
    writer = Session(orders.target_url, "dying writer")
    with writer.transaction():
        writer.execute(f"INSERT INTO landing.[{in_use}] VALUES (1)")
        seen = Seen()
        lane(orders, seen)
        assert sorted(seen.done) == list(range(4))  # a stage that cannot be dropped keeps no claim back
        assert f"{in_use} stays for now" in caplog.text
    assert dead not in left_behind(orders)
    assert {in_use, other} < set(left_behind(orders))

    assert validate(orders.spec, orders.connector, "run-1").passed
    assert left_behind(orders) == [orders.spec.shadow.name]
    dead, in_use = dead_stage(orders, 0), dead_stage(orders, 1)
    with writer.transaction():
        writer.execute(f"INSERT INTO landing.[{in_use}] VALUES (1)")
        publish(orders.spec, orders.connector, "run-1")
    writer.close()
    assert left_behind(orders) == [in_use]
    assert orders.target_rows() == orders.source_rows()


def test_a_receipt_replayed_by_the_next_claimer_leaves_no_stage(orders: MssqlOrders) -> None:
    load(orders)
    orders.on_target(
        "UPDATE system.__dpone__backfill_chunks "
        "SET state = N'running', receipt_id = NULL, lease_expires_at = SYSUTCDATETIME() WHERE chunk_index = 3"
    )
    stage = dead_stage(orders, 3)
    seen = Seen()
    lane(orders, seen, run_id="run-2")
    assert seen.replayed == [3]
    assert stage not in left_behind(orders)


# ---------------------------------------------------------------- generation


MARK = """
    EXEC sp_addextendedproperty @name = N'dpone_generation', @value = N'{0}',
    @level0type = N'SCHEMA', @level0name = N'landing', @level1type = N'TABLE', @level1name = N'orders'
"""


@pytest.mark.parametrize("forged", [None, "00000000-0000-0000-0000-000000000001"])
def test_an_object_id_that_is_used_again_is_no_generation(orders: MssqlOrders, forged: str | None) -> None:
    """As if the live table had been dropped and another one had been given its object id: only its mark differs."""
    load(orders)
    finish(orders)
    orders.backfill["backfill_id"] = "orders_2"
    load(orders)
    live = orders.target_rows()
    orders.on_target(
        "EXEC sp_dropextendedproperty @name = N'dpone_generation', @level0type = N'SCHEMA', "
        "@level0name = N'landing', @level1type = N'TABLE', @level1name = N'orders'"
    )
    if forged:
        orders.on_target(MARK.format(forged))
    assert "replaced by hand" in str(increment_gate(orders.spec, orders.connector))
    evidence = validate(orders.spec, orders.connector, "run-2")
    assert [check.name for check in evidence.checks if not check.passed] == ["catalog"]
    # After validation too, under the locks of the publication.
    orders.on_target("UPDATE system.__dpone__backfill_campaigns SET phase = N'validated' WHERE phase = N'blocked'")
    with pytest.raises(GenerationStale, match="was replaced"):
        publish(orders.spec, orders.connector, "run-2")
    assert orders.target_rows() == live
    orders.backfill["backfill_id"] = "orders_1"
    with pytest.raises(GenerationStale, match="not the table of publication"):
        preview_rollback(orders.spec, orders.connector)


def test_a_copied_mark_is_no_generation_either(orders: MssqlOrders) -> None:
    load(orders)
    generation = finish(orders).generation
    orders.backfill["backfill_id"] = "orders_2"
    load(orders)
    orders.on_target("DROP TABLE landing.orders")
    orders.on_target(f"CREATE TABLE landing.orders ({TARGET_COLUMNS})")
    orders.on_target(MARK.format(generation))
    (red,) = [c for c in validate(orders.spec, orders.connector, "run-2").checks if not c.passed]
    assert "was replaced" in red.problem


def test_every_published_table_bears_the_generation_of_its_receipt(orders: MssqlOrders) -> None:
    load(orders)
    receipt = finish(orders)
    connection = orders.connector.target("test")
    live = connection.tables.describe(orders.spec.target)
    connection.close()
    assert live is not None
    assert live.generation == receipt.generation


# ---------------------------------------------------------------- what stops a campaign


def test_keys_that_the_target_takes_for_equal_block_the_publication(orders: MssqlOrders) -> None:
    load(orders)
    shadow = f"[landing].[{orders.spec.shadow.name}]"
    orders.on_target(f"INSERT INTO {shadow} SELECT TOP (1) * FROM {shadow}")
    evidence = validate(orders.spec, orders.connector, "run-1")
    assert {check.name for check in evidence.checks if not check.passed} == {"row_count", "unique_key"}
    assert status(orders.spec, orders.connector).phase is Phase.BLOCKED


def test_a_second_coordinator_is_told_who_holds_the_campaign(orders: MssqlOrders) -> None:
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    holder = orders.connector.target("lane 0 run-1")
    assert holder.fence.lock_campaign(orders.spec.run_key, "shared", 1)
    with pytest.raises(CampaignActive, match="lane 0 run-1"):
        prepare(orders.spec, orders.connector, intent="run", run_id="run-2")
    holder.close()


def test_a_reader_of_the_live_table_delays_the_swap_and_the_live_table_stays(
    orders: MssqlOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpone_dagster.engine.publish.TRIES", 1)
    load(orders)
    old = orders.target_rows()
    assert validate(orders.spec, orders.connector, "run-1").passed
    reader = Session(orders.target_url, "slow reader")
    with reader.transaction():
        reader.execute("UPDATE landing.orders SET note = note")
        with pytest.raises(PublicationBlocked):
            publish(orders.spec, orders.connector, "run-1")
    reader.close()
    assert orders.target_rows() == old
    finish(orders)
    assert orders.target_rows() == orders.source_rows()


def test_a_float_in_the_key_is_refused_where_increments_have_to_compare_keys(orders: MssqlOrders) -> None:
    orders.on_source("ALTER TABLE public.orders ADD COLUMN weight float8 NOT NULL DEFAULT 0.1")
    orders.on_target("DELETE FROM landing.orders")
    orders.on_target("ALTER TABLE landing.orders ADD weight float NOT NULL")
    orders.manifest["sink"]["strategy"]["unique_key"] = ["id", "weight"]
    before = schemas(orders)
    with pytest.raises(KeyInvalid) as refused:
        prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    (finding,) = refused.value.findings
    assert (finding.path, "xmin_execution" in finding.advice) == ("landing.orders.weight", True)
    assert schemas(orders) == before
    del orders.manifest["source"]["options"]
    assert prepare(orders.spec, orders.connector, intent="run", run_id="run-1").anchor is None


def schemas(orders: MssqlOrders) -> list[tuple[str]]:
    return sorted(orders.on_target("SELECT t.name FROM sys.tables AS t"))


def test_looking_creates_nothing(orders: MssqlOrders) -> None:
    tables = "SELECT s.name, t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id"
    before = sorted(orders.on_target(tables))
    seen = status(orders.spec, orders.connector)
    diagnosis = doctor(orders.spec, orders.connector)
    assert (seen.phase, diagnosis.findings) == (Phase.PLANNED, ())
    assert sorted(orders.on_target(tables)) == before
