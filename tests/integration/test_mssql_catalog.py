"""The catalog contract on SQL Server: what is in its digest, and that everything a swap would lose is found.

Verified on Babelfish 4.3, which lacks many of the surfaces; those are tried on rows of the catalog in
`tests/unit/mssql/test_losses.py` and are UNVERIFIED on SQL Server.
"""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.target import MssqlTarget
from tests.integration.mssql_bench import LIVE, described, mssql_bench, run, target

__all__ = ["mssql_bench", "target"]


def test_a_missing_table_is_none(target: MssqlTarget) -> None:
    assert target.tables.describe(LIVE.sibling("nothing")) is None
    assert target.tables.describe(TableRef("nowhere", "orders")) is None


def test_an_ordinary_table_has_no_finding(target: MssqlTarget) -> None:
    live = described(target)
    assert live.findings == ()
    assert [(c.name, str(c.type), c.nullable) for c in live.columns] == [
        ("n", "int", False),
        ("te'xt %s", "nvarchar(max)", True),
        ("extra", "int", True),
    ]
    assert live.unique_keys == (("n",),)
    assert live.rows_exist
    assert live.sha256 == described(target).sha256


@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        ("decimal(38,10)", "decimal(38,10)"),
        ("numeric(5)", "numeric(5,0)"),
        ("nvarchar(7)", "nvarchar(7)"),
        ("varchar(max)", "varchar(max)"),
        ("nchar(3)", "nchar(3)"),
        ("varbinary(5)", "varbinary(5)"),
        ("binary(4)", "binary(4)"),
        ("datetime2(3)", "datetime2(3)"),
        ("datetimeoffset(6)", "datetimeoffset(6)"),
        ("time(0)", "time(0)"),
        ("float", "float"),
        ("real", "real"),
        ("uniqueidentifier", "uniqueidentifier"),
        ("tinyint", "tinyint"),
    ],
)
def test_types_are_told_with_their_arguments(target: MssqlTarget, declared: str, shown: str) -> None:
    run(target, f"CREATE TABLE landing.t (v {declared} NULL)")
    assert str(described(target, TableRef("landing", "t")).columns[0].type) == shown


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE landing.orders ADD more int NULL",
        "ALTER TABLE landing.orders DROP COLUMN [te'xt %s]",
        "ALTER TABLE landing.orders ALTER COLUMN extra bigint",
        "CREATE INDEX orders_more ON landing.orders (extra)",
        "CREATE UNIQUE INDEX orders_more ON landing.orders (n, extra)",
        "DROP INDEX orders_n ON landing.orders",
    ],
)
def test_every_property_is_in_the_digest(target: MssqlTarget, change: str) -> None:
    before = described(target)
    if "DROP COLUMN" in change:
        run(target, "DROP INDEX orders_extra ON landing.orders")
        before = described(target)
    run(target, change)
    after = described(target)
    assert after.sha256 != before.sha256
    assert after.object_id == before.object_id


def test_rows_are_not_in_the_digest(target: MssqlTarget) -> None:
    before = described(target).sha256
    run(target, "INSERT INTO landing.orders VALUES (7, NULL, NULL)")
    assert described(target).sha256 == before


@pytest.mark.parametrize(
    ("statement", "name", "problem"),
    [
        ("ALTER TABLE landing.orders ADD CONSTRAINT five DEFAULT 5 FOR extra", "", "is a default"),
        ("ALTER TABLE landing.orders ADD CONSTRAINT few CHECK (n < 5)", "few", "is a CHECK constraint"),
        ("ALTER TABLE landing.orders ADD CONSTRAINT pk PRIMARY KEY (n)", "pk", "is a primary key"),
        ("ALTER TABLE landing.orders ADD CONSTRAINT uq UNIQUE (n)", "uq", "is a UNIQUE constraint"),
        ("ALTER TABLE landing.orders ADD more int IDENTITY(1,1)", "column more", "identity column"),
        ("ALTER TABLE landing.orders ADD more AS n + 1", "column more", "computed column"),
        ("CREATE TABLE landing.other (n int REFERENCES landing.orders (n))", "", "points to the table"),
        ("CREATE TRIGGER landing.tr ON landing.orders AFTER INSERT AS SELECT 1", "tr", "is a trigger"),
        (
            "EXEC sp_addextendedproperty N'note', N'x', N'SCHEMA', N'landing', N'TABLE', N'orders'",
            "note",
            "is an extended property that is not dpone's",
        ),
        (
            "EXEC sp_addextendedproperty N'note', N'x', N'SCHEMA', N'landing', N'TABLE', N'orders', N'COLUMN', N'n'",
            "note",
            "is an extended property that is not dpone's",
        ),
    ],
)
def test_what_a_swap_would_lose_is_found(target: MssqlTarget, statement: str, name: str, problem: str) -> None:
    if "REFERENCES" in statement:
        run(target, "ALTER TABLE landing.orders ADD CONSTRAINT orders_pk PRIMARY KEY (n)")
    run(target, statement)
    found = [str(finding) for finding in described(target).findings]
    assert any(problem in finding and name in finding and "→" in finding for finding in found), found
    run(target, "DROP TABLE IF EXISTS landing.other")


def test_all_findings_come_at_once(target: MssqlTarget) -> None:
    run(
        target,
        "ALTER TABLE landing.orders ADD CONSTRAINT few CHECK (n < 5)",
        "ALTER TABLE landing.orders ADD more int IDENTITY(1,1)",
        "CREATE TRIGGER landing.tr ON landing.orders AFTER INSERT AS SELECT 1",
    )
    assert len(described(target).findings) == 3


def test_a_table_that_is_spelt_otherwise_is_refused(target: MssqlTarget) -> None:
    (finding,) = described(target, TableRef("landing", "ORDERS")).findings
    assert finding.path == "landing.orders"
    assert "how the catalog spells the table" in finding.problem


def test_a_view_is_no_table(target: MssqlTarget) -> None:
    run(target, "CREATE VIEW landing.v AS SELECT n FROM landing.orders")
    (finding,) = described(target, LIVE.sibling("v")).findings
    assert "is not an ordinary table" in finding.problem
    run(target, "DROP VIEW landing.v")


def test_a_look_inside_a_transaction_leaves_it_as_it_was(target: MssqlTarget) -> None:
    with target.transaction():
        run(target, "INSERT INTO landing.orders VALUES (8, NULL, NULL)")
        described(target)
        assert target.session.value("SELECT @@TRANCOUNT") == 1
    assert target.tables.count(LIVE) == 2
