"""Homes of a SQL Server source's types that no stand-in can show, since it holds no such value or collation."""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.contract import ColumnType
from dpone_dagster.campaign.homes import Home, NoHome
from dpone_dagster.campaign.typetables import Server, type_table
from tests.integration.mssql_source_cases import type_of

UTF8 = "Latin1_General_100_CI_AS_SC_UTF8"
LATIN = "Latin1_General_CI_AS"
OFFSET: dict[str, tuple[int, ...]] = {"offset": ()}


def home(source: str, server: Server, target: str, *collations: str) -> Home | NoHome:
    ends = [type_of(source), type_of(target)]
    if collations:
        ends = [ColumnType(e.name, e.args, "base", e.display, c) for e, c in zip(ends, collations, strict=True)]
    return type_table("mssql", server).home(ends[0], ends[1], None)


@pytest.mark.parametrize(
    ("source", "server", "target", "cast", "checks"),
    [
        ("datetime2(7)", "postgres", "timestamp", "datetime2(6)", {"nanoseconds": (1000,)}),
        ("datetime2(7)", "mssql", "datetime2(7)", "datetime2(6)", {"nanoseconds": (1000,)}),
        (
            "datetimeoffset(7)",
            "postgres",
            "timestamptz(0)",
            "datetimeoffset(0)",
            {**OFFSET, "nanoseconds": (10**9,)},
        ),
        (
            "datetimeoffset(7)",
            "mssql",
            "datetimeoffset(7)",
            "datetimeoffset(6)",
            {**OFFSET, "nanoseconds": (1000,)},
        ),
        ("time(7)", "mssql", "time(7)", "time(6)", {"nanoseconds": (1000,)}),
        # As it is shown: as a datetime2 of more digits it would be a third of a millisecond more.
        ("datetime", "mssql", "datetime2(7)", "datetime2(3)", {}),
        ("datetime", "postgres", "timestamp", "datetime2(3)", {}),
        ("smalldatetime", "mssql", "datetime2(7)", "datetime2(0)", {}),
        ("nvarchar(max)", "postgres", "text", None, {"surrogate": (), "nul": ()}),
        ("nvarchar(5)", "postgres", "varchar(4)", None, {"surrogate": (), "nul": (), "utf16": (4,)}),
        ("varchar(8000)", "postgres", "text", "nvarchar(max)", {"nul": ()}),
        ("decimal(38,10)", "postgres", "numeric(60,20)", "decimal(38,20)", {"digits": (18,)}),
    ],
)
def test_what_does_not_come_over_has_a_guard(
    source: str, server: Server, target: str, cast: str | None, checks: dict[str, tuple[int, ...]]
) -> None:
    found = home(source, server, target)
    assert isinstance(found, Home)
    assert found.cast == cast
    assert {guard.check: guard.args for guard in found.guards} == checks


@pytest.mark.parametrize(
    ("source", "target", "collations", "checks"),
    [
        ("nvarchar(10)", "varchar(10)", (LATIN, UTF8), {"surrogate": (), "utf8": (10,)}),
        ("nvarchar(3)", "varchar(9)", (LATIN, UTF8), {"surrogate": ()}),
        ("varchar(10)", "varchar(10)", (LATIN, UTF8), {"utf8": (10,)}),
        ("varchar(10)", "varchar(10)", (UTF8, UTF8), {}),
        ("varchar(10)", "varchar(max)", (LATIN, UTF8), {}),
        ("varchar(10)", "varchar(10)", (LATIN, LATIN), {"ascii": ()}),
        ("nvarchar(10)", "varchar(9)", (LATIN, LATIN), {"ascii": (), "utf16": (9,)}),
        ("char(10)", "char(10)", (UTF8, UTF8), {"ascii": ()}),
    ],
)
def test_text_goes_into_utf8_as_it_is_and_into_a_code_page_as_ascii(
    source: str, target: str, collations: tuple[str, str], checks: dict[str, tuple[int, ...]]
) -> None:
    found = home(source, "mssql", target, *collations)
    assert isinstance(found, Home)
    assert {guard.check: guard.args for guard in found.guards} == checks


def test_text_of_another_length_is_not_padded() -> None:
    assert isinstance(home("char(4)", "postgres", "character(5)"), NoHome)
    assert isinstance(home("nchar(4)", "mssql", "nchar(5)"), NoHome)
