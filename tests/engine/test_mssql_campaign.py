"""A whole campaign from PostgreSQL to SQL Server through the use cases.

Verified on Babelfish 4.3. UNVERIFIED on SQL Server: lock hints, clustered columnstore, lock escalation, and what
readers of row versions see during the swap.
"""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.errors import CampaignActive, KeyInvalid, PublicationBlocked
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.engine.increment import increment_gate, run_increment
from dpone_dagster.engine.inspect import doctor, status
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.validate import validate
from dpone_dagster.mssql.session import Session
from tests.engine.campaign import Seen, finish, lane, load
from tests.mssql_orders import MssqlOrders


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
