"""What increments settle, whatever happened to the source before, between and while they run.

With a SQL Server target: Verified on Babelfish 4.3.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from dpone_dagster.campaign.errors import CatalogDrift, DeleteMarkUnsuitable, IncrementRefused, UniqueConflict
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.apply import Compare
from dpone_dagster.engine.increment import IncrementResult, run_increment
from dpone_dagster.engine.prepare import prepare
from tests.engine.campaign import Seen, finish, lane, load
from tests.mssql_orders import MssqlOrders, make_either_orders
from tests.orders import Orders

ZEROS = "0000000-0000-0000-0000-000000000000"
CHECKPOINT = "SELECT anchor_xid, revision FROM system.__dpone__xmin_checkpoints"
FIRST, LAST = (
    "(SELECT id FROM public.orders ORDER BY id LIMIT {})",
    "(SELECT id FROM public.orders ORDER BY id DESC LIMIT {})",
)


@pytest.fixture(params=["postgres", "mssql"])
def either(request: pytest.FixtureRequest) -> Orders:
    """200 orders in 4 chunks, for one target and then the other."""
    return make_either_orders(request, rows=200, chunks=4)


def increment(orders: Orders, run_id: str = "inc", *, compare: Compare = "policy") -> IncrementResult:
    return run_increment(orders.spec, orders.connector, run_id, compare=compare)


def written(done: IncrementResult) -> tuple[int, int, int]:
    return done.inserted, done.updated, done.deleted


def policy(orders: Orders, **keys: Any) -> None:
    orders.manifest["dagster"] = {"incremental": keys}


def published(orders: Orders) -> None:
    load(orders)
    finish(orders)


# ---------------------------------------------------------------- what the initial load cannot know


def test_what_happens_while_a_campaign_runs_is_settled_by_the_first_increment(either: Orders) -> None:
    orders = either
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    lane(orders, Seen(), selection=ChunkSelection(((0, 2),)))
    moves = (
        # From a chunk that is still to be read into one that was read: missed. And back: loaded twice, by two keys.
        f"UPDATE public.orders SET id = overlay(id::text placing '0' from 1 for 1)::uuid WHERE id IN {LAST.format(3)}",
        "UPDATE public.orders SET id = overlay(id::text placing 'f' from 1 for 1)::uuid "
        f"WHERE id IN (SELECT id FROM public.orders WHERE id > '3{ZEROS}' ORDER BY id LIMIT 3)",
        f"DELETE FROM public.orders WHERE id IN {FIRST.format(5)}",
        f"DELETE FROM public.orders WHERE id IN {LAST.format(5)}",
        f"UPDATE public.orders SET note = 'changed' WHERE id IN {FIRST.format(7)}",
    )
    for move in moves:
        orders.on_source(move)
    again = orders.on_source(f"DELETE FROM public.orders WHERE id IN {FIRST.format(1)} RETURNING id, placed_at")[0]
    orders.on_source("INSERT INTO public.orders VALUES (%s, 1, %s, 'back again', true, NULL)", *again)
    lane(orders, Seen(), selection=ChunkSelection(((2, 4),)))
    orders.on_source(f"DELETE FROM public.orders WHERE id IN {FIRST.format(2)}")
    finish(orders)
    assert orders.target_rows() != orders.source_rows()

    done = increment(orders)

    assert orders.target_rows() == orders.source_rows()
    assert done.compared == "keys"
    assert done.deleted > 0
    assert 0 < done.differing < 1024
    assert written(increment(orders, "quiet")) == (0, 0, 0)


def test_the_first_increment_compares_keys_whatever_the_policy(orders: Orders) -> None:
    policy(orders, reconcile_deletes="never")
    published(orders)
    for number, expected in enumerate([3, 0]):
        orders.on_source(f"DELETE FROM public.orders WHERE id IN {FIRST.format(3)}")
        assert increment(orders, f"inc-{number}").deleted == expected
    policy(orders, reconcile_deletes="always")
    assert increment(orders, "inc-2").deleted == 3
    assert orders.target_rows() == orders.source_rows()


def test_a_writer_that_stays_open_over_two_increments_is_not_passed_over(orders: Orders) -> None:
    published(orders)
    with psycopg.connect(orders.source_url) as slow:
        slow.execute("UPDATE public.orders SET note = 'slow' WHERE paid")
        for number in range(2):
            orders.on_source("UPDATE public.orders SET note = %s WHERE NOT paid", f"quick {number}")
            assert increment(orders, f"inc-{number}").updated == 1_000
        slow.commit()
    assert increment(orders, "inc-2").updated == 1_000
    assert orders.target_rows() == orders.source_rows()


def test_a_row_that_moves_between_partitions_is_not_lost(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders RENAME TO old")
    columns = "id uuid NOT NULL, amount numeric(18,2), placed_at timestamptz NOT NULL, note text, paid boolean NOT NULL"
    orders.on_source(f"CREATE TABLE public.orders ({columns}, detail jsonb) PARTITION BY LIST (paid)")
    orders.on_source("CREATE TABLE public.paid PARTITION OF public.orders FOR VALUES IN (true)")
    orders.on_source("CREATE TABLE public.open PARTITION OF public.orders FOR VALUES IN (false)")
    orders.on_source("INSERT INTO public.orders SELECT * FROM public.old")
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    lane(orders, Seen(), selection=ChunkSelection(((0, 4),)))
    orders.on_source(f"UPDATE public.orders SET paid = NOT paid WHERE id IN {FIRST.format(10)}")
    lane(orders, Seen(), selection=ChunkSelection(((4, 8),)))
    finish(orders)
    assert increment(orders).updated == 10
    orders.on_source(f"UPDATE public.orders SET paid = NOT paid WHERE id IN {LAST.format(10)}")
    assert increment(orders, "inc-2").updated == 10
    assert orders.target_rows() == orders.source_rows()


# ---------------------------------------------------------------- guards


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"max_delete_rows": 9},
            "max_delete_rows is 9: 10 of 2000 target rows are gone from the source, which has 1990",
        ),
        ({"max_delete_fraction": 0.004}, "max_delete_fraction is 0.004: 10 of 2000 target rows"),
    ],
)
def test_too_many_deletes_stop_before_anything_is_written(orders: Orders, keys: dict[str, Any], words: str) -> None:
    policy(orders, **keys)
    published(orders)
    orders.on_source(f"DELETE FROM public.orders WHERE id IN {FIRST.format(10)}")
    orders.on_source("UPDATE public.orders SET note = 'changed'")
    rows, checkpoint = orders.target_rows(), orders.on_target(CHECKPOINT)
    with pytest.raises(IncrementRefused, match=words):
        increment(orders)
    assert (orders.target_rows(), orders.on_target(CHECKPOINT)) == (rows, checkpoint)
    policy(orders, max_delete_rows=10, max_delete_fraction=0.005)
    assert increment(orders, "inc-2").deleted == 10
    assert orders.target_rows() == orders.source_rows()


def test_an_empty_source_empties_the_target_only_where_that_is_allowed(orders: Orders) -> None:
    orders.backfill["allow_empty"] = True
    policy(orders, max_delete_fraction=0.99)
    published(orders)
    orders.on_source("DELETE FROM public.orders")
    with pytest.raises(IncrementRefused, match=r"max_delete_fraction is 0\.99: 2000 of 2000"):
        increment(orders)
    policy(orders, max_delete_fraction=1)
    assert increment(orders, "inc-2").deleted == 2_000
    assert orders.target_rows() == []


# ---------------------------------------------------------------- deleted rows are marked


def test_rows_that_vanish_are_marked_and_unmarked_when_they_come_back(either: Orders) -> None:
    orders = either
    kind = "datetimeoffset(3)" if isinstance(orders, MssqlOrders) else "timestamptz"
    orders.on_target(f"ALTER TABLE landing.orders ADD deleted_at {kind} NULL")
    policy(orders, delete_mode="soft", soft_delete_column="deleted_at", reconcile_deletes="always")
    published(orders)
    gone = orders.on_source(f"DELETE FROM public.orders WHERE id IN {FIRST.format(4)} RETURNING id, placed_at")
    assert written(increment(orders)) == (0, 0, 4)
    assert len(orders.target_rows()) == 200
    assert marked(orders) == sorted(str(key) for key, _ in gone)
    assert written(increment(orders, "inc-2")) == (0, 0, 0), "marked once"
    orders.on_source("INSERT INTO public.orders VALUES (%s, 1, %s, 'back again', true, NULL)", *gone[0])
    assert written(increment(orders, "inc-3")) == (0, 1, 0)
    assert marked(orders) == sorted(str(key) for key, _ in gone[1:])


def marked(orders: Orders) -> list[str]:
    rows = orders.on_target("SELECT id FROM landing.orders WHERE deleted_at IS NOT NULL")
    return sorted(str(key).lower() for (key,) in rows)


def test_the_mark_is_proven_again_by_each_increment(orders: Orders) -> None:
    published(orders)
    policy(orders, delete_mode="soft", soft_delete_column="note")
    with pytest.raises(DeleteMarkUnsuitable, match="is loaded from the source"):
        increment(orders)


# ---------------------------------------------------------------- another unique index


def test_unique_values_may_change_places_and_be_used_again(either: Orders) -> None:
    orders = either
    orders.on_target(
        "DROP INDEX landing.orders_placed_at"
        if not isinstance(orders, MssqlOrders)
        else "DROP INDEX orders_placed_at ON landing.orders"
    )
    orders.on_target("TRUNCATE TABLE landing.orders")
    orders.on_target("CREATE UNIQUE INDEX orders_placed_at ON landing.orders (placed_at)")
    policy(orders, reconcile_deletes="never")
    published(orders)
    increment(orders, "first")
    (one, other, third) = orders.on_source("SELECT id, placed_at FROM public.orders ORDER BY id LIMIT 3")
    # No unique index in the source, so that a swap is two plain updates there.
    orders.on_source("UPDATE public.orders SET placed_at = %s WHERE id = %s", one[1], other[0])
    orders.on_source("UPDATE public.orders SET placed_at = %s WHERE id = %s", other[1], one[0])
    orders.on_source("DELETE FROM public.orders WHERE id = %s", third[0])
    orders.on_source("INSERT INTO public.orders VALUES (gen_random_uuid(), 1, %s, 'its heir', true, NULL)", third[1])

    done = increment(orders, "swap")

    assert orders.target_rows() == orders.source_rows()
    assert (written(done), done.compared) == ((1, 2, 1), "keys")
    assert (increment(orders, "quiet").compared, written(increment(orders, "quieter"))) == (None, (0, 0, 0))


def test_values_that_are_not_unique_in_the_source_are_refused_for_good(orders: Orders) -> None:
    orders.on_target("CREATE UNIQUE INDEX orders_placed ON landing.orders (placed_at)")
    published(orders)
    orders.on_source("UPDATE public.orders SET placed_at = now() WHERE paid")
    rows, checkpoint = orders.target_rows(), orders.on_target(CHECKPOINT)
    with pytest.raises(UniqueConflict, match="`orders_placed` of") as caught:
        increment(orders)
    assert "run the increment again" in caught.value.advice
    assert (orders.target_rows(), orders.on_target(CHECKPOINT)) == (rows, checkpoint)


@pytest.mark.parametrize("either", ["mssql"], indirect=True)
def test_a_key_that_the_collation_takes_for_another_overwrites_no_row(either: Orders) -> None:
    orders = either
    orders.on_source("ALTER TABLE public.orders ALTER note TYPE varchar(40)")
    orders.on_source("UPDATE public.orders SET note = 'Abc ' || id")
    orders.on_source("ALTER TABLE public.orders ALTER note SET NOT NULL")
    orders.on_target("DROP TABLE landing.orders")
    orders.on_target(
        "CREATE TABLE landing.orders (id uniqueidentifier NOT NULL, amount decimal(18,2) NULL, placed_at "
        "datetimeoffset(6) NOT NULL, note nvarchar(40) NOT NULL, paid bit NOT NULL, detail nvarchar(max) NULL)"
    )
    orders.on_target("CREATE UNIQUE INDEX one_note ON landing.orders (note)")
    strategy = orders.manifest["sink"]["strategy"]
    strategy["unique_key"] = ["note"]
    strategy["backfill"]["chunk"]["immutable"] = True
    published(orders)
    increment(orders, "first")
    before = orders.target_rows()
    ((key,),) = orders.on_source("SELECT note FROM public.orders ORDER BY note LIMIT 1")
    columns = "gen_random_uuid(), amount, placed_at, upper(note), paid, detail"
    orders.on_source(f"INSERT INTO public.orders SELECT {columns} FROM public.orders WHERE note = %s", key)
    with pytest.raises(UniqueConflict):
        increment(orders, "two keys")
    assert orders.target_rows() == before

    orders.on_source("DELETE FROM public.orders WHERE note = %s", key)
    assert written(increment(orders, "one key, written anew")) == (1, 0, 1)
    assert orders.target_rows() == orders.source_rows()


# ---------------------------------------------------------------- what an increment costs and says


def test_an_increment_without_changes_is_one_scan_of_the_source_and_no_write_to_the_target(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders ALTER amount TYPE numeric")
    orders.manifest["sink"]["columns"] = {"amount": {"on_bad_value": "null"}}
    published(orders)
    increment(orders, "first")
    user_writes = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE schemaname = 'landing'"
    catalog_writes = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_sys_tables WHERE relname = 'pg_class'"
    scans = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'orders'"
    before = [orders.target_counters(user_writes), orders.target_counters(catalog_writes)]
    ((read,),) = orders.source_counters(scans)
    revision = orders.on_target(CHECKPOINT)[0][1]

    done = increment(orders, "quiet")

    assert (written(done), done.rows_read, done.compared) == ((0, 0, 0), 0, None)
    assert [orders.target_counters(user_writes), orders.target_counters(catalog_writes)] == before
    assert orders.source_counters(scans) == [(read + 1,)]
    assert orders.on_target(CHECKPOINT)[0][1] == revision + 1


def test_values_that_were_set_to_null_are_recorded(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders ALTER amount TYPE numeric")
    orders.manifest["sink"]["columns"] = {"amount": {"on_bad_value": "null"}}
    published(orders)
    increment(orders, "first")
    orders.on_source(f"UPDATE public.orders SET amount = 1.2367 WHERE id IN {FIRST.format(3)}")

    assert increment(orders, "inc-2").nulled == {"amount": 3}

    facts = "SELECT facts FROM system.__dpone__load_steps WHERE load_id = 'inc-2'"
    assert orders.on_target(facts)[0][0]["nulled"] == {"amount": 3}


def test_a_failed_increment_says_how_to_run_it_again(orders: Orders) -> None:
    published(orders)
    orders.on_source("ALTER TABLE public.orders ADD extra int DEFAULT 5")
    with pytest.raises(CatalogDrift) as caught:
        increment(orders)
    assert "backfill resume" not in caught.value.advice
    assert "run the increment again" in caught.value.advice


def test_comparing_rows_finds_what_nobody_told_the_target(either: Orders) -> None:
    orders = either
    published(orders)
    clean = increment(orders, "clean", compare="rows")
    assert (written(clean), clean.differing) == ((0, 0, 0), 0), "all types are digested alike on both sides"
    keys = [str(row[0]) for row in orders.target_rows()[:2]]
    orders.on_target(f"UPDATE landing.orders SET note = 'by hand' WHERE id = '{keys[0]}'")
    orders.on_target(f"DELETE FROM landing.orders WHERE id = '{keys[1]}'")
    by_keys = increment(orders, "keys", compare="keys")
    assert (written(by_keys), by_keys.differing) == ((1, 0, 0), 1)
    assert orders.target_rows() != orders.source_rows()
    done = increment(orders, "rows", compare="rows")
    assert (written(done), done.differing) == ((0, 1, 0), 1)
    assert orders.target_rows() == orders.source_rows()
