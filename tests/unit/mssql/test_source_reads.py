"""What a source on SQL Server refuses before it reads, and what no stand-in has: how such values are found.

UNVERIFIED on SQL Server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract, Guard
from dpone_dagster.campaign.errors import DponeError, SourceUnsuitable, TableMissing
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.projection import Projection
from dpone_dagster.mssql.rowread import pace_of
from dpone_dagster.mssql.sourceproof import describe

TABLE = TableRef("dbo", "t")
COLUMN = {
    "object_id": 1,
    "kind": "U",
    "name": "note",
    "base_name": "nvarchar",
    "type_name": "label",
    "max_length": 80,
    "precision": 0,
    "scale": 0,
    "collation_name": None,
    "is_nullable": True,
    "default_object_id": 0,
    "is_identity": False,
    "is_computed": False,
}
FINE = {"may_select": 1, "may_unmask": 1, "snapshot_state": 1, "has_policies": 1}


class Told:
    """A session whose server tells what a test says."""

    database = "a]b"

    def __init__(self, column: Mapping[str, Any], seen: Mapping[str, Any], filters: int) -> None:
        self._answers = {"source_relation": [{**COLUMN, **column}], "source_readable": [{**FINE, **seen}]}
        self._filters = filters

    def records(self, statement: str, *, seconds: int) -> list[Mapping[str, Any]]:
        return next(answer for tag, answer in self._answers.items() if tag in statement)

    def rows(self, statement: str, *, seconds: int) -> list[tuple[Any, ...]]:
        return [(1, "U", 1, "note")]

    def value(self, statement: str, *, seconds: int) -> int:
        return self._filters


def described(column: Mapping[str, Any] = {}, seen: Mapping[str, Any] = {}, filters: int = 0) -> Any:
    return describe(Told(column, seen, filters), TABLE, None)  # type: ignore[arg-type]


def test_a_type_that_somebody_defined_is_the_one_that_it_is_made_of() -> None:
    assert [str(column.type) for column in described().columns] == ["nvarchar(40)"]


def test_a_database_without_snapshots_is_refused_with_the_statement_that_allows_them() -> None:
    for state in (0, 2, 3, None):
        with pytest.raises(SourceUnsuitable, match="does not allow snapshot isolation") as refused:
            described(seen={"snapshot_state": state})
        assert refused.value.advice == "ALTER DATABASE [a]]b] SET ALLOW_SNAPSHOT_ISOLATION ON."


def test_rows_and_values_that_the_login_would_not_see_are_refused() -> None:
    with pytest.raises(TableMissing, match="may not read"):
        described(seen={"may_select": None})
    with pytest.raises(SourceUnsuitable, match="hides rows"):
        described(filters=1)
    assert described(seen={"has_policies": 0}, filters=1).columns  # a server that has none
    for column, problem in (({"is_masked": True}, "masked"), ({"encryption_type": 1}, "encrypted")):
        with pytest.raises(SourceUnsuitable) as refused:
            described(column=column, seen={"may_unmask": 0})
        assert problem in refused.value.findings[0].problem
    assert described(column={"is_masked": True}).columns


def binding(kind: str, *guards: Guard, cast: str | None = None, target: str = "text") -> ColumnContract:
    return ColumnContract((ColumnBinding("a]b", "b", kind, target, cast, guards),), ("b",))


def test_halves_of_a_pair_are_found_by_a_way_through_utf8_where_the_server_has_it() -> None:
    contract = binding("nvarchar(max)", Guard("surrogate", "surrogate"))
    (strict,) = Projection(contract, utf8=False).refusals
    assert Projection(contract, utf8=False).bad(strict) == (
        "CAST(CAST(s.[a]]b] COLLATE Latin1_General_100_BIN2_UTF8 AS varchar(max)) AS nvarchar(max)) "
        "COLLATE Latin1_General_BIN2 <> s.[a]]b]"
    )
    assert Projection(contract, utf8=True).bad(strict) == "1 = 0"  # text is UTF-8 there, and holds none


def test_a_seventh_digit_is_found_and_then_cut_without_rounding() -> None:
    contract = binding("datetime2(7)", Guard("precision", "nanoseconds", (1000,)), cast="datetime2(6)")
    assert Projection(contract, utf8=False).flagged() == (
        "CASE CASE WHEN (DATEPART(nanosecond, s.[a]]b]) % 1000 <> 0) THEN 1 ELSE 0 END "
        "WHEN 0 THEN CAST(s.[a]]b] AS datetime2(6)) END AS [c0], "
        "CASE WHEN DATEPART(nanosecond, s.[a]]b]) % 1000 <> 0 THEN 0 END AS [refused]"
    )


def test_a_cast_or_a_check_that_is_not_of_this_program_is_refused() -> None:
    for contract in (binding("int", cast="int); DROP TABLE t --"), binding("int", Guard("x", "nope"))):
        with pytest.raises(DponeError, match="contract"):
            Projection(contract, utf8=False).flagged()


def test_batches_stay_small_where_rows_are_long() -> None:
    narrow, wide = pace_of(binding("int")), pace_of(binding("nvarchar(4000)"))
    assert narrow.rows == 16_384
    assert wide.rows * 8_000 <= 16 * 1024 * 1024 < (wide.rows + 20) * 8_040
    unknown = pace_of(binding("nvarchar(max)"))
    assert unknown.rows == 64
    unknown.seen(64, 64 * 1024)
    assert unknown.rows == 256  # a kilobyte each, so far
    unknown.seen(256, 256 * 1024 * 1024)
    assert unknown.rows == 4
