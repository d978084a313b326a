"""Every T-SQL statement parses, so that a slip is seen where no server is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from dpone_dagster import mssql
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.digests import Digester
from dpone_dagster.mssql.queries import filled, load

# What stands for a part that is more than one name or expression.
_PARTS = {
    "assignments": "[validation] = ?",
    "columns": "[a], [b]",
    "values": "s.[c0], s.[c1]",
    "marks": "?, CAST(? AS datetime2(6))",
    "match": "t.[a] = s.[c0]",
    "in_target": "t.[a] = k.[c0]",
    "in_buckets": "1 % 16 IN (1, 2)",
    "stage": "[landing].[stage]",
    "target": "[landing].[orders]",
    "table": "[landing].[orders]",
}
_PER_STATEMENT = {
    ("ledger.sql", "move"): {"assignments": ", [validation] = ?, [receipt_id] = ?"},
    ("changes.sql", "missing_keys"): {"not_staged": "AND NOT EXISTS (SELECT 1 FROM [rows] AS r WHERE r.[c0] = k.[c0])"},
}
# Parts of statements, parsed where they are filled in.
_FRAGMENTS = {("changes.sql", "not_staged")}
_KINDS = {
    "id": "uniqueidentifier",
    "n": "bigint",
    "amount": "decimal",
    "paid": "bit",
    "day": "date",
    "at": "time",
    "made": "datetime2",
    "seen": "datetimeoffset",
    "share": "float",
    "ratio": "real",
    "note]x": "nvarchar",
    "data": "varbinary",
}


def parse(statement: str) -> None:
    for tree in sqlglot.parse(statement, dialect="tsql"):
        assert tree is not None
        # What sqlglot does not understand it keeps as a command, unparsed.
        assert not list(tree.find_all(exp.Command)), tree.sql()


def statements() -> Iterator[tuple[str, str]]:
    for path in sorted(Path(mssql.__file__).parent.glob("*.sql")):
        for name in load(path.name):
            if (path.name, name) not in _FRAGMENTS:
                yield path.name, name


@pytest.mark.parametrize(("file_name", "name"), list(statements()))
def test_each_statement_of_the_files_parses(file_name: str, name: str) -> None:
    text = load(file_name, 'state "100%s"')[name]
    parts = {part: _PARTS.get(part, "[x]") for part in re.findall(r"\{(\w+)\}", text)}
    parse(filled(text, **{**parts, **_PER_STATEMENT.get((file_name, name), {})}))


@pytest.mark.parametrize("utf8", [True, False])
def test_each_digest_parses(utf8: bool) -> None:
    digester = Digester(TableRef("landing", "orders"), _KINDS, utf8)
    parse(digester.key_buckets_query(list(_KINDS), 1024, "t.[gone] IS NULL"))
    parse(digester.content_digest_query(list(_KINDS)))
    parse(f"SELECT 1 FROM [x] AS t WHERE {digester.in_buckets(list(_KINDS), 't', 16, [1, 2])}")
    compared = ", ".join(digester.exact(name, name, "t") for name in _KINDS)
    parse(f"SELECT 1 FROM [x] AS t WHERE EXISTS (SELECT {compared} EXCEPT SELECT {compared})")


def test_a_slip_is_seen() -> None:
    with pytest.raises(sqlglot.errors.ParseError):
        parse("UPDATE t SET a = WHERE b = ?")
    with pytest.raises(sqlglot.errors.ParseError):
        parse("SELECT COUNT(* FROM t")
