"""A chunk is every row of its range once, in blocks, and a read that ends early leaves a connection that works."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

import psycopg
import pytest

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract
from dpone_dagster.campaign.errors import (
    ConnectionLost,
    DponeError,
    SourceUnsuitable,
)
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import ChunkSpec, Plan
from dpone_dagster.ports.source import ChunkRead
from dpone_dagster.postgres.chunkrange import in_chunk
from dpone_dagster.postgres.source import PostgresSource
from tests.integration.table_reads import CONTRACT, TABLE, read_of, rows, until
from tests.integration.transfer import PLAN, Transfer, execute, texts

# ---------------------------------------------------------------- chunks

INSTANTS = "2024-01-31' + n * interval '7 h'"
BY_MONTH = ChunkSpec("date", "c", "2024-01-31", "2024-06-30", "1mo")
BY_HOURS = ChunkSpec("timestamp", "c", "2024-01-31T01:00:00+01:00", "2024-03-02", "1h")
BY_NUMBER = ChunkSpec("integer", "c", "1", "100", "7")
KINDS = [
    ("int2", "n::int2", BY_NUMBER),
    ("int4", "n", BY_NUMBER),
    ("int8", "n + 9223372036854775707", ChunkSpec("integer", "c", str(2**63 - 101), str(2**63 - 1), "9")),
    ("numeric(20,0)", "n", BY_NUMBER),
    ("uuid", "md5(n::text)::uuid", ChunkSpec("uuid", "c", buckets=7)),
    ("date", "date '2024-01-31' + n", BY_MONTH),
    ("date", "date '2024-01-31' + n", ChunkSpec("timestamp", "c", "2024-01-31", "2024-06-30", "6h")),
    ("timestamp", f"timestamp '{INSTANTS}", BY_MONTH),
    ("timestamptz", f"timestamptz '{INSTANTS}", BY_MONTH),
    ("timestamp", f"timestamp '{INSTANTS}", BY_HOURS),
    ("timestamptz", f"timestamptz '{INSTANTS}", BY_HOURS),
]


@pytest.mark.parametrize(("type_name", "value", "spec"), KINDS, ids=[f"{t} by {s.kind}" for t, _, s in KINDS])
def test_the_chunks_are_every_row_once(database: str, type_name: str, value: str, spec: ChunkSpec) -> None:
    execute(
        database,
        f"CREATE TABLE t (c {type_name} PRIMARY KEY)",
        f"INSERT INTO t SELECT {value} FROM generate_series(1, 100) n",
    )
    source = PostgresSource(database, "test")
    described = source.describe(TABLE, None)
    contract = ColumnContract((ColumnBinding("c", "c", type_name, type_name),), ("c",))
    plan = Plan(spec)

    counts = [
        rows(source, ChunkRead(TABLE, chunk, "c", contract, described.digest, None, "00", "pgcopy", "x"))
        for chunk in plan
    ]

    assert sum(counts) == 100
    assert source.count_outside(TABLE, "c", plan) == 0
    source.close()


@pytest.mark.parametrize(("type_name", "value", "spec"), KINDS, ids=[f"{t} by {s.kind}" for t, _, s in KINDS])
def test_a_chunk_is_found_by_the_index(database: str, type_name: str, value: str, spec: ChunkSpec) -> None:
    execute(database, f"CREATE TABLE t (c {type_name} PRIMARY KEY)")
    source = PostgresSource(database, "test")
    condition = in_chunk(source.describe(TABLE, None).columns, "c", Plan(spec).chunk(0)).as_string(None)
    source.close()

    with psycopg.connect(database) as connection:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")
        plan = connection.execute(f"EXPLAIN (COSTS off) SELECT c FROM t WHERE {condition}".encode()).fetchall()

    assert "Index Cond: ((c >= " in str(plan)
    assert " AND (c <" in str(plan)


def test_a_timestamp_without_zone_is_cut_at_utc_whatever_the_login_prefers(database: str) -> None:
    execute(
        database,
        "CREATE TABLE t (id int, c timestamp)",
        "INSERT INTO t VALUES (1, '2024-01-01 00:00'), (2, '2024-01-01 23:59:59.999999'), (3, '2024-01-02 00:00')",
        "ALTER ROLE postgres SET timezone = 'Asia/Tokyo'",
    )
    source = PostgresSource(database, "test")
    plan = Plan(ChunkSpec("timestamp", "c", "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "1d"))

    assert source.count_outside(TABLE, "c", plan) == 1
    source.close()
    execute(database, "ALTER ROLE postgres RESET timezone")


def test_rows_outside_the_plan_are_counted(database: str) -> None:
    execute(
        database,
        "CREATE TABLE t (c date)",
        "INSERT INTO t VALUES (NULL), ('infinity'), ('-infinity'), ('2023-12-31'), ('2024-02-01')",
        "INSERT INTO t VALUES ('2024-01-01'), ('2024-01-31')",
    )
    source = PostgresSource(database, "test")

    assert source.count_outside(TABLE, "c", Plan(ChunkSpec("date", "c", "2024-01-01", "2024-01-31", "1w"))) == 5
    source.close()


def test_the_whole_range_is_that_of_all_chunks() -> None:
    plan = Plan(ChunkSpec("uuid", "c", buckets=3))

    whole = plan.whole()

    assert (whole.lower, whole.upper, whole.upper_inclusive) == (
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        True,
    )


@pytest.mark.parametrize("type_name", ["numeric", "numeric(9,1)", "text", "float8", "int4[]"])
def test_a_column_that_chunks_would_leave_rows_out_of_is_refused(database: str, type_name: str) -> None:
    execute(database, f"CREATE TABLE t (c {type_name})")
    source = PostgresSource(database, "test")

    with pytest.raises(SourceUnsuitable) as caught:
        source.count_outside(TABLE, "c", PLAN)

    assert caught.value.findings[0].path == "source.c"
    source.close()


def test_a_partitioned_table_is_read_with_all_its_partitions(database: str) -> None:
    execute(
        database,
        "CREATE TABLE t (id int, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF t FOR VALUES FROM (1) TO (50)",
        "CREATE TABLE p2 PARTITION OF t FOR VALUES FROM (50) TO (200)",
        "INSERT INTO t SELECT n, n::text FROM generate_series(1, 100) n",
    )
    source = PostgresSource(database, "test")

    assert rows(source, read_of(source)) == 100
    source.close()


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
def test_a_view_can_be_read_too(database: str, source: PostgresSource, kind: str) -> None:
    execute(database, "ALTER TABLE t RENAME TO n", f"CREATE {kind} t AS SELECT * FROM n")

    assert rows(source, read_of(source)) == 1000


def test_bytes_arrive_the_same_from_a_database_of_another_encoding(
    database: str, new_database: Callable[[str], str]
) -> None:
    latin = new_database("latin")
    name = latin.split("/")[3].split("?")[0]
    execute(
        database,
        f"DROP DATABASE {name}",
        f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
    )
    execute(latin, "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'naïve')")

    Transfer(latin, TABLE, database, TABLE).run()

    assert texts(database, TABLE) == {1: "naïve"}


# ---------------------------------------------------------------- streams


def test_a_chunk_comes_in_blocks(database: str, source: PostgresSource) -> None:
    execute(database, "UPDATE t SET v = repeat('x', 1000)")

    with source.read_chunk(read_of(source)) as stream:
        sizes = [len(block) for block in stream]

    assert len(sizes) > 2
    assert all(256 * 1024 <= size < 300 * 1024 for size in sizes[:-1])
    assert (stream.rows, stream.bytes) == (1000, sum(sizes))


def test_an_empty_chunk_is_a_header_and_an_end(database: str, source: PostgresSource) -> None:
    execute(database, "DELETE FROM t")

    with source.read_chunk(read_of(source)) as stream:
        assert len(b"".join(stream)) == 21
    assert stream.rows == 0


class Stop(Exception):
    """What a consumer raises."""


@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, None])
def test_a_read_that_is_given_up_leaves_a_connection_that_works(
    database: str, source: PostgresSource, error: type[BaseException] | None
) -> None:
    execute(database, "INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1001, 30000) n")
    read = replace(read_of(source), chunk=Plan(ChunkSpec("integer", "id", "1", "30000", "30000")).chunk(0))

    def give_up() -> None:
        with source.read_chunk(read) as stream:
            assert len(next(iter(stream))) > 0
            if error is not None:
                raise error

    if error is None:
        give_up()
    else:
        with pytest.raises(error):
            give_up()

    assert rows(source, read) == 30000


def test_a_stream_is_read_once(source: PostgresSource) -> None:
    with source.read_chunk(read_of(source)) as stream:
        list(stream)
        with pytest.raises(DponeError, match="once only"):
            list(stream)


def slow(database: str) -> None:
    execute(
        database,
        "ALTER TABLE t RENAME TO n",
        "CREATE VIEW t AS SELECT n.id, CASE WHEN pg_sleep(60) IS NULL THEN '' ELSE 'x' END AS v FROM n",
    )


def test_a_statement_in_flight_can_be_cut(database: str, source: PostgresSource) -> None:
    slow(database)
    read = read_of(source)
    cutter = threading.Thread(target=lambda: (until(lambda: sleeping(database)), source.cancel()))
    cutter.start()

    with pytest.raises(DponeError, match="57014"):
        rows(source, read)

    cutter.join()
    assert source.describe(TABLE, None).kind == "view"


def sleeping(database: str) -> bool:
    with psycopg.connect(database, autocommit=True) as connection:
        query = (
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep')"
        )
        return bool(connection.execute(query).fetchone()[0])  # type: ignore[index]


def test_a_signal_is_heard_while_the_server_is_silent(database: str, source: PostgresSource) -> None:
    slow(database)
    read = read_of(source)

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1)
        with pytest.raises(Stop):
            rows(source, read)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert not sleeping(database)
    assert source.describe(TABLE, None).kind == "view"


def test_a_session_that_is_ended_is_a_lost_connection(database: str, source: PostgresSource) -> None:
    slow(database)
    read = read_of(source)
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    killer = threading.Thread(target=lambda: (until(lambda: sleeping(database)), execute(database, ended)))
    killer.start()

    with pytest.raises(ConnectionLost):
        rows(source, read)

    killer.join()


def test_a_label_cannot_end_its_comment(database: str, source: PostgresSource) -> None:
    read = replace(read_of(source), label="x */ ; DROP TABLE t; /* %s {y}")

    assert rows(source, read) == 1000


def test_objects_of_the_login_do_not_stand_for_built_in_ones(database: str) -> None:
    execute(
        database,
        "CREATE TABLE t (id int PRIMARY KEY, v numeric)",
        "INSERT INTO t VALUES (1, 7.5)",
        "CREATE TABLE u (id int PRIMARY KEY, v numeric(3,1))",
        "CREATE FUNCTION public.round(numeric, int) RETURNS numeric LANGUAGE sql AS 'SELECT 0.0'",
        "ALTER ROLE postgres SET search_path = public, pg_catalog",
    )
    try:
        Transfer(database, TABLE, database, TableRef("public", "u")).run()
    finally:
        execute(database, "ALTER ROLE postgres RESET search_path")

    assert texts(database, TableRef("public", "u")) == {1: "7.5"}


def test_the_content_digest_tells_multiplicity_and_null(database: str) -> None:
    execute(database, "CREATE TABLE t (id int, v text)", "INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    source = PostgresSource(database, "test")
    digest = source.content_digest(TABLE, CONTRACT)

    for change in (
        "INSERT INTO t VALUES (1, 'a')",
        "UPDATE t SET v = '' WHERE id = 2",
        "UPDATE t SET v = 'b' WHERE id = 1",
    ):
        with psycopg.connect(database) as connection:
            connection.execute(change.encode())
            connection.commit()
        changed = source.content_digest(TABLE, CONTRACT)
        assert changed != digest
        digest = changed
    assert digest.startswith("3:")
    source.close()


def test_a_chunk_s_digest_is_of_the_snapshot_that_its_rows_are_of(database: str) -> None:
    execute(
        database,
        "CREATE TABLE t (id int PRIMARY KEY, v numeric)",
        "INSERT INTO t VALUES (1, 7.5), (2, NULL)",
        "CREATE TABLE u (id int PRIMARY KEY, v numeric(3,1))",
    )
    transfer = Transfer(database, TABLE, database, TableRef("public", "u"))
    with contextlib.closing(PostgresSource(database, "test")) as source:
        contract, digest = transfer.match(source)
        with source.read_chunk(transfer.read_of(contract, digest, digested=True)) as stream:
            execute(database, "UPDATE t SET v = 1", "INSERT INTO t VALUES (3, 3)")
            before = stream.digest
            transfer.copy(contract, stream)
        assert before == transfer.target_digest(contract)
        assert before != source.content_digest(TABLE, contract)


def test_a_digest_is_over_the_chunk_s_own_rows_and_over_none_if_not_asked_for(database: str) -> None:
    execute(database, "CREATE TABLE t (id int PRIMARY KEY, v numeric)", "INSERT INTO t VALUES (1, 7.5)")
    transfer = Transfer(database, TABLE, database, TABLE)
    with contextlib.closing(PostgresSource(database, "test")) as source:
        contract, digest = transfer.match(source)
        with source.read_chunk(transfer.read_of(contract, digest)) as stream:
            assert stream.digest is None
        expected = source.content_digest(TABLE, contract)
        execute(database, f"INSERT INTO t VALUES ({int(PLAN.chunk(0).upper) + 1}, 1)")
        with source.read_chunk(transfer.read_of(contract, digest, digested=True)) as stream:
            assert stream.digest == expected


STATEMENTS = sorted((Path(__file__).parents[2] / "dpone_dagster/postgres").glob("*.sql"))


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: path.name)
def test_a_database_of_any_encoding_can_read_the_statements(path: Path) -> None:
    assert path.read_text(encoding="utf-8").isascii()
