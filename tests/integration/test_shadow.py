"""The shadow: its shape, its owner, its deferred indexes, and what validation counts in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpone_dagster.campaign.errors import CatalogDrift, ShadowForeign
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports.tables import IndexViolation, ShadowHandle, TargetTable
from dpone_dagster.postgres.session import Session
from dpone_dagster.postgres.tables import PostgresTables

LIVE = TableRef("landing", "orders")
SHADOW = TableRef("landing", "orders_shadow")
RUN_KEY = "a" * 64


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    opened = Session(database, "test shadow")
    run(
        opened,
        "CREATE SCHEMA landing",
        "CREATE TABLE landing.orders (id int PRIMARY KEY, name text COLLATE \"C\" NOT NULL DEFAULT 'x', "
        "code varchar(8) CONSTRAINT code_once UNIQUE, big text) "
        "WITH (fillfactor = 80, toast.autovacuum_enabled = false)",
        "ALTER TABLE landing.orders ALTER big SET STORAGE EXTERNAL",
        "ALTER TABLE landing.orders ALTER name SET STATISTICS 300",
        "ALTER TABLE landing.orders ALTER code SET (n_distinct = -0.5)",
        "CREATE INDEX orders_name ON landing.orders (lower(name) DESC NULLS LAST) WITH (fillfactor = 60) "
        "WHERE big <> '{x}'",
        "ALTER INDEX landing.orders_name ALTER COLUMN 1 SET STATISTICS 77",
        "CREATE UNIQUE INDEX orders_pair ON landing.orders (code, name) INCLUDE (big) NULLS NOT DISTINCT",
        "ALTER TABLE landing.orders CLUSTER ON orders_pair",
        "CREATE UNIQUE INDEX orders_ident ON landing.orders (name)",
        "ALTER TABLE landing.orders REPLICA IDENTITY USING INDEX orders_ident",
    )
    yield opened
    opened.close()


@pytest.fixture
def tables(session: Session) -> PostgresTables:
    return PostgresTables(session, "system")


def run(session: Session, *statements: str) -> None:
    for statement in statements:
        session.connection.execute(statement.encode())


def live_of(tables: PostgresTables) -> TargetTable:
    found = tables.describe(LIVE)
    assert found is not None
    return found


def create(session: Session, tables: PostgresTables, run_key: str = RUN_KEY) -> ShadowHandle:
    with session.transaction():
        return tables.create_shadow(live_of(tables), SHADOW, run_key)


def test_the_full_shadow_has_the_live_tables_contract(session: Session, tables: PostgresTables) -> None:
    create(session, tables)
    bare = tables.describe(SHADOW)
    assert bare is not None
    assert bare.sha256 != live_of(tables).sha256
    assert bare.unique_keys == ()
    tables.build_indexes(SHADOW, live_of(tables))
    full = tables.describe(SHADOW)
    assert full is not None
    assert full.sha256 == live_of(tables).sha256
    assert full.contract == live_of(tables).contract


def test_a_shadow_is_owned_by_one_run_key(session: Session, tables: PostgresTables) -> None:
    assert tables.shadow_owner(SHADOW) is None
    handle = create(session, tables)
    assert tables.shadow_owner(SHADOW) == RUN_KEY
    assert tables.shadow_owner(LIVE) == ""
    assert create(session, tables) == handle
    with pytest.raises(ShadowForeign, match="taken by a table of campaign aaaa"):
        create(session, tables, "b" * 64)
    assert tables.shadow_owner(SHADOW) == RUN_KEY


@pytest.mark.parametrize(
    "what", ["TABLE landing.orders_shadow (id int)", "VIEW landing.orders_shadow AS SELECT 1 AS id"]
)
def test_a_strangers_table_is_never_taken(session: Session, tables: PostgresTables, what: str) -> None:
    run(session, f"CREATE {what}")
    assert tables.shadow_owner(SHADOW) == ""
    with pytest.raises(ShadowForeign, match="no campaign"):
        create(session, tables)


def test_a_comment_that_only_looks_like_a_mark_is_nobodys(session: Session, tables: PostgresTables) -> None:
    run(session, "CREATE TABLE landing.orders_shadow (id int)")
    for text in ('{"dpone_shadow_of": 5}', "[1]", "plain words", "{broken"):
        run(session, f"COMMENT ON TABLE landing.orders_shadow IS '{text}'")
        assert tables.shadow_owner(SHADOW) == ""


def test_a_creation_that_is_rolled_back_leaves_nothing(session: Session, tables: PostgresTables) -> None:
    def create_and_fail() -> None:
        with session.transaction():
            tables.create_shadow(live_of(tables), SHADOW, RUN_KEY)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        create_and_fail()
    assert tables.shadow_owner(SHADOW) is None


def test_a_live_table_that_was_replaced_is_drift(session: Session, tables: PostgresTables) -> None:
    seen = live_of(tables)
    run(session, "ALTER TABLE landing.orders RENAME TO away", "CREATE TABLE landing.orders (id int PRIMARY KEY)")
    with pytest.raises(CatalogDrift, match="replaced"), session.transaction():
        tables.create_shadow(seen, SHADOW, RUN_KEY)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE landing.orders_shadow ADD extra int",
        "ALTER TABLE landing.orders_shadow ALTER code TYPE varchar(9)",
        "ALTER TABLE landing.orders_shadow ALTER name DROP NOT NULL",
        "ALTER TABLE landing.orders_shadow ALTER name SET DEFAULT 'y'",
    ],
)
def test_an_altered_shadow_is_drift(session: Session, tables: PostgresTables, change: str) -> None:
    create(session, tables)
    run(session, change)
    with pytest.raises(CatalogDrift, match="columns"):
        create(session, tables)


def test_a_live_table_altered_while_loading_is_drift_at_the_build(session: Session, tables: PostgresTables) -> None:
    create(session, tables)
    run(session, "ALTER TABLE landing.orders ADD extra int")
    with pytest.raises(CatalogDrift, match="columns"):
        tables.build_indexes(SHADOW, live_of(tables))


def index_oids(session: Session) -> dict[str, int]:
    rows = session.connection.execute(
        "SELECT c.relname, c.oid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "WHERE i.indrelid = 'landing.orders_shadow'::regclass"
    ).fetchall()
    return dict(rows)


def test_building_again_keeps_what_is_built(session: Session, tables: PostgresTables) -> None:
    create(session, tables)
    tables.build_indexes(SHADOW, live_of(tables))
    before = index_oids(session)
    assert len(before) == 5
    run(session, f'DROP INDEX landing."{next(name for name in before if name.startswith("orders_name"))}"')
    tables.build_indexes(SHADOW, live_of(tables))
    after = index_oids(session)
    assert after.keys() == before.keys()
    assert sum(after[name] != before[name] for name in before) == 1


def test_an_index_of_an_older_look_is_built_anew(session: Session, tables: PostgresTables) -> None:
    create(session, tables)
    tables.build_indexes(SHADOW, live_of(tables))
    name = next(name for name in index_oids(session) if name.startswith("orders_name"))
    run(session, f'DROP INDEX landing."{name}"', f'CREATE INDEX "{name}" ON landing.orders_shadow (big)')
    tables.build_indexes(SHADOW, live_of(tables))
    full = tables.describe(SHADOW)
    assert full is not None
    assert full.sha256 == live_of(tables).sha256


def test_an_index_too_many_is_drift(session: Session, tables: PostgresTables) -> None:
    create(session, tables)
    run(session, "CREATE INDEX foreign_one ON landing.orders_shadow (big)")
    with pytest.raises(CatalogDrift, match="indexes"):
        tables.build_indexes(SHADOW, live_of(tables))
    assert "foreign_one" in index_oids(session)


def test_duplicates_under_a_unique_index_are_counted_and_the_index_is_named(
    session: Session, tables: PostgresTables
) -> None:
    create(session, tables)
    run(session, "INSERT INTO landing.orders_shadow VALUES (1, 'same', 'p'), (2, 'same', 'q'), (3, 'same', 'r')")
    assert tables.build_indexes(SHADOW, live_of(tables)) == [IndexViolation("orders_ident", 2)]
    run(session, "DELETE FROM landing.orders_shadow WHERE id > 1")
    assert tables.build_indexes(SHADOW, live_of(tables)) == []


@pytest.mark.parametrize(
    ("definition", "rows", "surplus"),
    [
        ("(lower(name))", "(1, 'a{}%s'), (2, 'A{}%s'), (3, 'b')", 1),
        ("(name) WHERE id > 5 AND name <> '{x}%s'", "(1, 'a'), (2, 'a')", None),
        ("(name) WHERE id > 5 AND name <> '{x}%s'", "(1, 'a'), (6, 'a'), (7, 'a')", 1),
        ("(name, big) INCLUDE (id)", "(1, 'a'), (2, 'a')", None),  # a NULL is like no other one
    ],
)
def test_duplicates_are_those_that_the_index_means(
    session: Session, tables: PostgresTables, definition: str, rows: str, surplus: int | None
) -> None:
    run(session, f'CREATE UNIQUE INDEX "odd ""{{x}}" ON landing.orders {definition}')
    create(session, tables)
    run(session, f"INSERT INTO landing.orders_shadow (id, name) VALUES {rows}")
    found = [v for v in tables.build_indexes(SHADOW, live_of(tables)) if v.index == 'odd "{x}']
    assert found == ([] if surplus is None else [IndexViolation('odd "{x}', surplus)])


def test_key_quality_counts_nulls_and_surplus_rows_as_the_column_compares(
    session: Session, tables: PostgresTables
) -> None:
    """1.0 and 1.00 are one numeric, though two texts; the embedded server has no case-blind collation to try."""
    run(
        session,
        "CREATE TABLE landing.k (a numeric, b int)",
        "INSERT INTO landing.k VALUES (1.0, 1), (1.00, 1), (1.000, 1), (2, 1), (2, 2)",
        "INSERT INTO landing.k VALUES (NULL, 1), (NULL, 1), (2, NULL), (NULL, NULL)",
    )
    table = TableRef("landing", "k")
    quality = tables.key_quality(table, ("a", "b"))
    assert (quality.null_keys, quality.duplicate_keys) == (4, 2)
    assert tables.count(table) == 9
    run(session, "TRUNCATE landing.k")
    assert tables.key_quality(table, ("a",)).duplicate_keys == 0
