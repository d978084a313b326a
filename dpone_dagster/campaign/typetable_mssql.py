"""PostgreSQL to SQL Server: which type has its exact home in which, a row a pair.

The source casts to the PostgreSQL type that is named here, so that what goes over the wire is the target's value
already: a decimal with the target's own scale, json as its text. Ranges are those of Microsoft's type reference
(SQL Server 2019 and later). Bulk copy of floats that are not normal numbers is refused there, so they have a guard.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.chunkbounds import CHUNK_BOUNDS, MSSQL_CHUNK_BOUNDS
from dpone_dagster.campaign.contract import ColumnType, Guard, Representation
from dpone_dagster.campaign.homes import Home, NoHome, as_is
from dpone_dagster.campaign.mssqltypes import INTEGERS as TARGET_INTEGERS
from dpone_dagster.campaign.mssqltypes import is_utf8
from dpone_dagster.campaign.sourcetypes import (
    FRACTION_DIGITS,
    INTEGERS,
    PLAIN_TEXT,
    TEXT,
    decimal_guards,
    fraction_guards,
    whole_guards,
)
from dpone_dagster.campaign.typetable import Rule, TypeTable

# The PostgreSQL integer whose wire form the target's integer takes.
_WIRE_INTEGERS = {"tinyint": "int2", "smallint": "int2", "int": "int4", "bigint": "int8"}
_DECIMALS = ("decimal", "numeric")
# What is made of ASCII alone, so that any code page holds it.
_ASCII = frozenset({"uuid", "inet", "cidr", "macaddr", "macaddr8"})
_ASCII_LENGTHS = {"uuid": 36, "macaddr": 17, "macaddr8": 23}
_TEXT_COLUMNS = ("nvarchar", "varchar")


# ---------------------------------------------------------------- rules


def _integer(source: ColumnType, target: ColumnType) -> Home:
    wire = _WIRE_INTEGERS[target.name]
    cast = None if source.name == wire else wire
    return Home(cast, whole_guards(source, *TARGET_INTEGERS[target.name]))


def _decimal(source: ColumnType, target: ColumnType) -> Home:
    precision, scale = target.args
    not_a_number = (Guard("nan", "nan"),) if source.name == "numeric" else ()
    return Home(f"numeric({precision},{scale})", (*not_a_number, *decimal_guards(source, precision, scale)))


def _float(source: ColumnType, target: ColumnType) -> Home:
    wire = {"float": "float8", "real": "float4"}[target.name]
    cast = None if source.name == wire else wire
    if source.name in INTEGERS:
        return Home(cast)
    # A float4 that is not normal is a normal float8.
    subnormal = () if source.name != wire else (Guard("subnormal", "subnormal", (wire,)),)
    return Home(cast, (Guard("nan", "nan"), Guard("infinity", "infinity"), *subnormal))


def _date(_source: ColumnType, _target: ColumnType) -> Home:
    return Home(None, (Guard("infinity", "infinite"), Guard("range", "years", (1, 9999))))


def _instant(source: ColumnType, target: ColumnType) -> Home:
    return Home(None, (Guard("infinity", "infinite"), Guard("range", "years", (1, 9999)), *_fraction(source, target)))


def _time(source: ColumnType, target: ColumnType) -> Home:
    return Home(None, (Guard("range", "midnight"), *_fraction(source, target)))


def _fraction(source: ColumnType, target: ColumnType) -> tuple[Guard, ...]:
    return fraction_guards(source, min(target.args[0], FRACTION_DIGITS))


def _characters(source: ColumnType, target: ColumnType) -> Home | NoHome:
    cast = None if source.name in TEXT else "text"
    if target.name == "nvarchar":
        check = "utf16"
    elif is_utf8(target):
        check = "utf8"
    elif source.name in _ASCII:
        check = "utf8"  # one byte a character, in every code page
    else:
        return NoHome(
            f"{source} has no exact home in {target}: its code page does not hold every character",
            "make the target column nvarchar, or give it a collation that ends in _UTF8",
        )
    fits = not target.args or _ASCII_LENGTHS.get(source.name, target.args[0] + 1) <= target.args[0]
    return Home(cast, () if fits else (Guard("length", check, target.args),))


def _padded(source: ColumnType, target: ColumnType) -> Home | NoHome:
    if target.args != source.args:
        return NoHome(f"{source} would be cut or padded in {target}", f"make the target column nchar{source.args}")
    # Beyond the Basic Multilingual Plane a character takes two of the target's.
    return Home(None, (Guard("length", "astral"),))


def _fixed_text(source: ColumnType, target: ColumnType) -> Home | NoHome:
    if target.args != (_ASCII_LENGTHS[source.name],):
        return NoHome(
            f"{source} would be padded in {target}", f"make the target column char({_ASCII_LENGTHS[source.name]})"
        )
    return Home("text")


def _bytes(_source: ColumnType, target: ColumnType) -> Home:
    return Home(None, (Guard("length", "octets", (0, *target.args)),) if target.args else ())


def _fixed_bytes(_source: ColumnType, target: ColumnType) -> Home:
    return Home(None, (Guard("length", "octets", (target.args[0], target.args[0])),))


def _as_text(source: ColumnType, target: ColumnType) -> Home | NoHome:
    home = _any_text("text", target)
    return home if isinstance(home, NoHome) else Home(None if source.name in TEXT else "text", home.guards)


def _as_json(_source: ColumnType, target: ColumnType) -> Home | NoHome:
    home = _any_text("json", target)
    if isinstance(home, Home) and home.guards:
        return NoHome(f"`representation: json` may not fit into {target}", "make the target column nvarchar(max)")
    return home if isinstance(home, NoHome) else Home("json")  # its own text goes over the wire


def _any_text(representation: Representation, target: ColumnType) -> Home | NoHome:
    if target.name in _TEXT_COLUMNS:
        return _characters(ColumnType("text"), target)
    return NoHome(
        f"`representation: {representation}` does not go into {target}", "make the target column nvarchar(max)"
    )


# ---------------------------------------------------------------- the table

RULES: Mapping[tuple[str, str], Rule] = {
    ("bool", "bit"): as_is,
    ("uuid", "uniqueidentifier"): as_is,
    ("date", "date"): _date,
    ("time", "time"): _time,
    ("timestamp", "datetime2"): _instant,
    ("timestamptz", "datetimeoffset"): _instant,
    ("bytea", "varbinary"): _bytes,
    ("bytea", "binary"): _fixed_bytes,
    ("bpchar", "nchar"): _padded,
    **{(source, target): _integer for source in ("numeric", *INTEGERS) for target in TARGET_INTEGERS},
    **{(source, target): _decimal for source in ("numeric", *INTEGERS) for target in _DECIMALS},
    **{(source, "float"): _float for source in ("int2", "int4", "float4", "float8")},
    **{(source, "real"): _float for source in ("int2", "float4")},
    **{(source, target): _characters for source in (*TEXT, *PLAIN_TEXT, "enum") for target in _TEXT_COLUMNS},
    **{(source, target): _fixed_text for source in _ASCII_LENGTHS for target in ("char", "nchar")},
}

# Refused although one server or the other has a conversion: what it would do to the value.
REFUSED: Mapping[tuple[str, str], str] = {
    ("timestamptz", "datetime2"): "its time zone would be lost; a datetimeoffset keeps the instant",
    ("timestamptz", "datetime"): "its time zone would be lost, and it would be rounded to 1/300 s",
    ("timestamp", "datetimeoffset"): "the time zone would be a guess",
    ("timestamp", "datetime"): "it would be rounded to 1/300 s; a datetime2 keeps it",
    ("timestamp", "smalldatetime"): "it would be rounded to minutes; a datetime2 keeps it",
    ("date", "datetime2"): "the time of day would be a guess",
    ("date", "datetime"): "the time of day would be a guess",
    ("timestamp", "date"): "the time of day would be lost",
    ("timestamptz", "date"): "the time of day would be lost",
    ("timetz", "time"): "the time zone would be lost",
    ("int4", "real"): "beyond 2^24 it would be rounded",
    ("int8", "real"): "beyond 2^24 it would be rounded",
    ("int8", "float"): "beyond 2^53 it would be rounded",
    ("float8", "real"): "it would be rounded",
    ("numeric", "float"): "it would be rounded",
    ("numeric", "real"): "it would be rounded",
    ("float4", "decimal"): "it would be rounded to six digits",
    ("float8", "decimal"): "it would be rounded to fifteen digits",
    ("numeric", "money"): "it would be rounded to four digits; a decimal keeps it",
    ("money", "money"): "where its decimal point is depends on the source's lc_monetary",
    ("bpchar", "nvarchar"): "its padding would be lost",
    ("bpchar", "varchar"): "its padding would be lost",
    ("bpchar", "char"): "the code page does not hold every character; an nchar does",
    ("text", "nchar"): "it would be padded",
    ("text", "char"): "it would be padded",
    ("varchar", "nchar"): "it would be padded",
    ("varchar", "char"): "it would be padded",
    ("text", "text"): "the type is deprecated and its code page does not hold every character; nvarchar(max) does",
    ("text", "ntext"): "the type is deprecated; nvarchar(max) is its successor",
    ("xml", "xml"): "the server changes an xml's text; nvarchar(max) keeps it",
    ("bytea", "image"): "the type is deprecated; varbinary(max) is its successor",
}

MSSQL = TypeTable(
    RULES,
    REFUSED,
    represented={"text": _as_text, "json": _as_json},
    text_column="an nvarchar(max) column",
    mend="change the target's type",
    source_bounds=CHUNK_BOUNDS,
    bounds=MSSQL_CHUNK_BOUNDS,
    no_shared_text=frozenset({"float", "real"}),
)
