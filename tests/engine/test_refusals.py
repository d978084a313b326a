"""What prepare refuses: by name, before a row is read, with nothing created anywhere."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from dpone_dagster.campaign.errors import Refused, SourceIsTarget
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.prepare import prepare
from tests.orders import COLUMNS, Orders

EVERYTHING = """
    SELECT n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1, 2
"""


def _nullable_chunk_column(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders DROP CONSTRAINT orders_pkey, ALTER id DROP NOT NULL")


def _nullable_key_in_the_target(orders: Orders) -> None:
    orders.on_target("ALTER TABLE landing.orders DROP CONSTRAINT orders_pkey, ALTER id DROP NOT NULL")


def _key_that_is_not_there(orders: Orders) -> None:
    orders.manifest["sink"]["strategy"]["unique_key"] = ["id", "shop"]


def _a_chunk_column_of_another_type(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders ALTER id TYPE text")


def _a_view_for_xmin(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders RENAME TO real")
    orders.on_source("CREATE VIEW public.orders AS SELECT * FROM public.real")


def _a_materialized_view_for_xmin(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders RENAME TO real")
    orders.on_source("CREATE MATERIALIZED VIEW public.orders AS SELECT * FROM public.real")


def _a_foreign_table_for_xmin(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders RENAME TO real")
    orders.on_source("CREATE FOREIGN DATA WRAPPER elsewhere")
    orders.on_source("CREATE SERVER elsewhere FOREIGN DATA WRAPPER elsewhere")
    orders.on_source(f"CREATE FOREIGN TABLE public.orders ({COLUMNS}) SERVER elsewhere")


def _a_foreign_partition_for_xmin(orders: Orders) -> None:
    _a_foreign_table_for_xmin(orders)
    orders.on_source("ALTER FOREIGN TABLE public.orders RENAME TO far")
    orders.on_source(f"CREATE TABLE public.orders ({COLUMNS}) PARTITION BY HASH (id)")
    orders.on_source("ALTER TABLE public.orders ATTACH PARTITION far FOR VALUES WITH (MODULUS 1, REMAINDER 0)")


def _no_unique_index_on_the_target(orders: Orders) -> None:
    orders.on_target("ALTER TABLE landing.orders DROP CONSTRAINT orders_pkey")


def _a_unique_index_with_a_condition(orders: Orders) -> None:
    orders.on_target("ALTER TABLE landing.orders DROP CONSTRAINT orders_pkey")
    orders.on_target("CREATE UNIQUE INDEX ON landing.orders (id) WHERE paid")


def _a_unique_index_on_more_than_the_key(orders: Orders) -> None:
    orders.on_target("ALTER TABLE landing.orders DROP CONSTRAINT orders_pkey")
    orders.on_target("CREATE UNIQUE INDEX ON landing.orders (id, placed_at)")


def _soft_deletes(orders: Orders, column: str) -> None:
    orders.manifest["dagster"] = {"incremental": {"delete_mode": "soft", "soft_delete_column": column}}


def _no_column_that_marks_deleted_rows(orders: Orders) -> None:
    _soft_deletes(orders, "deleted_at")


def _a_loaded_column_that_marks_deleted_rows(orders: Orders) -> None:
    _soft_deletes(orders, "note")


def _a_mark_with_a_default(orders: Orders) -> None:
    orders.on_target("ALTER TABLE landing.orders ADD deleted_at timestamptz DEFAULT now()")
    _soft_deletes(orders, "deleted_at")


def _no_source_table(orders: Orders) -> None:
    orders.on_source("DROP TABLE public.orders")


def _no_target_table(orders: Orders) -> None:
    orders.on_target("DROP TABLE landing.orders")


def _a_trigger_on_the_target(orders: Orders) -> None:
    orders.on_target("CREATE FUNCTION landing.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
    orders.on_target("CREATE TRIGGER watch BEFORE INSERT ON landing.orders FOR EACH ROW EXECUTE FUNCTION landing.f()")


def _a_check_on_the_target(orders: Orders) -> None:
    orders.on_target("ALTER TABLE landing.orders ADD CONSTRAINT positive CHECK (amount > 0)")


def _a_column_without_a_home(orders: Orders) -> None:
    orders.on_source("ALTER TABLE public.orders ADD COLUMN gone interval")


def _external_state_that_is_not_there(orders: Orders) -> None:
    orders.manifest["state"]["provisioning"] = "external"


def _state_in_another_database(orders: Orders) -> None:
    orders.manifest["state"]["connection_ref"] = "pg_oltp"


def _a_foreign_table_under_the_shadows_name(orders: Orders) -> None:
    orders.on_target(f'CREATE TABLE landing."{orders.spec.shadow.name}" (id int)')


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (_nullable_chunk_column, "KEY_INVALID", "public.orders.id"),
        (_nullable_key_in_the_target, "KEY_INVALID", "landing.orders.id"),
        (_key_that_is_not_there, "KEY_INVALID", "shop"),
        (_a_chunk_column_of_another_type, "KEY_INVALID", "kind `uuid`"),
        (_a_view_for_xmin, "SOURCE_UNSUITABLE", "view"),
        (_a_materialized_view_for_xmin, "SOURCE_UNSUITABLE", "public.orders is a matview"),
        (_a_foreign_table_for_xmin, "SOURCE_UNSUITABLE", "public.orders is a foreign"),
        (_a_foreign_partition_for_xmin, "SOURCE_UNSUITABLE", "public.orders is a foreign"),
        (_no_unique_index_on_the_target, "KEY_INVALID", "no unique index holds (id) apart"),
        (_a_unique_index_with_a_condition, "KEY_INVALID", "no unique index holds (id) apart"),
        (_a_unique_index_on_more_than_the_key, "KEY_INVALID", "no unique index holds (id) apart"),
        (_no_column_that_marks_deleted_rows, "DELETE_MARK_UNSUITABLE", "`deleted_at`"),
        (_a_loaded_column_that_marks_deleted_rows, "DELETE_MARK_UNSUITABLE", "is loaded from the source"),
        (_a_mark_with_a_default, "DELETE_MARK_UNSUITABLE", "has a default"),
        (_no_source_table, "TABLE_MISSING", "public.orders"),
        (_no_target_table, "TARGET_NOT_PROVISIONED", "landing.orders"),
        (_a_trigger_on_the_target, "CATALOG_REFUSED", "watch"),
        (_a_check_on_the_target, "CATALOG_REFUSED", "the DDL here does not make it again"),
        (_a_column_without_a_home, "COLUMN_CONTRACT_REFUSED", "gone"),
        (_external_state_that_is_not_there, "STATE_NOT_PROVISIONED", "schema system has no state tables"),
        (_state_in_another_database, "STATE_NOT_TARGET_ATOMIC", "are not the same server and database"),
        (_a_foreign_table_under_the_shadows_name, "SHADOW_FOREIGN", "no campaign"),
    ],
)
def test_refused_with_nothing_created(orders: Orders, spoil: Callable[[Orders], None], code: str, words: str) -> None:
    spoil(orders)
    scans = "SELECT coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0) FROM pg_stat_user_tables"
    scans_before = orders.source_counters(scans)
    before = orders.on_target(EVERYTHING)
    with pytest.raises(Refused) as refusal:
        prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    assert refusal.value.code == code
    assert refusal.value.exit_code == 2
    assert words in str(refusal.value)
    assert "next: " in str(refusal.value)
    assert orders.on_target(EVERYTHING) == before
    assert orders.source_counters(scans) == scans_before
    assert words in " ".join(map(str, doctor(orders.spec, orders.connector).findings)), "doctor knows it too"


def test_everything_that_is_wrong_with_the_target_is_said_at_once(orders: Orders) -> None:
    _a_trigger_on_the_target(orders)
    _a_check_on_the_target(orders)
    orders.on_target("CREATE VIEW landing.report AS SELECT * FROM landing.orders")
    with pytest.raises(Refused) as refusal:
        prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    named = {finding.path for finding in refusal.value.findings}
    assert len(named) == 3, named
    assert all(finding.advice for finding in refusal.value.findings)


@pytest.mark.parametrize("publication", ["direct", "shadow_swap"])
def test_one_table_under_two_names_of_a_connection_is_no_source_and_target(orders: Orders, publication: str) -> None:
    orders.source_url = orders.target_url
    orders.manifest["source"]["table"] = {"schema": "landing", "name": "orders"}
    if publication == "direct":
        orders.manifest["source"].pop("options")
        orders.backfill.pop("publication")
        orders.on_target("ALTER TABLE landing.orders DROP CONSTRAINT orders_pkey")
    before, rows = orders.on_target(EVERYTHING), orders.target_rows()
    with pytest.raises(SourceIsTarget, match=r"`pg_oltp`.*`pg_dwh`"):
        prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    assert (orders.on_target(EVERYTHING), orders.target_rows()) == (before, rows)
    assert "SOURCE_IS_TARGET" in " ".join(map(str, doctor(orders.spec, orders.connector).findings))


def test_a_copy_of_a_database_is_a_source_until_its_connection_leads_to_the_target(orders: Orders) -> None:
    original = orders.target_url
    name = conninfo_to_dict(original)["dbname"]
    with psycopg.connect(orders.source_url, autocommit=True) as connection:
        # The same object ids, and another database.
        connection.execute(f'DROP DATABASE IF EXISTS "{name}_copy"'.encode())
        connection.execute(f'CREATE DATABASE "{name}_copy" TEMPLATE "{name}"'.encode())
        orders.source_url = original.replace(f"/{name}", f"/{name}_copy", 1)
        try:
            orders.manifest["source"]["table"] = {"schema": "landing", "name": "orders"}
            orders.manifest["source"].pop("options")
            orders.backfill.pop("publication")
            prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
        finally:
            connection.execute(f'DROP DATABASE "{name}_copy" WITH (FORCE)'.encode())
    orders.source_url = original
    with pytest.raises(SourceIsTarget):
        prepare(orders.spec, orders.connector, intent="run", run_id="run-2")
