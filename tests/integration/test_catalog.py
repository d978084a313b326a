"""The catalog contract: what it holds, what changes it, and everything that a swap would lose."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from dpone_dagster.campaign.errors import TransientFailure
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports.tables import TargetTable
from dpone_dagster.postgres.session import Session
from dpone_dagster.postgres.tables import PostgresTables

LIVE = TableRef("landing", "orders")


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    opened = Session(database, "test catalog")
    opened.connection.execute("CREATE SCHEMA landing")
    yield opened
    opened.close()


def described(session: Session, table: TableRef = LIVE) -> TargetTable:
    found = PostgresTables(session, "system").describe(table)
    assert found is not None
    return found


def run(session: Session, *statements: str) -> None:
    for statement in statements:
        session.connection.execute(statement.encode())


def test_a_missing_table_is_none(session: Session) -> None:
    assert PostgresTables(session, "system").describe(LIVE) is None


def test_an_ordinary_table_has_no_finding(session: Session) -> None:
    run(
        session,
        "CREATE TABLE landing.orders (id uuid PRIMARY KEY, amount numeric(18,2) NOT NULL DEFAULT 0, note text, "
        "code varchar(8) NOT NULL UNIQUE)",
        "CREATE INDEX ON landing.orders (amount) WHERE note IS NOT NULL",
        "CREATE UNIQUE INDEX ON landing.orders (lower(note))",
        "CREATE UNIQUE INDEX ON landing.orders (code, amount) INCLUDE (note)",
    )
    table = described(session)
    assert table.findings == ()
    assert [c.name for c in table.columns] == ["id", "amount", "note", "code"]
    assert set(table.unique_keys) == {("id",), ("code",), ("code", "amount")}
    assert not table.rows_exist
    run(session, "INSERT INTO landing.orders VALUES (gen_random_uuid(), 1, 'a', 'b')")
    assert described(session).rows_exist


def test_a_look_changes_no_setting_and_leaves_no_transaction(session: Session) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY)", "SET search_path = landing, public")
    described(session)
    row = session.connection.execute("SHOW search_path").fetchone()
    assert row == ("landing, public",)
    assert session.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_a_look_inside_a_transaction_restores_its_settings(session: Session) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY)", "SET search_path = landing")
    with session.transaction():
        described(session)
        assert session.connection.execute("SHOW search_path").fetchone() == ("landing",)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE landing.orders ADD COLUMN extra int",
        "ALTER TABLE landing.orders ALTER COLUMN amount TYPE numeric(18,3)",
        "ALTER TABLE landing.orders ALTER COLUMN note SET NOT NULL",
        "ALTER TABLE landing.orders ALTER COLUMN note SET DEFAULT 'x'",
        'ALTER TABLE landing.orders ALTER COLUMN note TYPE text COLLATE "C"',
        "ALTER TABLE landing.orders ALTER COLUMN note SET STORAGE EXTERNAL",
        "ALTER TABLE landing.orders ALTER COLUMN note SET COMPRESSION pglz",
        "ALTER TABLE landing.orders ALTER COLUMN note SET STATISTICS 500",
        "ALTER TABLE landing.orders ALTER COLUMN note SET (n_distinct = 5)",
        "ALTER TABLE landing.orders RENAME COLUMN note TO remark",
        "ALTER TABLE landing.orders SET (fillfactor = 70)",
        "ALTER TABLE landing.orders SET (toast.autovacuum_enabled = false)",
        "ALTER TABLE landing.orders REPLICA IDENTITY FULL",
        "ALTER TABLE landing.orders CLUSTER ON orders_pkey",
        "CREATE INDEX ON landing.orders (note)",
        "ALTER INDEX landing.orders_pkey SET (fillfactor = 50)",
        "ALTER TABLE landing.orders DROP CONSTRAINT orders_pkey",
    ],
)
def test_every_property_is_in_the_digest(session: Session, change: str) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY, amount numeric(18,2), note text)")
    before = described(session).sha256
    assert described(session).sha256 == before
    run(session, change)
    assert described(session).sha256 != before


def test_names_that_must_differ_are_not_in_the_digest(session: Session) -> None:
    columns = "(id int CONSTRAINT nn NOT NULL, CONSTRAINT {} PRIMARY KEY (id))"
    run(
        session,
        f"CREATE TABLE landing.orders {columns.format('first')}",
        f"CREATE TABLE landing.other {columns.format('second')}",
    )
    assert described(session).sha256 == described(session, TableRef("landing", "other")).sha256


@pytest.mark.parametrize(
    ("statement", "name", "problem"),
    [
        ("CREATE TABLE landing.c (o int REFERENCES landing.orders)", "c_o_fkey on landing.c", "points to the table"),
        (
            "ALTER TABLE landing.orders ADD FOREIGN KEY (other) REFERENCES landing.o2",
            "orders_other_fkey",
            "foreign key",
        ),
        (
            "ALTER TABLE landing.orders ADD FOREIGN KEY (other) REFERENCES landing.orders",
            "orders_other_fkey",
            "foreign key",
        ),
        ("ALTER TABLE landing.orders ADD CHECK (other > 0)", "orders_other_check", "CHECK"),
        ("ALTER TABLE landing.orders ADD EXCLUDE USING btree (other WITH =)", "orders_other_excl", "EXCLUDE"),
        ("ALTER TABLE landing.orders ADD UNIQUE (other) DEFERRABLE", "orders_other_key", "deferrable"),
        (
            "CREATE TRIGGER tr BEFORE INSERT ON landing.orders FOR EACH ROW EXECUTE FUNCTION landing.f()",
            "tr on",
            "trigger",
        ),
        (
            "CREATE TRIGGER tr BEFORE INSERT ON landing.orders FOR EACH ROW EXECUTE FUNCTION landing.f();"
            "ALTER TABLE landing.orders DISABLE TRIGGER tr",
            "tr on",
            "trigger",
        ),
        (
            "CREATE CONSTRAINT TRIGGER tr AFTER INSERT ON landing.orders FOR EACH ROW EXECUTE FUNCTION landing.f()",
            "tr on",
            "trigger",
        ),
        ("CREATE RULE r AS ON DELETE TO landing.orders DO INSTEAD NOTHING", "r on landing.orders", "rule"),
        ("ALTER TABLE landing.orders ENABLE ROW LEVEL SECURITY", "landing.orders", "row security"),
        ("CREATE POLICY p ON landing.orders USING (true)", "p on landing.orders", "policy"),
        ("CREATE TABLE landing.child () INHERITS (landing.orders)", "landing.child", "inheritance"),
        ("ALTER TABLE landing.orders INHERIT landing.parent", "landing.parent", "inherited"),
        ("CREATE VIEW landing.v AS SELECT id FROM landing.orders", "landing.v", "view"),
        ("CREATE VIEW landing.v AS SELECT id, other FROM landing.orders GROUP BY id", "landing.v", "view"),
        ("CREATE MATERIALIZED VIEW landing.m AS SELECT id FROM landing.orders", "landing.m", "materialized"),
        ("CREATE FUNCTION landing.g(landing.orders) RETURNS int LANGUAGE sql AS 'SELECT 1'", "landing.g(", "function"),
        (
            "CREATE FUNCTION landing.g(landing.orders[]) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "landing.g(",
            "function",
        ),
        (
            "CREATE FUNCTION landing.g() RETURNS bigint RETURN (SELECT count(*) FROM landing.orders)",
            "landing.g(",
            "function",
        ),
        ("CREATE TABLE landing.w (o landing.orders)", "landing.w.o", "table column"),
        ("CREATE PUBLICATION pub FOR TABLE landing.orders", "pub", "publication"),
        ("CREATE PUBLICATION pub FOR ALL TABLES", "pub", "publication"),
        ("CREATE PUBLICATION pub FOR TABLES IN SCHEMA landing", "pub", "publication"),
        ("ALTER TABLE landing.orders ADD n int GENERATED ALWAYS AS IDENTITY", "landing.orders.n", "identity"),
        ("ALTER TABLE landing.orders ADD n int GENERATED ALWAYS AS (id + 1) STORED", "landing.orders.n", "generated"),
        ("ALTER TABLE landing.orders ADD n serial", "landing.orders_n_seq", "sequence owned"),
        ("ALTER TABLE landing.orders ADD n int DEFAULT nextval('landing.free')", "landing.orders.n", "from a sequence"),
        ("CREATE STATISTICS landing.st ON id, other FROM landing.orders", "landing.st", "statistics"),
        ("ALTER TABLE landing.orders SET UNLOGGED", "landing.orders", "unlogged"),
        ("GRANT SELECT (id) ON landing.orders TO PUBLIC", "landing.orders.id", "column"),
        ("COMMENT ON TYPE landing.orders IS 'x'", "orders", "row type"),
        ("ALTER TABLE landing.orders ADD CONSTRAINT late NOT NULL other NOT VALID", "late on", "NOT NULL"),
        ("ALTER TABLE landing.orders ADD CONSTRAINT alone NOT NULL other NO INHERIT", "alone on", "NOT NULL"),
    ],
)
def test_what_a_swap_would_lose_is_found(session: Session, statement: str, name: str, problem: str) -> None:
    run(
        session,
        "CREATE TABLE landing.orders (id int PRIMARY KEY, other int)",
        "CREATE TABLE landing.o2 (id int PRIMARY KEY)",
        "CREATE TABLE landing.parent (id int NOT NULL, other int)",
        "CREATE FUNCTION landing.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE SEQUENCE landing.free",
    )
    assert described(session).findings == ()
    run(session, *statement.split(";"))
    findings = described(session).findings
    assert [f for f in findings if name in f.path and problem in f.problem], findings
    assert all(f.advice for f in findings)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("CREATE TABLE landing.orders (id int) PARTITION BY RANGE (id)", "partitioned"),
        (
            "CREATE TABLE landing.whole (id int) PARTITION BY RANGE (id);"
            "CREATE TABLE landing.orders PARTITION OF landing.whole DEFAULT",
            "partition of",
        ),
        ("CREATE VIEW landing.orders AS SELECT 1 AS id", "not a table"),
        ("CREATE TYPE landing.ty AS (id int);CREATE TABLE landing.orders OF landing.ty", "made of"),
        (
            "CREATE TABLE landing.orders (a int4range, b int4range, PRIMARY KEY (a, b WITHOUT OVERLAPS))",
            "WITHOUT OVERLAPS",
        ),
    ],
)
def test_other_kinds_of_relations_are_refused(session: Session, statement: str, problem: str) -> None:
    run(session, *statement.split(";"))
    findings = described(session).findings
    assert any(problem in f.problem for f in findings), findings


def test_an_unfinished_index_is_found(session: Session) -> None:
    run(session, "CREATE TABLE landing.orders (id int, other int)", "INSERT INTO landing.orders VALUES (1, 1), (2, 1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        run(session, "CREATE UNIQUE INDEX CONCURRENTLY broken ON landing.orders (other)")
    table = described(session)
    assert any("never finished" in f.problem and "broken" in f.path for f in table.findings)
    assert table.unique_keys == ()


def test_all_findings_come_at_once(session: Session) -> None:
    run(
        session,
        "CREATE TABLE landing.orders (id serial PRIMARY KEY, other int CHECK (other > 0))",
        "CREATE VIEW landing.v AS SELECT * FROM landing.orders",
        "ALTER TABLE landing.orders ENABLE ROW LEVEL SECURITY",
    )
    assert len(described(session).findings) == 5


def test_a_login_without_the_owners_rights_is_told(session: Session, database: str) -> None:
    run(
        session,
        "CREATE TABLE landing.orders (id int PRIMARY KEY)",
        "CREATE ROLE dpone_catalog_guest LOGIN",
        "GRANT USAGE ON SCHEMA landing TO dpone_catalog_guest",
        "GRANT SELECT ON landing.orders TO dpone_catalog_guest",
    )
    try:
        run(session, "SET ROLE dpone_catalog_guest")
        problems = [f.problem for f in described(session).findings]
        assert any("owner's rights" in p for p in problems)
        assert any("may not create" in p for p in problems)
    finally:
        run(session, "RESET ROLE", "DROP OWNED BY dpone_catalog_guest", "DROP ROLE dpone_catalog_guest")


def test_grants_by_somebody_else_than_the_owner_are_found(session: Session) -> None:
    run(
        session,
        "CREATE TABLE landing.orders (id int PRIMARY KEY)",
        "CREATE ROLE dpone_catalog_granter",
        "GRANT USAGE ON SCHEMA landing TO dpone_catalog_granter",
        "GRANT SELECT ON landing.orders TO dpone_catalog_granter WITH GRANT OPTION",
    )
    try:
        assert described(session).findings == ()
        run(session, "SET ROLE dpone_catalog_granter", "GRANT SELECT ON landing.orders TO PUBLIC", "RESET ROLE")
        assert any("without owning" in f.problem for f in described(session).findings)
    finally:
        run(session, "RESET ROLE", "DROP OWNED BY dpone_catalog_granter CASCADE", "DROP ROLE dpone_catalog_granter")


def test_an_index_of_many_names_is_read_back(session: Session) -> None:
    """Keywords, quotes, percent signs, braces and letters beyond ASCII in every name."""
    run(
        session,
        'CREATE SCHEMA "select"',
        'CREATE TABLE "select"."日本 q""q" ("a]b" int PRIMARY KEY, "%s" text, "{x}" text, "it\'s" text)',
        'CREATE UNIQUE INDEX "i""{x} %s" ON "select"."日本 q""q" (lower("%s")) INCLUDE ("it\'s") '
        "WHERE \"{x}\" <> '{%s}'",
    )
    table = described(session, TableRef("select", '日本 q"q'))
    assert table.findings == ()
    assert table.unique_keys == (("a]b",),)


def test_a_table_that_somebody_alters_is_not_waited_for_without_end(
    session: Session, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpone_dagster.postgres.catalog._LOCK_WAIT_SECONDS", 0.1)
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY)", "SET lock_timeout = '77s'")
    with psycopg.connect(database, application_name="migration") as other:
        other.execute("LOCK TABLE landing.orders IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(TransientFailure, match="migration"), session.transaction():
            described(session)
    with session.transaction():
        described(session)
        assert session.connection.execute("SHOW lock_timeout").fetchone() == ("77s",)


def test_only_documented_options_of_a_column_count(session: Session) -> None:
    run(session, "CREATE TABLE landing.orders (id int PRIMARY KEY, n int)")
    before = described(session).sha256
    # As Debian's PostgreSQL 15 does by itself.
    of_others = "UPDATE pg_attribute SET attoptions = {} WHERE attrelid = 'landing.orders'::regclass AND attnum > 0"
    run(session, of_others.format("'{pg_attver=1}'"))
    assert described(session).sha256 == before
    shadow = PostgresTables(session, "system").create_shadow
    with session.transaction():
        shadow(described(session), LIVE.sibling("orders_shadow"), "a" * 64)
    run(session, of_others.format("'{n_distinct=5}'"))
    assert described(session).sha256 != before
