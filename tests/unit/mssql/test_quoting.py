"""Names and texts in T-SQL."""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.locks import lock_resource, witness_resource
from dpone_dagster.mssql.quoting import literal, quoted, quoted_table


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", "[orders]"),
        ("select", "[select]"),
        ("a]b", "[a]]b]"),
        ("]; DROP TABLE x --", "[]]; DROP TABLE x --]"),
        ('q"q', '[q"q]'),
        ("it's", "[it's]"),
        ("日本語", "[日本語]"),
        ("n" * 128, f"[{'n' * 128}]"),
        ("😀" * 64, f"[{'😀' * 64}]"),
    ],
)
def test_names_are_bracketed(name: str, expected: str) -> None:
    assert quoted(name) == expected


@pytest.mark.parametrize("name", ["", "n" * 129, "😀" * 65, "a\x00b"])
def test_an_impossible_name_is_refused(name: str) -> None:
    with pytest.raises(DponeError, match="not a possible name"):
        quoted(name)


def test_tables_and_texts() -> None:
    assert quoted_table(TableRef("a.b", "c]d")) == "[a.b].[c]]d]"
    assert literal("it's N'😀'") == "N'it''s N''😀'''"


def test_lock_names_fit_and_tell_locks_apart_by_what_the_server_shows() -> None:
    long = "dpone/campaign/" + "s" * 128 + "/" + "a" * 64
    names = [lock_resource(database, name) for database in ("dwh", "DWH") for name in (long, long[:-1] + "b")]
    assert len({name[:32] for name in names}) == 4
    assert all(len(witness_resource(name, 2**31)) <= 255 for name in names)
    assert names[0].startswith("dpone/campaign/")
