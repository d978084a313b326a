"""The swap: names, rights and comments stay on the live table; old snapshots and blockers are waited out and named."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from dpone_dagster.campaign.errors import CatalogDrift, PublicationBlocked
from dpone_dagster.campaign.names import TableRef, backup_name, shadow_name
from dpone_dagster.ports.tables import TargetTable
from dpone_dagster.postgres.session import Session
from dpone_dagster.postgres.tables import PostgresTables

LIVE = TableRef("landing", "orders")
ROLES = ("dpone_swap_owner", "dpone_swap_reader", "dpone_swap_writer", 'dpone "swap" odd')

# Everything about a table that people and programs refer to, by names alone.
FACTS = (
    """SELECT pg_get_userbyid(relowner), obj_description(oid), relreplident, reloptions,
        (SELECT array_agg(g::text ORDER BY g::text) FROM unnest(coalesce(relacl, acldefault('r', relowner))) AS g)
        FROM pg_class WHERE oid = %s::regclass""",
    """SELECT c.relname, pg_get_indexdef(c.oid), obj_description(c.oid), i.indisclustered, i.indisreplident
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = %s::regclass ORDER BY 1""",
    """SELECT conname, pg_get_constraintdef(oid), obj_description(oid) FROM pg_constraint
        WHERE conrelid = %s::regclass ORDER BY 1""",
    """SELECT attname, atttypid::regtype::text, col_description(attrelid, attnum) FROM pg_attribute
        WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum""",
    """SELECT t.typname, a.typname FROM pg_type t JOIN pg_type a ON a.oid = t.typarray
        WHERE t.typrelid = %s::regclass""",
)


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    opened = Session(database, "test swap")
    run(opened, "CREATE SCHEMA landing")
    yield opened
    opened.close()


@pytest.fixture
def roles(session: Session) -> Iterator[tuple[str, ...]]:
    for role in ROLES:
        run(session, f"CREATE ROLE {quoted(role)}")
    yield ROLES
    for role in ROLES:
        run(session, f"DROP OWNED BY {quoted(role)} CASCADE", f"DROP ROLE {quoted(role)}")


@pytest.fixture
def tables(session: Session) -> PostgresTables:
    return PostgresTables(session, "system")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def run(session: Session, *statements: str) -> None:
    for statement in statements:
        session.connection.execute(statement.encode())


def described(tables: PostgresTables, table: TableRef) -> TargetTable:
    found = tables.describe(table)
    assert found is not None
    return found


def load_shadow(session: Session, tables: PostgresTables, run_key: str, rows: str, live: TableRef = LIVE) -> TableRef:
    """A full shadow with the given INSERT's rows."""
    shadow = live.sibling(shadow_name(live, run_key, "stable"))
    with session.transaction():
        tables.create_shadow(described(tables, live), shadow, run_key)
    run(session, f"INSERT INTO {quoted(shadow.schema)}.{quoted(shadow.name)} {rows}")
    tables.build_indexes(shadow, described(tables, live))
    return shadow


def publish(session: Session, tables: PostgresTables, run_key: str, rows: str, live: TableRef = LIVE) -> TableRef:
    """Load a shadow and swap it in; returns the backup."""
    shadow = load_shadow(session, tables, run_key, rows, live)
    assert tables.settle_horizon(shadow, tables.seal(shadow)) == []
    backup = live.sibling(backup_name(live, run_key))
    swap_in(session, tables, live, shadow, backup)
    return backup


def swap_in(session: Session, tables: PostgresTables, live: TableRef, shadow: TableRef, backup: TableRef) -> None:
    with session.transaction():
        tables.lock_table(shadow, 1)
        tables.lock_table(live, 1)
        tables.swap(described(tables, live), described(tables, shadow), backup, "generation")


def facts(session: Session, table: str) -> list[object]:
    return [session.connection.execute(query, [table]).fetchall() for query in FACTS]


def rows_of(session: Session, table: str) -> list[object]:
    return session.connection.execute(f"SELECT id FROM {table} ORDER BY id".encode()).fetchall()


def test_three_publications_leave_every_name_where_it_was(
    session: Session, tables: PostgresTables, roles: object
) -> None:
    run(
        session,
        "CREATE TABLE landing.orders (id int CONSTRAINT nn_id NOT NULL CONSTRAINT the_key PRIMARY KEY, "
        "name text NOT NULL, code text CONSTRAINT code_once UNIQUE, n int) WITH (fillfactor = 90)",
        "CREATE INDEX by_lower ON landing.orders (lower(name))",
        "CREATE INDEX partial ON landing.orders (n) WHERE n > 5",
        "CREATE UNIQUE INDEX covering ON landing.orders (name, id) INCLUDE (n)",
        "CREATE INDEX same_a ON landing.orders (n)",
        "CREATE INDEX same_b ON landing.orders (n)",
        "ALTER TABLE landing.orders CLUSTER ON the_key",
        "ALTER TABLE landing.orders REPLICA IDENTITY FULL",
        "COMMENT ON TABLE landing.orders IS 'orders, it''s live'",
        "COMMENT ON COLUMN landing.orders.code IS 'a %s {code}'",
        "COMMENT ON INDEX landing.partial IS 'an index'",
        "COMMENT ON CONSTRAINT the_key ON landing.orders IS 'a key'",
        "INSERT INTO landing.orders VALUES (0, 'old', 'old', 0)",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA landing GRANT ALL ON TABLES TO dpone_swap_writer",
        "GRANT ALL ON SCHEMA landing TO dpone_swap_owner",
        "ALTER TABLE landing.orders OWNER TO dpone_swap_owner",
        "GRANT SELECT ON landing.orders TO dpone_swap_reader WITH GRANT OPTION",
        'GRANT INSERT, UPDATE ON landing.orders TO "dpone ""swap"" odd"',
        "GRANT SELECT ON landing.orders TO PUBLIC",
        "REVOKE TRUNCATE ON landing.orders FROM dpone_swap_owner",
    )
    if session.server_version >= 180000:
        run(session, "COMMENT ON CONSTRAINT nn_id ON landing.orders IS 'a not-null'")
    before = facts(session, "landing.orders")
    for number in (1, 2, 3):
        rows = f"SELECT {number}, 'n{number}', 'c{number}', {number}"
        backup = publish(session, tables, f"{number}" * 64, rows)
        assert facts(session, "landing.orders") == before
        assert rows_of(session, "landing.orders") == [(number,)]
        assert rows_of(session, f"landing.{quoted(backup.name)}") == [(number - 1,)]
        assert tables.shadow_owner(LIVE) == ""
        assert tables.shadow_owner(LIVE.sibling(shadow_name(LIVE, "", "stable"))) is None


def test_a_login_that_is_only_a_member_of_the_owner_can_publish(
    session: Session, tables: PostgresTables, roles: object
) -> None:
    run(
        session,
        "CREATE TABLE landing.orders (id int PRIMARY KEY)",
        "COMMENT ON TABLE landing.orders IS 'live'",
        "GRANT ALL ON SCHEMA landing TO dpone_swap_owner, dpone_swap_writer",
        "GRANT dpone_swap_owner TO dpone_swap_writer",
        "ALTER TABLE landing.orders OWNER TO dpone_swap_owner",
        "GRANT SELECT ON landing.orders TO dpone_swap_reader",
    )
    before = facts(session, "landing.orders")
    run(session, "SET ROLE dpone_swap_writer")
    assert described(tables, LIVE).findings == ()
    publish(session, tables, "1" * 64, "SELECT 1")
    run(session, "RESET ROLE")
    assert facts(session, "landing.orders") == before


def test_an_owner_that_cannot_be_given_the_shadow_is_found_before_any_load(
    session: Session, tables: PostgresTables, roles: object
) -> None:
    run(
        session,
        "CREATE TABLE landing.orders (id int PRIMARY KEY)",
        "GRANT USAGE ON SCHEMA landing TO dpone_swap_owner",
        "GRANT ALL ON SCHEMA landing TO dpone_swap_writer",
        "GRANT dpone_swap_owner TO dpone_swap_writer",
        "ALTER TABLE landing.orders OWNER TO dpone_swap_owner",
        "SET ROLE dpone_swap_writer",
    )
    problems = [finding.problem for finding in described(tables, LIVE).findings]
    run(session, "RESET ROLE")
    assert len(problems) == 1
    assert "owner may not create" in problems[0]


def test_a_backup_is_swapped_back_by_the_same_call(session: Session, tables: PostgresTables) -> None:
    run(
        session,
        "CREATE TABLE landing.orders (id int PRIMARY KEY, n int)",
        "CREATE INDEX by_n ON landing.orders (n)",
        "INSERT INTO landing.orders VALUES (0, 0)",
    )
    before = facts(session, "landing.orders")
    backup = publish(session, tables, "1" * 64, "SELECT 1, 1")
    swap_in(session, tables, LIVE, backup, LIVE.sibling("withdrawn"))
    assert facts(session, "landing.orders") == before
    assert rows_of(session, "landing.orders") == [(0,)]
    assert rows_of(session, "landing.withdrawn") == [(1,)]


def test_a_unique_index_without_primary_key(session: Session, tables: PostgresTables) -> None:
    run(session, "CREATE TABLE landing.orders (id int NOT NULL)", "CREATE UNIQUE INDEX u ON landing.orders (id)")
    before = facts(session, "landing.orders")
    publish(session, tables, "1" * 64, "SELECT 1")
    assert facts(session, "landing.orders") == before


def test_tablespaces_are_kept_for_table_and_index(session: Session, tables: PostgresTables) -> None:
    run(session, "SET allow_in_place_tablespaces = on", "CREATE TABLESPACE dpone_swap_space LOCATION ''")
    try:
        run(
            session,
            "CREATE TABLE landing.orders (id int PRIMARY KEY, n int) TABLESPACE dpone_swap_space",
            "CREATE INDEX here ON landing.orders (n) TABLESPACE dpone_swap_space",
            "SET default_tablespace = dpone_swap_space",
        )
        publish(session, tables, "1" * 64, "SELECT 1, 1")
        row = session.connection.execute(
            "SELECT array_agg(c.relname::text ORDER BY 1) FROM pg_class c"
            " JOIN pg_tablespace s ON s.oid = c.reltablespace"
            " WHERE s.spcname = 'dpone_swap_space' AND c.relname IN ('orders', 'here', 'orders_pkey')"
        ).fetchone()
        assert row == (["here", "orders"],)
        assert session.connection.execute("SHOW default_tablespace").fetchone() == ("dpone_swap_space",)
    finally:
        run(session, "DROP SCHEMA landing CASCADE", "DROP TABLESPACE dpone_swap_space")


@pytest.mark.parametrize("name", ["select", 'q"q', "日本語", "MiXed", "%s", "{x}", "a.b", "it's", "n" * 63, "語" * 21])
def test_odd_names(session: Session, tables: PostgresTables, name: str) -> None:
    live = TableRef("landing", name)
    column, index = quoted(name), quoted("i" + name[:19])
    full = f"landing.{quoted(name)}"
    run(
        session,
        f"CREATE TABLE {full} (id int PRIMARY KEY, {column} text DEFAULT '%s {{x}}')",
        f"CREATE UNIQUE INDEX {index} ON {full} (lower({column})) WHERE {column} <> '{{x}} %s'",
        f"COMMENT ON COLUMN {full}.{column} IS 'c'",
        f"COMMENT ON INDEX landing.{index} IS 'i'",
    )
    before = facts(session, full)
    for number in (1, 2):
        publish(session, tables, f"{number}" * 64, f"SELECT {number}", live)
        assert facts(session, full) == before


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("ALTER TABLE {shadow} ADD extra int", "columns"),
        ("DROP INDEX landing.by_n", "indexes"),
        ("ALTER TABLE landing.orders ALTER n SET NOT NULL", "columns"),
        ("ALTER TABLE {shadow} SET (fillfactor = 50)", "options"),
        ("CREATE INDEX extra ON {shadow} (n)", "indexes"),
        # Alike again, but not what the caller has proven.
        ("ALTER TABLE {shadow} ADD extra int; ALTER TABLE landing.orders ADD extra int", "columns"),
    ],
)
def test_a_change_after_the_look_is_drift_and_changes_nothing(
    session: Session, tables: PostgresTables, change: str, what: str
) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY, n int)", "CREATE INDEX by_n ON landing.orders (n)")
    shadow = load_shadow(session, tables, "1" * 64, "SELECT 1, 1")
    live, full = described(tables, LIVE), described(tables, shadow)
    run(session, *change.format(shadow=f"landing.{quoted(shadow.name)}").split(";"))
    before = facts(session, "landing.orders")
    with pytest.raises(CatalogDrift, match=what), session.transaction():
        tables.swap(live, full, LIVE.sibling("backup"), "generation")
    assert facts(session, "landing.orders") == before


def test_an_index_that_changed_its_name_only_is_drift(session: Session, tables: PostgresTables) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY, n int)", "CREATE INDEX by_n ON landing.orders (n)")
    shadow = load_shadow(session, tables, "1" * 64, "SELECT 1, 1")
    run(session, "ALTER INDEX landing.by_n RENAME TO by_m")
    with pytest.raises(CatalogDrift, match="derived"):
        swap_in(session, tables, LIVE, shadow, LIVE.sibling("backup"))


def test_a_foreign_table_under_the_backups_name_is_kept(session: Session, tables: PostgresTables) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY)", "CREATE TABLE landing.backup (id int)")
    shadow = load_shadow(session, tables, "1" * 64, "SELECT 1")
    before = facts(session, "landing.orders")
    with pytest.raises(CatalogDrift, match="taken"):
        swap_in(session, tables, LIVE, shadow, LIVE.sibling("backup"))
    assert facts(session, "landing.orders") == before


def test_a_lock_that_is_not_free_names_its_holder(session: Session, tables: PostgresTables, database: str) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY)")
    reader = Session(database, "the long reader")
    try:
        with reader.transaction():
            reader.connection.execute("SELECT FROM landing.orders")
            with (
                pytest.raises(PublicationBlocked, match=r"landing\.orders was not free.*the long reader"),
                session.transaction(),
            ):
                tables.lock_table(LIVE, 0.1)
        with session.transaction():
            tables.lock_table(LIVE, 0.1)
            assert session.connection.execute("SHOW lock_timeout").fetchone() == ("0",)
    finally:
        reader.close()


def test_a_lock_of_a_missing_table_is_drift(session: Session, tables: PostgresTables) -> None:
    with pytest.raises(CatalogDrift, match="gone"), session.transaction():
        tables.lock_table(LIVE, 0.1)


def test_a_reader_older_than_the_chunks_blocks_and_is_named(
    session: Session, tables: PostgresTables, database: str
) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY, big text)")
    old = Session(database, "the old report")
    shadow = LIVE.sibling(shadow_name(LIVE, "1" * 64, "stable"))
    try:
        with session.transaction():
            tables.create_shadow(described(tables, LIVE), shadow, "1" * 64)
        with old.transaction("REPEATABLE READ"):
            old.connection.execute("SELECT 1")
            run(
                session,
                f"INSERT INTO landing.{quoted(shadow.name)} SELECT n, repeat('x', 9000) FROM generate_series(1, 50) n",
            )
            tables.build_indexes(shadow, described(tables, LIVE))
            horizon = tables.seal(shadow)
            blockers = tables.settle_horizon(shadow, horizon)
            assert len(blockers) == 1
            assert "the old report" in blockers[0]
        # A snapshot from after the seal is in nobody's way, and sees every row after the swap.
        with old.transaction("REPEATABLE READ"):
            old.connection.execute("SELECT 1")
            assert tables.settle_horizon(shadow, horizon) == []
            swap_in(session, tables, LIVE, shadow, LIVE.sibling("backup"))
            seen = old.connection.execute("SELECT count(*), sum(length(big)) FROM landing.orders").fetchone()
        assert seen == (50, 450_000)
    finally:
        old.close()


def test_an_open_writer_from_before_the_seal_blocks_too(
    session: Session, tables: PostgresTables, database: str
) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY)", "CREATE TABLE landing.other (id int)")
    writer = Session(database, "the slow writer")
    try:
        with writer.transaction():
            writer.connection.execute("INSERT INTO landing.other VALUES (1)")
            shadow = load_shadow(session, tables, "1" * 64, "SELECT 1")
            horizon = tables.seal(shadow)
            assert "the slow writer" in tables.settle_horizon(shadow, horizon)[0]
        assert tables.settle_horizon(shadow, horizon) == []
    finally:
        writer.close()


def test_a_settled_shadow_is_not_vacuumed_again(session: Session, tables: PostgresTables) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY)")
    shadow = load_shadow(session, tables, "1" * 64, "SELECT 1")
    horizon = tables.seal(shadow)
    assert tables.settle_horizon(shadow, horizon) == []
    with session.transaction():  # VACUUM would be refused in a transaction
        assert tables.settle_horizon(shadow, horizon) == []
    assert tables.settle_horizon(shadow, None) == []


def test_another_database_is_in_nobodys_way(
    session: Session, tables: PostgresTables, new_database: Callable[[str], str]
) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY)")
    elsewhere = Session(new_database("elsewhere"), "elsewhere")
    try:
        with elsewhere.transaction("REPEATABLE READ"):
            elsewhere.connection.execute("SELECT 1")
            shadow = load_shadow(session, tables, "1" * 64, "SELECT 1")
            assert tables.settle_horizon(shadow, tables.seal(shadow)) == []
    finally:
        elsewhere.close()


def test_a_reader_sees_the_old_table_and_then_the_new_one(
    session: Session, tables: PostgresTables, database: str
) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY)", "INSERT INTO landing.orders VALUES (0)")
    seen: list[int] = []
    stop = threading.Event()

    def read() -> None:
        reader = Session(database, "reader")
        while not stop.is_set():
            rows = reader.connection.execute("SELECT id FROM landing.orders").fetchall()
            seen.append(rows[0][0] if len(rows) == 1 else -1)
        reader.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for number in (1, 2, 3):
            publish(session, tables, f"{number}" * 64, f"SELECT {number}")
    finally:
        stop.set()
        thread.join()
    assert set(seen) <= {0, 1, 2, 3}
    assert seen == sorted(seen)
