"""Shadow and swap on SQL Server, from catalog to catalog.

Verified on Babelfish 4.3. UNVERIFIED on SQL Server: that the names of indexes stay (the stand-in changes names by
itself), clustered indexes and columnstores, lock escalation, compression, filters and statistics (the stand-in has none
of them), and that whoever blocks a lock is named.
"""

from __future__ import annotations

import time

import pytest

from dpone_dagster.campaign.errors import CatalogDrift, PublicationBlocked, ShadowForeign
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.quoting import quoted_table
from dpone_dagster.mssql.target import MssqlTarget
from dpone_dagster.ports.tables import KeyQuality
from tests.integration.mssql_bench import (
    LIVE,
    RUN_KEY,
    SHADOW,
    MssqlBench,
    described,
    fill,
    make_shadow,
    mssql_bench,
    run,
    tables,
    target,
)
from tests.waiting import promised

__all__ = ["mssql_bench", "target"]
BACKUP = TableRef("landing", "orders a.b it's")
UNMARKED = "00000000-0000-0000-0000-000000000001"
NAME = quoted_table(SHADOW)


def publish(target: MssqlTarget, shadow: TableRef = SHADOW, backup: TableRef = BACKUP) -> None:
    target.tables.build_indexes(shadow, described(target))
    swap(target, shadow, backup)


def swap(target: MssqlTarget, shadow: TableRef = SHADOW, backup: TableRef = BACKUP) -> None:
    with target.transaction():
        for table in (shadow, LIVE):
            target.tables.lock_table(table, 1)
        swapped_in = described(target, shadow)
        target.tables.swap(described(target), swapped_in, backup, swapped_in.generation or UNMARKED)


def names_on(target: MssqlTarget) -> list[str]:
    rows = target.session.rows("SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID('landing.orders')")
    return sorted(str(row[0]) for row in rows if row[0])


# ---------------------------------------------------------------- shadow


def test_the_full_shadow_has_the_live_tables_contract_and_its_own_object(target: MssqlTarget) -> None:
    handle = make_shadow(target)
    live, shadow = described(target), described(target, SHADOW)
    assert (handle.object_id, shadow.findings, shadow.rows_exist) == (shadow.object_id, (), False)
    assert shadow.object_id != live.object_id
    assert shadow.contract["indexes"] == []
    target.tables.build_indexes(SHADOW, live)
    full = described(target, SHADOW)
    assert (full.contract, full.sha256) == (live.contract, live.sha256)
    assert full.unique_keys == live.unique_keys == (("n",),)


def test_a_shadow_is_owned_by_one_run_key(target: MssqlTarget) -> None:
    assert target.tables.shadow_owner(SHADOW) is None
    handle = make_shadow(target)
    assert target.tables.shadow_owner(SHADOW) == RUN_KEY
    assert make_shadow(target) == handle
    with pytest.raises(ShadowForeign, match=RUN_KEY[:12]):
        make_shadow(target, run_key="8" * 64)
    assert target.tables.shadow_owner(LIVE) == ""


@pytest.mark.parametrize("what", ["TABLE {0} (n int)", "VIEW {0} AS SELECT 1 AS one"])
def test_a_strangers_object_is_never_taken(target: MssqlTarget, what: str) -> None:
    run(target, "CREATE " + what.format(NAME))
    assert target.tables.shadow_owner(SHADOW) == ""
    with pytest.raises(ShadowForeign, match="no campaign"):
        make_shadow(target)


def test_a_creation_that_is_rolled_back_leaves_nothing(target: MssqlTarget) -> None:
    live = described(target)
    with pytest.raises(ZeroDivisionError), target.transaction():  # noqa: PT012
        target.tables.create_shadow(live, SHADOW, RUN_KEY)
        raise ZeroDivisionError
    assert target.tables.shadow_owner(SHADOW) is None


def test_two_shadows_of_one_campaign_in_a_row_are_not_the_same(target: MssqlTarget) -> None:
    first = make_shadow(target)
    run(target, f"DROP TABLE {NAME}")
    assert make_shadow(target).digest != first.digest


def test_a_live_table_that_was_replaced_is_drift(target: MssqlTarget) -> None:
    live = described(target)
    run(target, "DROP TABLE landing.orders", "CREATE TABLE landing.orders (n int NOT NULL)")
    with pytest.raises(CatalogDrift, match="replaced"), target.transaction():
        target.tables.create_shadow(live, SHADOW, RUN_KEY)


def test_building_again_keeps_what_is_built_and_replaces_what_is_strange(target: MssqlTarget) -> None:
    make_shadow(target)
    target.tables.build_indexes(SHADOW, described(target))
    query = f"SELECT index_id FROM sys.indexes WHERE object_id = OBJECT_ID(N'{NAME.replace(chr(39), chr(39) * 2)}')"
    before = target.session.rows(query)
    target.tables.build_indexes(SHADOW, described(target))
    assert target.session.rows(query) == before
    run(target, "CREATE INDEX orders_more ON landing.orders (n, extra)")
    target.tables.build_indexes(SHADOW, described(target))
    assert described(target, SHADOW).contract == described(target).contract


def test_an_altered_shadow_is_drift_at_the_build(target: MssqlTarget) -> None:
    make_shadow(target)
    run(target, f"ALTER TABLE {NAME} ADD more int NULL")
    with pytest.raises(CatalogDrift, match="columns"):
        target.tables.build_indexes(SHADOW, described(target))


def test_duplicates_under_a_unique_index_are_counted_and_the_index_is_named(target: MssqlTarget) -> None:
    make_shadow(target)
    fill(target, SHADOW, [4711, 4711, 4711, 1])
    (violation,) = target.tables.build_indexes(SHADOW, described(target))
    assert violation.index.startswith("orders_n")
    assert violation.surplus_rows == 2
    run(target, f"DELETE FROM {NAME}")
    assert target.tables.build_indexes(SHADOW, described(target)) == []


def test_key_quality_counts_surplus_rows_as_the_column_compares(target: MssqlTarget) -> None:
    run(
        target,
        "CREATE TABLE landing.q (k nvarchar(20) NULL, b int NULL)",
        "INSERT INTO landing.q VALUES (N'abc', 1), (N'ABC', 1), (N'abc', 1), (N'x', NULL), (NULL, NULL), (N'y', 1)",
    )
    table = TableRef("landing", "q")
    assert target.tables.key_quality(table, ("k",)) == KeyQuality(null_keys=1, duplicate_keys=2)
    assert target.tables.key_quality(table, ("k", "b")) == KeyQuality(null_keys=2, duplicate_keys=2)
    assert target.tables.count(table) == 6


# ---------------------------------------------------------------- swap


def test_three_publications_in_a_row_work_and_keep_every_backup(target: MssqlTarget) -> None:
    names, contract = names_on(target), described(target).contract
    for number in range(1, 4):
        shadow, backup = LIVE.sibling(f"shadow {number}"), LIVE.sibling(f"backup {number}")
        make_shadow(target, shadow, str(number) * 64)
        fill(target, shadow, range(number * 100))
        publish(target, shadow, backup)
        assert target.tables.count(LIVE) == number * 100
        assert target.tables.count(backup) == (1 if number == 1 else (number - 1) * 100)
        assert described(target).contract == contract
        assert described(target).findings == ()
        assert target.tables.shadow_owner(LIVE) == target.tables.shadow_owner(backup) == ""
        if contract["indexes"][0]["name"]:  # type: ignore[index]
            assert names_on(target) == names
    assert [name for (name,) in tables(target, "landing")] == ["backup 1", "backup 2", "backup 3", "orders"]


def test_a_backup_is_swapped_back_by_the_same_call(target: MssqlTarget) -> None:
    make_shadow(target)
    fill(target, SHADOW, [1, 2])
    publish(target)
    swap(target, BACKUP, SHADOW)
    assert (target.tables.count(LIVE), target.tables.count(SHADOW)) == (1, 2)


def test_a_swap_that_is_rolled_back_leaves_every_name(target: MssqlTarget) -> None:
    make_shadow(target)
    target.tables.build_indexes(SHADOW, described(target))
    before = described(target), described(target, SHADOW)
    with pytest.raises(ZeroDivisionError), target.transaction():  # noqa: PT012
        target.tables.lock_table(LIVE, 1)
        target.tables.swap(*before, BACKUP, before[1].generation or UNMARKED)
        raise ZeroDivisionError
    assert (described(target), described(target, SHADOW)) == before
    assert target.tables.shadow_owner(SHADOW) == RUN_KEY


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE landing.orders ADD more int NULL",
        "ALTER TABLE {0} ADD more int NULL",
        "CREATE INDEX orders_late ON landing.orders (extra)",
        "CREATE INDEX orders_late ON {0} (extra)",
        "DROP TABLE {0}; SELECT TOP (0) * INTO {0} FROM landing.orders",
    ],
)
def test_a_change_after_the_look_is_drift_and_changes_nothing(target: MssqlTarget, change: str) -> None:
    make_shadow(target)
    target.tables.build_indexes(SHADOW, described(target))
    live, shadow = described(target), described(target, SHADOW)
    run(target, *change.format(NAME).split(";"))
    before = tables(target, "landing")
    with pytest.raises(CatalogDrift), target.transaction():
        target.tables.swap(live, shadow, BACKUP, shadow.generation or UNMARKED)
    assert tables(target, "landing") == before
    assert described(target).object_id == live.object_id


def test_a_foreign_table_under_the_backups_name_is_kept(target: MssqlTarget) -> None:
    make_shadow(target)
    run(target, f"CREATE TABLE {quoted_table(BACKUP)} (n int)")
    with pytest.raises(CatalogDrift, match="taken"):
        publish(target)
    assert described(target, BACKUP).contract != described(target).contract


def test_a_locked_table_is_everybody_elses_to_wait_for(target: MssqlTarget, mssql_bench: MssqlBench) -> None:
    other = mssql_bench.target("reader")
    run(other, "SET LOCK_TIMEOUT 300")
    with target.transaction():
        target.tables.lock_table(LIVE, 1)
        for statement in ("SELECT * FROM landing.orders", "INSERT INTO landing.orders VALUES (5, NULL, NULL)"):
            with pytest.raises(Exception, match=r"(?i)lock"):
                run(other, statement)
        assert target.session.value("SELECT COUNT(*) FROM landing.orders") == 1
    run(other, "INSERT INTO landing.orders VALUES (5, NULL, NULL)")
    assert described(target).contract["columns"]


def test_a_lock_that_is_not_free_gives_up_in_time_and_leaves_no_time_out(
    target: MssqlTarget, mssql_bench: MssqlBench
) -> None:
    other = mssql_bench.target("long writer")
    with other.transaction():
        run(other, "UPDATE landing.orders SET extra = 7")
        started = time.monotonic()
        message = r"landing\.orders was not free within 0\.5 s"
        with pytest.raises(PublicationBlocked, match=message) as blocked, target.transaction():
            target.tables.lock_table(LIVE, 0.5)
        assert time.monotonic() - started < promised(5)
        if not mssql_bench.stand_in:
            assert "long writer" in str(blocked.value)
    assert target.session.value("SELECT @@LOCK_TIMEOUT") == -1
    with target.transaction():
        target.tables.lock_table(LIVE, 0.5)
    assert described(target).rows_exist


def test_a_lock_of_a_missing_table_is_drift(target: MssqlTarget) -> None:
    with pytest.raises(CatalogDrift, match="gone"), target.transaction():
        target.tables.lock_table(LIVE.sibling("nothing"), 1)


def test_no_horizon_is_needed(target: MssqlTarget) -> None:
    make_shadow(target)
    assert target.tables.seal(SHADOW) is None
    assert target.tables.settle_horizon(SHADOW, None) == []
