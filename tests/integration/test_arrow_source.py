"""Arrow batches of the source: the same proofs, snapshot and errors as the binary COPY's."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract, Guard
from dpone_dagster.campaign.errors import (
    CatalogDrift,
    ConnectionLost,
    DponeError,
    Interrupted,
    SourceChanged,
    ValueNotRepresentable,
)
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import ChunkSpec, Plan
from dpone_dagster.campaign.watermark import Anchor
from dpone_dagster.ports.source import ChangeRead, ChunkRead
from dpone_dagster.postgres.source import PostgresSource
from tests.waiting import PATIENCE_SECONDS, within

pytest.importorskip("adbc_driver_postgresql")

TABLE = TableRef("src", 'or"ders %s')
NAME = 'src."or""ders %s"'
ROWS = 100_000
PLAN = Plan(ChunkSpec("integer", "id", "1", str(ROWS), str(ROWS)))
FITS = (Guard("nan", "nan"), Guard("range", "digits", (16,)), Guard("precision", "scale", (2,)))
CONTRACT = ColumnContract(
    (
        ColumnBinding("id", "id", "integer", "int"),
        ColumnBinding("amount", "amount", "numeric", "decimal(18,2)", "numeric(18,2)", FITS),
        ColumnBinding("made", "made at", "timestamp with time zone", "nvarchar(40)", "text"),
        ColumnBinding("doc", "doc", "json", "nvarchar(max)"),
    ),
    ("id",),
)


@pytest.fixture
def url(database: str) -> str:
    run(
        database,
        "CREATE SCHEMA src",
        f"CREATE TABLE {NAME} (id int PRIMARY KEY, amount numeric, made timestamptz, doc json)",
        f"INSERT INTO {NAME} SELECT n, n / 100.0, timestamptz '2024-01-01 12:00:00+05', json_build_object('n', n, 'p',"
        f" repeat('x', 200)) FROM generate_series(1, {ROWS}) n",
    )
    return database


@pytest.fixture
def source(url: str) -> Iterator[PostgresSource]:
    # What the database wants of its sessions must not change what is read.
    run(
        url, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Tokyo''', current_database()); END $$"
    )
    opened = PostgresSource(url, "test")
    yield opened
    opened.close()


def run(url: str, *statements: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def chunk_of(source: PostgresSource, **changes: Any) -> ChunkRead:
    facts: dict[str, Any] = {
        "table": TABLE,
        "chunk": PLAN.chunk(0),
        "chunk_column": "id",
        "contract": CONTRACT,
        "source_digest": source.describe(TABLE, None).digest,
        "anchor": source.capture_anchor(),
        "digest_key": "00ff",
        "wire": "arrow",
        "label": "run chunk=1 */ x",
    }
    return ChunkRead(**{**facts, **changes})


def read(source: PostgresSource) -> list[Any]:
    with source.read_chunk(chunk_of(source)) as stream:
        batches = list(stream)
    assert stream.rows == sum(batch.num_rows for batch in batches)
    assert stream.bytes == sum(batch.nbytes for batch in batches) or stream.bytes > 0
    return batches


def column(batches: Sequence[Any], name: str) -> list[Any]:
    return [value for batch in batches for value in batch.column(name).to_pylist()]


def test_rows_come_in_bounded_batches_of_plain_types(source: PostgresSource) -> None:
    import pyarrow as pa

    batches = read(source)
    assert batches[0].schema.names == ["id", "amount", "made at", "doc"]
    assert [field.type for field in batches[0].schema] == [pa.int32(), pa.decimal128(18, 2), pa.string(), pa.string()]
    assert sorted(column(batches, "id")) == list(range(1, ROWS + 1))
    assert set(column(batches, "made at")) == {"2024-01-01 07:00:00+00"}
    assert str(sum(column(batches, "amount"))) == "50000500.00"
    assert len(batches) > 3
    assert max(batch.nbytes for batch in batches) < 8 * 1024 * 1024


def test_rows_are_those_of_the_proven_snapshot(source: PostgresSource, url: str) -> None:
    with source.read_chunk(chunk_of(source)) as stream:
        run(url, f"DELETE FROM {NAME} WHERE id > 10", f"UPDATE {NAME} SET amount = 0")
        batches = list(stream)
    assert len(column(batches, "id")) == ROWS
    assert 0 not in column(batches, "amount")
    assert len(column(read(source), "id")) == 10


def test_the_table_stays_locked_until_the_last_batch(source: PostgresSource, url: str) -> None:
    with source.read_chunk(chunk_of(source)) as stream:
        batches = iter(stream)
        next(batches)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            run(url, "SET lock_timeout = '100ms'", f"TRUNCATE {NAME}")
        list(batches)


def test_an_empty_chunk_has_no_batch(source: PostgresSource, url: str) -> None:
    run(url, f"DELETE FROM {NAME}")
    assert read(source) == []


def test_the_proofs_are_made_for_this_wire_too(source: PostgresSource, url: str) -> None:
    anchor = source.capture_anchor()
    ahead = Anchor(anchor.xid + 1000, anchor.identity, anchor.taken_at)
    with pytest.raises(SourceChanged), source.read_chunk(chunk_of(source, anchor=ahead)):
        pass
    wanted = chunk_of(source)
    run(url, f"ALTER TABLE {NAME} ALTER amount TYPE numeric(20,2)")
    with pytest.raises(CatalogDrift), source.read_chunk(wanted):
        pass


def test_a_guard_that_fires_late_stops_the_read_and_the_next_one_works(source: PostgresSource, url: str) -> None:
    run(url, f"UPDATE {NAME} SET amount = 'NaN' WHERE id = {ROWS}")
    with pytest.raises(ValueNotRepresentable, match=r"`amount` .*\(nan\)") as refused:
        read(source)
    assert "key digest" in str(refused.value)
    run(url, f"UPDATE {NAME} SET amount = 1 WHERE id = {ROWS}")
    assert len(column(read(source), "id")) == ROWS


def test_another_error_of_the_server_shows_no_value(source: PostgresSource, url: str) -> None:
    run(url, f"UPDATE {NAME} SET amount = 1e20 WHERE id = 5")
    unguarded = ColumnBinding("amount", "amount", "numeric", "decimal(18,2)", "numeric(18,2)")
    contract = ColumnContract((CONTRACT.columns[0], unguarded), ("id",))
    with source.read_chunk(chunk_of(source, contract=contract)) as stream, pytest.raises(DponeError) as failed:
        list(stream)
    assert "22003" in str(failed.value)
    assert "1e20" not in str(failed.value)
    assert "100000000000000000000" not in str(failed.value)


def test_a_read_that_is_given_up_ends_on_the_server(source: PostgresSource, url: str) -> None:
    with source.read_chunk(chunk_of(source)) as stream:
        next(iter(stream))
    assert ended(url)
    assert len(column(read(source), "id")) == ROWS


def test_a_stream_is_read_once(source: PostgresSource) -> None:
    with source.read_chunk(chunk_of(source)) as stream:
        list(stream)
        with pytest.raises(DponeError, match="once only"):
            list(stream)


def test_a_cancel_from_another_thread_cuts_the_read(source: PostgresSource, url: str) -> None:
    with source.read_chunk(chunk_of(source)) as stream:
        batches = iter(stream)
        next(batches)
        canceller = threading.Thread(target=source.cancel)
        canceller.start()
        canceller.join()
        with pytest.raises(Interrupted):
            list(batches)
    assert len(column(read(source), "id")) == ROWS


def test_a_connection_that_is_ended_is_lost_and_made_anew(source: PostgresSource, url: str) -> None:
    with source.read_chunk(chunk_of(source)) as stream:
        batches = iter(stream)
        next(batches)
        (row,) = run(url, "SELECT pid, query FROM pg_stat_activity WHERE application_name = 'dpone test rows'")
        assert "/* dpone:read_chunk run chunk=1 __ x */" in row[1]
        run(url, f"SELECT pg_terminate_backend({row[0]}, 5000)")
        with pytest.raises(ConnectionLost):
            list(batches)
    assert len(column(read(source), "id")) == ROWS


def test_an_increment_reads_rows_and_keys_of_one_snapshot(source: PostgresSource, url: str) -> None:
    since = source.capture_anchor()
    run(url, f"UPDATE {NAME} SET amount = 7 WHERE id <= 3")
    digest = source.describe(TABLE, None).digest
    with source.read_changes(ChangeRead(TABLE, CONTRACT, digest, since, "00ff", "arrow", "inc")) as changes:
        run(url, f"DELETE FROM {NAME}")
        rows = list(changes.changed_rows())
        assert sorted(column(rows, "id")) == [1, 2, 3]
        buckets = changes.key_buckets(16)
        assert sum(bucket.keys for bucket in buckets) == ROWS
        keys = list(changes.keys(16, [0, 5]))
        assert keys[0].schema.names == ["id"]
        assert len(column(keys, "id")) == sum(b.keys for b in buckets if b.bucket in (0, 5))
        assert sorted(column(list(changes.rows_by_key(16, [0, 5])), "id")) == sorted(column(keys, "id"))


def test_closing_ends_both_connections(url: str) -> None:
    with contextlib.closing(PostgresSource(url, "closing")) as source:
        with source.read_chunk(chunk_of(source)) as stream:
            list(stream)
        assert len(sessions(url, "dpone closing%")) == 2
    assert ended(url, "dpone closing%")


def sessions(url: str, pattern: str) -> list[Any]:
    return run(url, f"SELECT pid FROM pg_stat_activity WHERE application_name LIKE '{pattern}'")


def ended(url: str, pattern: str = "dpone test rows") -> bool:
    return within(PATIENCE_SECONDS, lambda: not sessions(url, pattern))
