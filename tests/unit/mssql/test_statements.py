"""Every T-SQL statement that the product sends parses, so that a slip is seen where no server is.

The corpus is held complete by the live tests: `new_mssql_database` fails a test that sent a statement of another shape.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlglot

from dpone_dagster.mssql import ddl
from dpone_dagster.mssql.queries import load
from tests.mssql_corpus import ELSEWHERE, statements
from tests.tsql import NOT_UNDERSTOOD, missed_by_the_corpus, prove_readable, tag_of

CORPUS = list(dict.fromkeys(statements()))
_NUMBERS = {"request_session_id", "worker_lane"}


def test_every_statement_parses() -> None:
    for statement in CORPUS:
        prove_readable(statement)


def test_what_python_completes_is_in_the_corpus_too() -> None:
    whole = "\n".join(CORPUS)
    for file_name, name in ELSEWHERE:
        lines = [line for line in load(file_name)[name].splitlines() if not line.startswith("--")]
        assert lines[0].split("{", 1)[0] in whole, (file_name, name)


def test_every_statement_of_the_ddl_is_in_the_corpus() -> None:
    tags = set(re.findall(r"/\* dpone:(\w+)", Path(ddl.__file__).read_text()))
    assert len(tags) > 10
    assert tags <= set(map(tag_of, CORPUS))


def test_what_sqlglot_does_not_understand_is_what_is_listed() -> None:
    not_understood = set()
    for statement in CORPUS:
        try:
            tree = sqlglot.parse(statement, dialect="tsql")
        except sqlglot.errors.ParseError:
            not_understood.add(tag_of(statement))
        else:
            if any(list(part.find_all(sqlglot.exp.Command)) for part in tree if part):
                not_understood.add(tag_of(statement))
    assert not_understood == set(NOT_UNDERSTOOD)


def test_texts_of_different_tables_are_joined_under_one_collation() -> None:
    """SQL Server refuses it otherwise (468, 451): its own words, its names and our columns have each a collation."""
    text_kept = (sqlglot.exp.Collate, sqlglot.exp.Cast, sqlglot.exp.Convert)
    seen = 0
    for statement in CORPUS:
        if tag_of(statement) in NOT_UNDERSTOOD:
            continue
        for tree in filter(None, sqlglot.parse(statement, dialect="tsql")):
            for joined in tree.find_all(sqlglot.exp.Concat, sqlglot.exp.Coalesce):
                columns = [c for c in joined.find_all(sqlglot.exp.Column) if not c.find_ancestor(*text_kept)]
                seen += 1
                assert len({c.table for c in columns if c.name not in _NUMBERS}) <= 1, joined.sql("tsql")
    assert seen > 10


@pytest.mark.parametrize(
    "slip",
    [
        "UPDATE t SET a = WHERE b = ?",
        "SELECT COUNT(* FROM t",
        "SELECT /* dpone:count */ COUNT_BIG(*) FRM t WHERE",
        "CREATE /* dpone:new */ STATISTICS [s] ON [t] ([a])",
        "/* dpone:build_index */ CREATE UNIQUE NONCLUSTERED INDEX [i] ON [t] ([a] ASC WHERE ([a]>(1)) WITH (X = ON)",
        "/* dpone:build_index */ CREATE UNIQUE NONCLUSTERED INDEX [i] ON [t] ([a]) WHERE ([a]> AND) WITH (X = ON)",
        "/* dpone:build_statistics */ CREATE STATISTICS [s] ON [t] [a]) WITH FULLSCAN",
        "/* dpone:seal_columnstore */ ALTER INDEX [i] ON REORGANIZE WITH (A = ON)",
        "/* dpone:drop_statistics */ DROP STATISTICS [t].",
    ],
)
def test_a_slip_is_seen(slip: str) -> None:
    with pytest.raises((sqlglot.errors.ParseError, AssertionError)):
        prove_readable(slip)


def test_a_statement_of_another_shape_is_missed() -> None:
    known = "SELECT /* dpone:count */ COUNT_BIG(*) FROM [any].[table]"
    assert missed_by_the_corpus([known]) == []
    for other in (known.replace("dpone:count", "dpone:cnt"), f"{known} WHERE 1 = 1", "SELECT 1", known + ", [b]"):
        assert missed_by_the_corpus([other]) == [other]
