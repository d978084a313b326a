"""SQL Server to PostgreSQL: which type has its exact home in which, a row a pair.

Values arrive as CSV, whose text PostgreSQL reads as the column's own type. The source casts to the SQL Server type
that is named here where the text would otherwise have more digits than the target keeps, or be of a code page.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.chunkbounds import CHUNK_BOUNDS, MSSQL_SOURCE_BOUNDS
from dpone_dagster.campaign.contract import ColumnType, Guard
from dpone_dagster.campaign.homes import Home, NoHome, as_is
from dpone_dagster.campaign.mssqltypes import (
    FRACTION_DIGITS,
    INTEGERS,
    MONEY,
    NARROW_TEXT,
    NUMBERS,
    WIDE_TEXT,
    WRITTEN,
    decimal_guards,
    digits,
    kept_digits,
    length,
    moment_guards,
    no_json,
    text_cast,
    text_guards,
    text_home,
    whole_guards,
)
from dpone_dagster.campaign.sourcetypes import INTEGERS as POSTGRES_INTEGERS
from dpone_dagster.campaign.sourcetypes import TEXT
from dpone_dagster.campaign.typetable import Rule, TypeTable

_MOST_DIGITS = 38
_MOMENTS = {"time": "time", "timestamp": "datetime2", "timestamptz": "datetimeoffset"}
# What every text of PostgreSQL lacks.
_NO_NUL = Guard("nul", "nul")


def _integer(source: ColumnType, target: ColumnType) -> Home:
    return Home("bigint" if source.name in NUMBERS else None, whole_guards(source, *POSTGRES_INTEGERS[target.name]))


def _decimal(source: ColumnType, target: ColumnType) -> Home | NoHome:
    if not target.args:
        precision, scale = MONEY.get(source.name, (0, 0))
        return Home(f"decimal({precision},{scale})" if precision else None)
    precision, scale = target.args
    if not 0 <= scale <= _MOST_DIGITS:
        return NoHome(f"{source} has no exact home in {target}", f"make the target column numeric{_args(source)}")
    precision = min(precision, _MOST_DIGITS)
    return Home(f"decimal({precision},{scale})", decimal_guards(source, precision, scale))


def _args(source: ColumnType) -> str:
    before, after = digits(source)
    return f"({before + after},{after})"


def _real(source: ColumnType, _target: ColumnType) -> Home:
    return Home(None if source.name == "real" else "real")


def _float(source: ColumnType, _target: ColumnType) -> Home:
    return Home(None if source.name == "float" else "float")


def _moment(source: ColumnType, target: ColumnType) -> Home:
    kept = kept_digits(source, target.args[0] if target.args else FRACTION_DIGITS)
    return Home(f"{_MOMENTS[target.name]}({kept})", moment_guards(source, kept))


def _characters(source: ColumnType, target: ColumnType) -> Home:
    here, there = length(source), length(target)
    # Units, of which there are never fewer than characters.
    guards = (*text_guards(source), _NO_NUL)
    if there is None or (here is not None and here <= there):
        return Home(text_cast(source), guards)
    return Home(text_cast(source), (*guards, Guard("length", "utf16", (there,))))


def _padded(source: ColumnType, target: ColumnType) -> Home | NoHome:
    if source.args != target.args:
        return NoHome(f"{source} would be cut or padded in {target}", f"make the target column char{source.args}")
    return Home(text_cast(source), (*text_guards(source), _NO_NUL))


def _as_text(source: ColumnType, target: ColumnType) -> Home | NoHome | None:
    if target.name not in TEXT:
        return NoHome(f"`representation: text` does not go into {target}", "make the target column text")
    if source.name in (*WIDE_TEXT, *NARROW_TEXT):
        return _characters(source, target)
    return text_home(source, target)


RULES: Mapping[tuple[str, str], Rule] = {
    ("bit", "bool"): as_is,
    ("date", "date"): as_is,
    ("uniqueidentifier", "uuid"): as_is,
    ("binary", "bytea"): as_is,
    ("varbinary", "bytea"): as_is,
    **{(source, target): _integer for source in (*NUMBERS, *INTEGERS) for target in POSTGRES_INTEGERS},
    **{(source, "numeric"): _decimal for source in (*NUMBERS, *INTEGERS)},
    **{(source, "float8"): _float for source in ("float", "real", "tinyint", "smallint", "int")},
    **{(source, "float4"): _real for source in ("real", "tinyint", "smallint")},
    ("time", "time"): _moment,
    **{(source, "timestamp"): _moment for source in ("datetime2", "datetime", "smalldatetime")},
    ("datetimeoffset", "timestamptz"): _moment,
    **{(source, target): _characters for source in (*WIDE_TEXT, *NARROW_TEXT) for target in TEXT},
    **{(source, "bpchar"): _padded for source in ("nchar", "char")},
}

REFUSED: Mapping[tuple[str, str], str] = {
    ("timestamp", "bytea"): "a rowversion is a counter of its own server; leave the column out by `source.columns`",
    ("timestamp", "timestamp"): "a rowversion is no time; leave the column out by `source.columns`",
    ("datetimeoffset", "timestamp"): "its time zone would be lost; a timestamptz keeps the instant",
    ("datetime2", "timestamptz"): "the time zone would be a guess",
    ("datetime", "timestamptz"): "the time zone would be a guess",
    ("date", "timestamp"): "the time of day would be a guess",
    ("datetime2", "date"): "the time of day would be lost",
    ("datetime", "date"): "the time of day would be lost",
    ("float", "float4"): "it would be rounded",
    ("float", "numeric"): "it would be rounded",
    ("decimal", "float8"): "it would be rounded",
    ("int", "float4"): "beyond 2^24 it would be rounded",
    ("bigint", "float8"): "beyond 2^53 it would be rounded",
    ("money", "money"): "where its decimal point is depends on the target's lc_monetary; a numeric(19,4) keeps it",
    ("nvarchar", "bpchar"): "it would be padded",
    ("varchar", "bpchar"): "it would be padded",
    ("nvarchar", "json"): "it may be no json; text keeps it",
    ("nvarchar", "jsonb"): "jsonb drops repeated keys and the spelling of numbers; text keeps it",
    ("xml", "xml"): "the server changes an xml's text; text keeps what it shows",
}

MSSQL_TO_POSTGRES = TypeTable(
    RULES,
    REFUSED,
    represented={"text": _as_text, "json": no_json},
    text_column="a text column",
    mend="change the target's type",
    source_bounds=MSSQL_SOURCE_BOUNDS,
    bounds=CHUNK_BOUNDS,
    written=WRITTEN,
)
