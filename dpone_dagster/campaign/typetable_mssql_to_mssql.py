"""SQL Server to SQL Server: which type has its exact home in which, a row a pair.

The source casts to the type that is named here. What a bulk copy cannot carry exactly is refused or guarded, also
where both types are the same: an offset, the seventh digit of a datetime2, characters of a code page.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.chunkbounds import MSSQL_CHUNK_BOUNDS, MSSQL_SOURCE_BOUNDS
from dpone_dagster.campaign.contract import ColumnType, Guard
from dpone_dagster.campaign.homes import Home, NoHome, as_is
from dpone_dagster.campaign.mssqltypes import (
    INTEGERS,
    NARROW_TEXT,
    NUMBERS,
    WIDE_TEXT,
    WRITTEN,
    decimal_guards,
    fraction,
    is_utf8,
    kept_digits,
    length,
    moment_guards,
    no_json,
    text_cast,
    text_guards,
    text_home,
    whole_guards,
)
from dpone_dagster.campaign.typetable import Rule, TypeTable


def _integer(source: ColumnType, target: ColumnType) -> Home:
    cast = None if source.name == target.name else target.name
    return Home(cast, whole_guards(source, *INTEGERS[target.name]))


def _decimal(source: ColumnType, target: ColumnType) -> Home:
    precision, scale = target.args
    return Home(f"decimal({precision},{scale})", decimal_guards(source, precision, scale))


def _cast(_source: ColumnType, target: ColumnType) -> Home:
    return Home(target.name)


def _moment(source: ColumnType, target: ColumnType) -> Home:
    kept = kept_digits(source, fraction(target))
    return Home(f"{target.name}({kept})", moment_guards(source, kept))


def _wide(source: ColumnType, target: ColumnType) -> Home:
    return Home(text_cast(source), (*text_guards(source), *_fits(source, target, "utf16")))


def _narrow(source: ColumnType, target: ColumnType) -> Home:
    if is_utf8(target):
        fits = _fits(source, target, "utf8") if is_utf8(source) or source.name in WIDE_TEXT else _utf8(target)
        return Home(text_cast(source), (*text_guards(source), *fits))
    # Which bytes a code page has for a character is left to no client: ASCII is the same in all of them.
    return Home(text_cast(source), (Guard("codepage", "ascii"), *_fits(source, target, "utf16")))


def _padded(source: ColumnType, target: ColumnType) -> Home | NoHome:
    if source.args != target.args:
        return NoHome(f"{source} would be cut or padded in {target}", f"make the target column {source}")
    if target.name == "nchar":
        return Home(text_cast(source), text_guards(source))
    return Home(text_cast(source), (Guard("codepage", "ascii"),))


def _utf8(target: ColumnType) -> tuple[Guard, ...]:
    return (Guard("length", "utf8", target.args),) if target.args else ()


def _fits(source: ColumnType, target: ColumnType, check: str) -> tuple[Guard, ...]:
    """A guard where the target's length may not do; a wide unit is up to three bytes of UTF-8."""
    here, there = length(source), length(target)
    wider = 3 if check == "utf8" and source.name in WIDE_TEXT else 1
    if there is None or (here is not None and here * wider <= there):
        return ()
    return (Guard("length", check, (there,)),)


def _bytes(source: ColumnType, target: ColumnType) -> Home:
    here, there = length(source), length(target)
    if there is None or (here is not None and here <= there):
        return Home()
    return Home(None, (Guard("length", "octets", (0, there)),))


def _fixed_bytes(source: ColumnType, target: ColumnType) -> Home:
    same = source.name == "binary" and source.args == target.args
    return Home(None, () if same else (Guard("length", "octets", (target.args[0], target.args[0])),))


def _as_text(source: ColumnType, target: ColumnType) -> Home | NoHome | None:
    if target.name != "nvarchar":
        return NoHome(f"`representation: text` does not go into {target}", "make the target column nvarchar(max)")
    if source.name in (*WIDE_TEXT, *NARROW_TEXT):
        return _wide(source, target)
    return text_home(source, target)


RULES: Mapping[tuple[str, str], Rule] = {
    **{(name, name): as_is for name in ("bit", "date", "uniqueidentifier", "float", "real", "smalldatetime")},
    ("datetime", "datetime"): as_is,
    **{(source, target): _integer for source in (*NUMBERS, *INTEGERS) for target in INTEGERS},
    **{(source, target): _decimal for source in (*NUMBERS, *INTEGERS) for target in ("decimal", "numeric")},
    **{(source, "float"): _cast for source in ("real", "tinyint", "smallint", "int")},
    **{(source, "real"): _cast for source in ("tinyint", "smallint")},
    ("time", "time"): _moment,
    **{(source, "datetime2"): _moment for source in ("datetime2", "datetime", "smalldatetime")},
    ("datetimeoffset", "datetimeoffset"): _moment,
    **{(source, "nvarchar"): _wide for source in (*WIDE_TEXT, *NARROW_TEXT)},
    **{(source, "varchar"): _narrow for source in (*WIDE_TEXT, *NARROW_TEXT)},
    **{(source, "nchar"): _padded for source in ("nchar", "char")},
    ("char", "char"): _padded,
    **{(source, "varbinary"): _bytes for source in ("binary", "varbinary")},
    **{(source, "binary"): _fixed_bytes for source in ("binary", "varbinary")},
}

REFUSED: Mapping[tuple[str, str], str] = {
    ("timestamp", "timestamp"): "a rowversion is made by its own server; leave the column out by `source.columns`",
    ("timestamp", "binary"): "a rowversion is a counter of its own server; leave the column out by `source.columns`",
    ("datetimeoffset", "datetime2"): "its time zone would be lost; a datetimeoffset keeps the instant",
    ("datetime2", "datetime"): "it would be rounded to 1/300 s; a datetime2 keeps it",
    ("datetime2", "smalldatetime"): "it would be rounded to minutes; a datetime2 keeps it",
    ("datetime", "smalldatetime"): "it would be rounded to minutes; a datetime2 keeps it",
    ("datetime2", "datetimeoffset"): "the time zone would be a guess",
    ("date", "datetime2"): "the time of day would be a guess",
    ("datetime2", "date"): "the time of day would be lost",
    ("float", "real"): "it would be rounded",
    ("float", "decimal"): "it would be rounded",
    ("decimal", "float"): "it would be rounded",
    ("int", "real"): "beyond 2^24 it would be rounded",
    ("bigint", "float"): "beyond 2^53 it would be rounded",
    ("money", "money"): "bulk copy takes no money; a decimal(19,4) keeps it",
    ("smallmoney", "smallmoney"): "bulk copy takes no money; a decimal(10,4) keeps it",
    ("varchar", "char"): "it would be padded",
    ("nvarchar", "nchar"): "it would be padded",
    ("nchar", "char"): "the code page does not hold every character; an nchar does",
    ("text", "text"): "the type is deprecated; varchar(max) is its successor",
    ("ntext", "ntext"): "the type is deprecated; nvarchar(max) is its successor",
    ("image", "image"): "the type is deprecated; varbinary(max) is its successor",
    ("xml", "xml"): "the server changes an xml's text; nvarchar(max) keeps it",
}

MSSQL_TO_MSSQL = TypeTable(
    RULES,
    REFUSED,
    represented={"text": _as_text, "json": no_json},
    text_column="an nvarchar(max) column",
    mend="change the target's type",
    source_bounds=MSSQL_SOURCE_BOUNDS,
    bounds=MSSQL_CHUNK_BOUNDS,
    written=WRITTEN,
)
