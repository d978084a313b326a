"""The PostgreSQL source: what it tells of a table, and what it proves before it reads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import psycopg
import pytest

from dpone_dagster.campaign.contract import Column, ColumnType
from dpone_dagster.campaign.errors import (
    CatalogDrift,
    DponeError,
    SourceChanged,
    SourceUnsuitable,
    TableMissing,
)
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.watermark import SourceIdentity
from dpone_dagster.ports.source import ChunkRead
from dpone_dagster.postgres.source import PostgresSource
from tests.integration.table_reads import TABLE, read_of, rows, until
from tests.integration.transfer import execute
from tests.waiting import PATIENCE_SECONDS

# ---------------------------------------------------------------- describe


def test_a_table_is_described_with_its_columns(source: PostgresSource) -> None:
    described = source.describe(TABLE, None)

    assert described.kind == "table"
    assert described.columns == (
        Column("id", ColumnType("int4", display="integer"), nullable=False),
        Column("v", ColumnType("text", display="text"), nullable=True),
    )


@pytest.mark.parametrize(
    ("kind", "statements"),
    [
        ("view", ["CREATE VIEW public.x AS SELECT * FROM t"]),
        ("matview", ["CREATE MATERIALIZED VIEW public.x AS SELECT * FROM t"]),
        ("partitioned", ["CREATE TABLE public.x (id int, v text) PARTITION BY RANGE (id)"]),
        (
            "foreign",
            [
                "CREATE FOREIGN DATA WRAPPER w",
                "CREATE SERVER s FOREIGN DATA WRAPPER w",
                "CREATE FOREIGN TABLE public.x (id int, v text) SERVER s",
            ],
        ),
        (
            "foreign",
            [
                "CREATE TABLE public.x (id int, v text) PARTITION BY RANGE (id)",
                "CREATE FOREIGN DATA WRAPPER w",
                "CREATE SERVER s FOREIGN DATA WRAPPER w",
                "CREATE FOREIGN TABLE public.y PARTITION OF public.x DEFAULT SERVER s",
            ],
        ),
    ],
)
def test_other_kinds_are_told(database: str, source: PostgresSource, kind: str, statements: list[str]) -> None:
    execute(database, *statements)

    assert source.describe(TableRef("public", "x"), None).kind == kind


@pytest.mark.parametrize("name", [("public", "gone"), ("gone", "t"), ("public", "T"), ("public", "t_pkey")])
def test_a_table_that_is_not_there_is_missing(source: PostgresSource, name: tuple[str, str]) -> None:
    with pytest.raises(TableMissing, match="does not exist"):
        source.describe(TableRef(*name), None)


def test_every_wanted_column_that_is_missing_is_named(source: PostgresSource) -> None:
    with pytest.raises(TableMissing) as caught:
        source.describe(TABLE, ("id", "x", "V"))

    assert [finding.path for finding in caught.value.findings] == ["public.t.x", "public.t.V"]


def login(database: str, name: str, *grants: str) -> str:
    execute(database, f"DROP ROLE IF EXISTS {name}", f"CREATE ROLE {name} LOGIN", *grants)
    return database.replace("postgres@", f"{name}@")


def test_a_table_that_the_login_may_not_read_is_missing(database: str, source: PostgresSource) -> None:
    reader = PostgresSource(login(database, "blind", "GRANT SELECT (id) ON t TO blind"), "test")

    with pytest.raises(TableMissing, match="may not read"):
        reader.describe(TABLE, ("id",))

    reader.close()
    execute(database, "DROP OWNED BY blind", "DROP ROLE blind")


def test_rows_that_row_security_would_hide_are_never_left_out(database: str, source: PostgresSource) -> None:
    reader = PostgresSource(login(database, "half_blind", "GRANT SELECT ON t TO half_blind"), "test")
    read = read_of(reader)
    assert rows(reader, read) == 1000
    execute(database, "CREATE POLICY p ON t USING (id < 10)", "ALTER TABLE t ENABLE ROW LEVEL SECURITY")

    with pytest.raises(SourceUnsuitable, match="row security"):
        reader.describe(TABLE, None)
    with pytest.raises(DponeError, match="row-level security"):
        rows(reader, read)

    reader.close()
    execute(database, "DROP OWNED BY half_blind", "DROP ROLE half_blind")


def test_a_plain_login_may_prove_the_server(database: str, source: PostgresSource) -> None:
    reader = PostgresSource(login(database, "plain", "GRANT SELECT ON t TO plain"), "test")

    assert reader.identity() == source.identity()
    assert rows(reader, read_of(reader, anchor=reader.capture_anchor())) == 1000

    reader.close()
    execute(database, "DROP OWNED BY plain", "DROP ROLE plain")


def test_a_login_that_may_not_ask_for_the_server_is_told_so(database: str, source: PostgresSource) -> None:
    reader = PostgresSource(login(database, "curbed"), "test")
    execute(database, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")

    with pytest.raises(SourceUnsuitable) as caught:
        reader.identity()

    assert "GRANT EXECUTE ON FUNCTION pg_control_system()" in str(caught.value)
    reader.close()
    execute(database, "GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC", "DROP ROLE curbed")


def test_a_not_null_that_nobody_checked_is_no_not_null(database: str, source: PostgresSource) -> None:
    execute(database, "ALTER TABLE t ADD CONSTRAINT v_filled NOT NULL v NOT VALID")

    assert source.describe(TABLE, None).columns[1].nullable

    execute(database, "ALTER TABLE t VALIDATE CONSTRAINT v_filled")
    assert not source.describe(TABLE, None).columns[1].nullable


# ---------------------------------------------------------------- drift

CHANGES = {
    "a column more": "ALTER TABLE t ADD extra int DEFAULT 5",
    "a column less": "ALTER TABLE t DROP v",
    "another name": "ALTER TABLE t RENAME v TO w",
    "another type": "ALTER TABLE t ALTER v TYPE varchar(200)",
    "another collation": 'ALTER TABLE t ALTER v TYPE text COLLATE "C"',
    "another nullability": "ALTER TABLE t ALTER v SET NOT NULL",
    "the same column anew": "ALTER TABLE t DROP v; ALTER TABLE t ADD v text DEFAULT 'other'",
    "another table of the same shape": "CREATE TABLE n (LIKE t INCLUDING ALL); DROP TABLE t; ALTER TABLE n RENAME TO t",
    "a child": "CREATE TABLE child () INHERITS (t)",
    "no table": "DROP TABLE t",
    "no schema": "DROP SCHEMA public CASCADE",
    "a view": "ALTER TABLE t RENAME TO n; CREATE VIEW t AS SELECT * FROM n",
}
HARMLESS = ("CREATE INDEX ON t (v)", "COMMENT ON TABLE t IS 'x'", "UPDATE t SET v = 'y'", "ANALYZE t")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_source_that_was_altered_is_not_read(database: str, source: PostgresSource, change: str) -> None:
    read = read_of(source)
    assert rows(source, read) == 1000
    execute(database, *change.split("; "))

    with pytest.raises(CatalogDrift):
        rows(source, read)


@pytest.mark.parametrize("change", HARMLESS)
def test_what_changes_no_row_is_no_drift(database: str, source: PostgresSource, change: str) -> None:
    read = read_of(source)
    execute(database, change)

    assert rows(source, read) == 1000


def test_columns_that_are_not_read_may_change(database: str, source: PostgresSource) -> None:
    read = read_of(source, columns=("id",))
    execute(database, "ALTER TABLE t ADD extra int", "ALTER TABLE t DROP v")

    assert rows(source, read) == 1000


@pytest.mark.parametrize(
    ("made", "change"),
    [
        ("CREATE TABLE t (id int) PARTITION BY RANGE (id)", "CREATE TABLE p PARTITION OF t DEFAULT"),
        ("CREATE TYPE e AS ENUM ('a'); CREATE TABLE t (id int, v e)", "ALTER TYPE e RENAME VALUE 'a' TO 'b'"),
        ("CREATE TYPE e AS ENUM ('a'); CREATE TABLE t (id int, v e[])", "ALTER TYPE e RENAME VALUE 'a' TO 'b'"),
        (
            "CREATE TABLE t (id int, v int GENERATED ALWAYS AS (id + 1) VIRTUAL)",
            "ALTER TABLE t ALTER v SET EXPRESSION AS (id + 2)",
        ),
        ("CREATE TABLE t (v varchar(5))", "ALTER TABLE t ALTER v TYPE varchar(9)"),
        ("CREATE VIEW t AS SELECT 1 AS id", "CREATE OR REPLACE VIEW t AS SELECT 2 AS id"),
    ],
)
def test_what_changes_rows_without_their_xmin_changes_the_digest(database: str, made: str, change: str) -> None:
    execute(database, *made.split("; "))
    source = PostgresSource(database, "test")
    before = source.describe(TABLE, None).digest
    execute(database, change)

    assert source.describe(TABLE, None).digest != before
    source.close()


# ---------------------------------------------------------------- lock, then snapshot


def while_locked(database: str, source: PostgresSource, read: ChunkRead, *changes: str) -> list[int | DponeError]:
    """Read while another session holds the table, changes it and commits only when the reader is waiting."""
    outcome: list[int | DponeError] = []

    def work() -> None:
        try:
            outcome.append(rows(source, read))
        except DponeError as error:
            outcome.append(error)

    with psycopg.connect(database) as writer:
        writer.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        reader = threading.Thread(target=work)
        reader.start()
        waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND NOT granted)"
        until(lambda: bool(writer.execute(waiting).fetchone()[0]))  # type: ignore[index]
        for change in changes:
            writer.execute(change.encode())
        writer.commit()
        reader.join(PATIENCE_SECONDS)
    return outcome


def test_the_table_is_locked_before_its_catalog_is_read(database: str, source: PostgresSource) -> None:
    (outcome,) = while_locked(database, source, read_of(source), "ALTER TABLE t ADD extra int DEFAULT 5")

    assert isinstance(outcome, CatalogDrift)


@pytest.mark.parametrize("rewrite", ["TRUNCATE t", "DELETE FROM t", "ALTER TABLE t ALTER id TYPE int USING id + 0"])
def test_the_table_is_locked_before_the_snapshot_is_taken(database: str, source: PostgresSource, rewrite: str) -> None:
    kept = "" if rewrite.startswith("ALTER") else "INSERT INTO t SELECT n, 'new' FROM generate_series(1, 3) n"
    (outcome,) = while_locked(database, source, read_of(source), *filter(None, (rewrite, kept)))

    assert outcome == (3 if kept else 1000)


# ---------------------------------------------------------------- the same server


def test_the_anchors_own_server_is_read(source: PostgresSource) -> None:
    assert rows(source, read_of(source, anchor=source.capture_anchor())) == 1000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"system_identifier": "1"}, "this is cluster"),
        ({"timeline": 9}, "a standby was promoted"),
        ({"database_oid": 1}, "this is database"),
    ],
)
def test_another_server_is_refused(source: PostgresSource, change: dict[str, object], said: str) -> None:
    anchor = source.capture_anchor()
    other = replace(anchor, identity=replace(anchor.identity, **change))  # type: ignore[arg-type]

    with pytest.raises(SourceChanged, match=said):
        rows(source, read_of(source, anchor=other))


def test_another_database_of_the_cluster_is_refused(source: PostgresSource, new_database: Callable[[str], str]) -> None:
    other = new_database("other")
    execute(other, "CREATE TABLE t (id int PRIMARY KEY, v text)")
    elsewhere = PostgresSource(other, "test")
    read = read_of(elsewhere, anchor=source.capture_anchor())

    with pytest.raises(SourceChanged, match="this is database"):
        rows(elsewhere, read)

    elsewhere.close()


def test_a_server_behind_the_anchor_is_refused(source: PostgresSource) -> None:
    anchor = source.capture_anchor()

    with pytest.raises(SourceChanged, match="behind the anchor"):
        rows(source, read_of(source, anchor=replace(anchor, xid=anchor.xid + 1_000_000)))


def test_the_anchor_is_not_past_an_open_writer(database: str, source: PostgresSource) -> None:
    with psycopg.connect(database) as writer:
        xid = writer.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        execute(database, "INSERT INTO t VALUES (2000, 'later')")

        anchor = source.capture_anchor()

    assert xid is not None
    assert anchor.xid == xid[0]
    assert anchor.identity == source.identity()
    assert isinstance(anchor.identity, SourceIdentity)
