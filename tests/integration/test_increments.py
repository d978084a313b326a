"""One increment's snapshot: every row that changed since the watermark, whoever wrote it and however slowly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract, Guard
from dpone_dagster.campaign.errors import (
    CatalogDrift,
    IncrementRefused,
    SourceChanged,
    SourceTimelineChanged,
    SourceUnsuitable,
    ValueNotRepresentable,
)
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.watermark import Anchor
from dpone_dagster.ports.source import ChangeRead, ChangeSnapshot, RowStream
from dpone_dagster.postgres.session import Session
from dpone_dagster.postgres.source import PostgresSource
from tests.integration.clusters import burn, primary_and_standby, replayed, standby_of, wrapping_server
from tests.integration.transfer import execute

TABLE = TableRef("public", "t")
CONTRACT = ColumnContract(
    (ColumnBinding("id", "id", "integer", "bigint", "int8"), ColumnBinding("v", "v", "text", "text")), ("id",)
)


@pytest.fixture
def source(database: str) -> Iterator[PostgresSource]:
    execute(
        database,
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t SELECT n, 'old' FROM generate_series(1, 100) n",
    )
    source = PostgresSource(database, "test")
    yield source
    source.close()


def read_since(source: PostgresSource, since: Anchor, contract: ColumnContract = CONTRACT) -> ChangeRead:
    digest = source.describe(TABLE, None).digest
    return ChangeRead(TABLE, contract, digest, since, "00ff", "pgcopy", "run increment")


def ids(database: str, stream: RowStream, columns: str = "id int8, v text") -> list[int]:
    """The `id`s of a stream, as a target would read them."""
    session = Session(database, "test")
    try:
        session.connection.execute(f"CREATE TEMP TABLE read ({columns})".encode())
        with session.connection.cursor().copy("COPY pg_temp.read FROM STDIN (FORMAT binary)") as copy:
            for block in stream:
                copy.write(block)
        found = [row[0] for row in session.connection.execute("SELECT id FROM pg_temp.read ORDER BY id").fetchall()]
    finally:
        session.close()
    assert len(found) == stream.rows
    return found


def changed(database: str, source: PostgresSource, since: Anchor) -> tuple[list[int], Anchor]:
    with source.read_changes(read_since(source, since)) as snapshot:
        return ids(database, snapshot.changed_rows()), snapshot.anchor


# ---------------------------------------------------------------- the window


def test_rows_that_changed_since_the_anchor_are_read_and_no_other(database: str, source: PostgresSource) -> None:
    since = source.capture_anchor()
    execute(database, "UPDATE t SET v = 'new' WHERE id = 7", "INSERT INTO t VALUES (200, 'new')")

    found, anchor = changed(database, source, since)

    assert found == [7, 200]
    assert changed(database, source, anchor)[0] == []


def test_rows_of_an_open_writer_come_with_a_later_increment(database: str, source: PostgresSource) -> None:
    first = source.capture_anchor()
    with psycopg.connect(database) as slow:
        slow.execute("INSERT INTO t VALUES (201, 'slow')")
        execute(database, "INSERT INTO t VALUES (202, 'quick')")
        found, second = changed(database, source, first)
        assert found == [202]
        execute(database, "INSERT INTO t VALUES (203, 'quick')")
        found, third = changed(database, source, second)
        assert 203 in found
        assert 201 not in found
        slow.commit()
    execute(database, "INSERT INTO t VALUES (204, 'quick')")

    found, _ = changed(database, source, third)

    assert {201, 204} <= set(found)


def test_rows_of_subtransactions_are_read(database: str, source: PostgresSource) -> None:
    since = source.capture_anchor()
    with psycopg.connect(database) as writer:
        for number in range(300, 303):
            with writer.transaction():
                writer.execute("INSERT INTO t VALUES (%s, 'sub')", (number,))
        with writer.transaction(force_rollback=True):
            writer.execute("INSERT INTO t VALUES (303, 'rolled back')")
        writer.commit()

    assert changed(database, source, since)[0] == [300, 301, 302]


def test_a_frozen_row_keeps_its_place(database: str, source: PostgresSource) -> None:
    since = source.capture_anchor()
    execute(database, "INSERT INTO t VALUES (400, 'new')", "VACUUM (FREEZE) t")

    assert changed(database, source, since)[0] == [400]


def test_rows_copied_in_frozen_are_read(database: str, source: PostgresSource) -> None:
    since = source.capture_anchor()
    with psycopg.connect(database) as writer:
        writer.execute("TRUNCATE t")
        with writer.cursor().copy("COPY t FROM STDIN (FREEZE)") as copy:
            copy.write_row((1, "frozen"))

    assert changed(database, source, since)[0] == [1]


def test_rows_of_all_partitions_are_read(database: str) -> None:
    execute(
        database,
        "CREATE TABLE t (id int, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF t FOR VALUES FROM (0) TO (50)",
        "CREATE TABLE p2 PARTITION OF t FOR VALUES FROM (50) TO (200)",
        "INSERT INTO t SELECT n, 'old' FROM generate_series(1, 100) n",
    )
    source = PostgresSource(database, "test")
    since = source.capture_anchor()
    execute(database, "UPDATE t SET id = 60, v = 'moved' WHERE id = 1", "UPDATE p1 SET v = 'new' WHERE id = 2")

    assert changed(database, source, since)[0] == [2, 60]
    source.close()


# ---------------------------------------------------------------- proofs


def test_a_watermark_ahead_of_the_source_is_refused(source: PostgresSource) -> None:
    since = source.capture_anchor()

    read = read_since(source, replace(since, xid=since.xid + 1_000_000))
    with pytest.raises(IncrementRefused, match="ahead of the source"), source.read_changes(read):
        pass


def test_a_source_that_was_altered_is_not_read(database: str, source: PostgresSource) -> None:
    read = read_since(source, source.capture_anchor())
    execute(database, "ALTER TABLE t ADD extra int DEFAULT 5")

    with pytest.raises(CatalogDrift), source.read_changes(read):
        pass


def test_another_timeline_is_refused(source: PostgresSource) -> None:
    since = source.capture_anchor()
    before = replace(since, identity=replace(since.identity, timeline=since.identity.timeline + 1))

    with pytest.raises(SourceTimelineChanged, match="promoted"), source.read_changes(read_since(source, before)):
        pass


@pytest.mark.parametrize("other", [{"system_identifier": "1"}, {"database_oid": 1}])
def test_another_server_is_refused_however_it_is_compared(source: PostgresSource, other: dict[str, Any]) -> None:
    since = source.capture_anchor()
    elsewhere = replace(since, identity=replace(since.identity, **other))
    for in_full in (False, True):
        read = replace(read_since(source, elsewhere), in_full=in_full)
        with pytest.raises(SourceChanged, match="the anchor is of") as refusal, source.read_changes(read):
            pass
        assert "new campaign" in refusal.value.advice


def test_a_counter_that_went_backwards_is_no_matter_of_comparing_rows(source: PostgresSource) -> None:
    since = source.capture_anchor()
    read = replace(read_since(source, replace(since, xid=since.xid + 1_000_000)), in_full=True)
    with pytest.raises(IncrementRefused, match="ahead of the source"), source.read_changes(read):
        pass


# ---------------------------------------------------------------- one snapshot


def test_everything_is_of_one_moment(database: str, source: PostgresSource) -> None:
    since = source.capture_anchor()
    execute(database, "UPDATE t SET v = 'new' WHERE id < 4")
    with source.read_changes(read_since(source, since)) as snapshot:
        before = keys_of(snapshot, 16)
        execute(database, "INSERT INTO t VALUES (500, 'later')", "DELETE FROM t WHERE id = 50", "UPDATE t SET v = 'x'")

        assert ids(database, snapshot.changed_rows()) == [1, 2, 3]
        assert keys_of(snapshot, 16) == before
        everything = ids(database, snapshot.keys(16, range(16)), "id int8")
        assert everything == list(range(1, 101))
        assert ids(database, snapshot.rows_by_key(16, range(16))) == everything
        anchor = snapshot.anchor
    found, _ = changed(database, source, anchor)
    assert 500 in found
    assert 51 in found


def keys_of(snapshot: ChangeSnapshot, buckets: int) -> dict[int, int]:
    return {bucket.bucket: bucket.keys for bucket in snapshot.key_buckets(buckets)}


def test_a_bucket_has_the_keys_that_its_digest_counts(database: str, source: PostgresSource) -> None:
    with source.read_changes(read_since(source, source.capture_anchor())) as snapshot:
        counts = keys_of(snapshot, 16)
        assert sum(counts.values()) == 100
        for bucket, count in counts.items():
            assert len(ids(database, snapshot.keys(16, [bucket]), "id int8")) == count
            assert len(ids(database, snapshot.rows_by_key(16, [bucket]))) == count
        assert ids(database, snapshot.keys(16, []), "id int8") == []


def test_keys_are_digested_as_the_target_holds_them(database: str, source: PostgresSource) -> None:
    execute(database, "CREATE TABLE n (id numeric(9,2), v text)", "INSERT INTO n VALUES (1, 'a')")
    binding = ColumnBinding("id", "id", "integer", "numeric(9,2)", "numeric(9,2)")
    contract = ColumnContract((binding,), ("id",))
    execute(database, "DELETE FROM t WHERE id > 1")
    since = source.capture_anchor()
    table = TableRef("public", "n")
    held = source.describe(table, None).digest
    stored = ColumnContract((replace(binding, cast=None),), ("id",))

    with source.read_changes(read_since(source, since, contract)) as snapshot:
        cast = snapshot.key_buckets(64)
    with source.read_changes(ChangeRead(table, stored, held, since, "00", "pgcopy", "x")) as snapshot:
        assert snapshot.key_buckets(64) == cast


def test_a_read_that_is_given_up_leaves_the_snapshot_and_the_connection(database: str, source: PostgresSource) -> None:
    execute(database, "INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1000, 20000) n")
    since = source.capture_anchor()
    read = read_since(source, replace(since, xid=since.xid - 1))

    def give_up() -> None:
        with source.read_changes(read) as snapshot:
            next(iter(snapshot.changed_rows()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        give_up()

    assert changed(database, source, since)[0] == []


def test_guards_hold_in_an_increment_too(database: str, source: PostgresSource) -> None:
    since = source.capture_anchor()
    execute(database, "INSERT INTO t VALUES (600, 'too long')")
    short = ColumnBinding("v", "v", "text", "varchar(3)", None, (Guard("length", "characters", (3,)),))
    read = read_since(source, since, replace(CONTRACT, columns=(CONTRACT.columns[0], short)))

    with pytest.raises(ValueNotRepresentable, match="length"), source.read_changes(read) as snapshot:
        list(snapshot.changed_rows())

    replaced = replace(
        read, contract=replace(CONTRACT, columns=(CONTRACT.columns[0], replace(short, on_bad_value="null")))
    )
    with source.read_changes(replaced) as snapshot:
        stream = snapshot.changed_rows()
        assert ids(database, stream) == [600]
        assert stream.nulled == {"v": 1}


# ---------------------------------------------------------------- past the 32-bit wrap


@pytest.mark.parametrize("epoch", [0, 5])
def test_the_window_holds_across_the_wrap(epoch: int) -> None:
    # Their small raw xmin lies ahead of an anchor just before the wrap, by modular comparison alone.
    ancient = "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'ancient'), (2, 'ancient')"
    with wrapping_server(epoch, before=ancient) as url:
        across_the_wrap(url, epoch * 2**32 + 2**32)


def across_the_wrap(wrapping: str, wrap: int) -> None:
    execute(wrapping, "INSERT INTO t SELECT n, 'old' FROM generate_series(3, 10) n")
    source = PostgresSource(wrapping, "test")
    since = source.capture_anchor()
    assert wrap - 200 < since.xid < wrap
    for distance, words in ((2**31, "2147483648 transactions since"), (2**31 - 2**31 // 10, "1932735284 transactions")):
        far = read_since(source, replace(since, xid=since.xid - distance))
        with pytest.raises(IncrementRefused, match=words) as refusal, source.read_changes(far):
            pass
        assert "new initial campaign" in refusal.value.advice
    with source.read_changes(read_since(source, replace(since, xid=since.xid - 2**30))):
        pass  # half of that is near enough
    execute(wrapping, "INSERT INTO t VALUES (20, 'before the wrap')")
    burn(wrapping, 300)
    execute(wrapping, "INSERT INTO t VALUES (30, 'after the wrap')")

    found, middle = changed(wrapping, source, since)
    assert found == [20, 30]
    assert middle.xid > wrap
    assert middle.low32 < since.low32

    execute(wrapping, "INSERT INTO t VALUES (40, 'later')", "VACUUM (FREEZE) t")
    assert changed(wrapping, source, middle)[0] == [40]
    assert changed(wrapping, source, since)[0] == [20, 30, 40]
    source.close()


# ---------------------------------------------------------------- standbys


@pytest.fixture
def pair() -> Iterator[tuple[str, str]]:
    with primary_and_standby() as (primary, standby):
        execute(primary, "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'old')")
        replayed(primary, standby)
        yield primary, standby


def test_a_standby_is_read_when_it_has_caught_up_and_never_once_promoted(pair: tuple[str, str]) -> None:
    primary, standby = pair
    source = PostgresSource(primary, "test")
    since = source.capture_anchor()
    execute(primary, "INSERT INTO t VALUES (2, 'new')")
    replayed(primary, standby)
    behind = PostgresSource(standby, "test")
    found, _ = changed(primary, behind, since)
    assert found == [2]

    execute(standby, "SELECT pg_wal_replay_pause()")
    execute(primary, "INSERT INTO t VALUES (3, 'newer')", "INSERT INTO t VALUES (4, 'newest')")
    later = source.capture_anchor()
    with pytest.raises(SourceChanged, match="behind the anchor"), behind.read_changes(read_since(source, later)):
        pass

    in_full = replace(read_since(source, since), in_full=True)
    with pytest.raises(SourceChanged, match="may lag behind"), behind.read_changes(in_full):
        pass

    execute(standby, "SELECT pg_wal_replay_resume()")
    replayed(primary, standby)
    assert changed(primary, behind, since)[0] == [2, 3, 4]
    execute(standby, "SELECT pg_promote()")
    with pytest.raises(SourceTimelineChanged, match="promoted"), behind.read_changes(read_since(source, later)):
        pass
    # Whole rows may be compared with it, even by a watermark from before the last transactions of the old timeline.
    in_full = replace(read_since(source, replace(later, xid=later.xid + 1000)), in_full=True)
    with behind.read_changes(in_full) as snapshot:
        assert snapshot.anchor.identity.timeline == later.identity.timeline + 1
    source.close()
    behind.close()


def test_a_standby_that_follows_a_promoted_one_is_known_by_its_new_timeline(pair: tuple[str, str]) -> None:
    primary, standby = pair
    execute(primary, "CREATE ROLE reader LOGIN", "GRANT SELECT ON t TO reader")
    replayed(primary, standby)
    with standby_of(standby) as follower:
        since = anchor_of(primary)
        replayed(primary, follower)
        with closing(PostgresSource(follower, "test")) as source:
            assert changed(primary, source, since)[0] == []
            execute(standby, "SELECT pg_promote()", "INSERT INTO t VALUES (2, 'new')")
            replayed(standby, follower)
            read = read_since(source, since)
            with pytest.raises(SourceTimelineChanged, match="timeline 2"), source.read_changes(read):
                pass
            assert source.identity() == anchor_of(standby).identity
        with closing(PostgresSource(follower.replace("postgres@", "reader@"), "test")) as source:
            with pytest.raises(SourceUnsuitable) as refusal:
                source.identity()
            assert "GRANT pg_read_all_stats" in refusal.value.advice


def anchor_of(url: str) -> Anchor:
    with closing(PostgresSource(url, "test")) as source:
        return source.capture_anchor()
