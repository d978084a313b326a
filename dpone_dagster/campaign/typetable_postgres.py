"""PostgreSQL to PostgreSQL: which type has its exact home in which, a row a pair.

A binary COPY into a column with another type modifier rounds or cuts in silence (1.2367 → 1.24, `abc   ` → `abc`), so
whatever is narrower has a guard. Types, casts and modifiers: PostgreSQL documentation, chapters 8 and 10.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.chunkbounds import CHUNK_BOUNDS
from dpone_dagster.campaign.contract import ColumnType, Guard
from dpone_dagster.campaign.homes import Home, NoHome, as_is
from dpone_dagster.campaign.sourcetypes import (
    FRACTION_DIGITS,
    INTEGERS,
    PLAIN_TEXT,
    TEXT,
    decimal_guards,
    fraction_guards,
    spelled,
    whole_guards,
)
from dpone_dagster.campaign.typetable import Rule, TypeTable, built_in

# Whole values that mean the same on every server. Not here: money (its point depends on lc_monetary), the reg* types
# (they are object ids of one database), xid, cid and tid (they are places in one cluster), tsquery (an empty one cannot
# be received in binary form).
SELF_CONTAINED = (
    *("bool", "int2", "int4", "int8", "float4", "float8", "oid", "pg_lsn"),
    *("text", "name", "char", "bytea", "uuid", "json", "jsonb", "jsonpath", "xml", "tsvector"),
    *("date", "inet", "cidr", "macaddr", "macaddr8"),
    *("point", "line", "lseg", "box", "path", "polygon", "circle"),
    *("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
    *("int4multirange", "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange"),
)
# ---------------------------------------------------------------- rules


def _cast(_source: ColumnType, target: ColumnType) -> Home:
    return Home(spelled(target))


def _same_modifier(source: ColumnType, target: ColumnType) -> Home | NoHome:
    if target.args in ((), source.args):
        return Home()
    return NoHome(f"{source} would be cut or padded in {target}", f"make the target column {source}")


def _characters(source: ColumnType, target: ColumnType) -> Home:
    fits = not target.args or (source.name == "varchar" and source.args and source.args[0] <= target.args[0])
    return Home(None if source.name in TEXT else "text", () if fits else (Guard("length", "characters", target.args),))


def _bits(source: ColumnType, target: ColumnType) -> Home:
    fits = not target.args or (source.args and source.args[0] <= target.args[0])
    return Home(None if source.name == "varbit" else "varbit", () if fits else (Guard("length", "bits", target.args),))


def _fraction(source: ColumnType, target: ColumnType) -> Home:
    return Home(None, fraction_guards(source, target.args[0] if target.args else FRACTION_DIGITS))


def _to_integer(source: ColumnType, target: ColumnType) -> Home:
    return Home(target.name, whole_guards(source, *INTEGERS[target.name]))


def _to_numeric(source: ColumnType, target: ColumnType) -> Home:
    if not target.args or target.args == source.args:
        return Home(None if source.name == "numeric" else "numeric")
    precision, scale = target.args
    return Home(spelled(target), decimal_guards(source, precision, scale))


def _array(source: ColumnType, target: ColumnType) -> Home | None:
    element, home_element = _element(source), _element(target)
    rule = RULES.get((element.name, home_element.name))
    home = rule(element, home_element) if rule else None
    if not isinstance(home, Home) or home.guards:
        return None  # a guard looks at one value, not at each element
    # The wire form of an array names its element type.
    plain = home.cast is None and element.name == home_element.name
    return Home(None if plain else f"{spelled(home_element)}[]")


def _element(array: ColumnType) -> ColumnType:
    return ColumnType(array.name.removeprefix("_"), array.args)


def _as_text(source: ColumnType, target: ColumnType) -> Home | NoHome:
    if target.name not in TEXT:
        return NoHome(f"`representation: text` does not go into {target}", "make the target column text")
    return _characters(source, target)


def _as_json(source: ColumnType, target: ColumnType) -> Home | NoHome:
    if target.name not in ("json", "jsonb"):
        return NoHome(f"`representation: json` does not go into {target}", "make the target column json or jsonb")
    may_hold_json = not built_in(source) and source.kind != "enum"
    if target.name == "jsonb" and (may_hold_json or source.name in ("json", "_json")):
        return NoHome(f"{source} may hold json, and {REFUSED['json', 'jsonb']}", "make the target column json")
    return Home(target.name)


# ---------------------------------------------------------------- the table

RULES: Mapping[tuple[str, str], Rule] = {
    **{(name, name): as_is for name in SELF_CONTAINED},
    **{(name, name): _same_modifier for name in ("bpchar", "bit", "interval")},
    **{(name, name): _fraction for name in ("time", "timetz", "timestamp", "timestamptz")},
    **{(source, target): _characters for source in (*TEXT, *PLAIN_TEXT, "enum") for target in TEXT},
    ("array", "array"): _array,
    ("varbit", "varbit"): _bits,
    ("bit", "varbit"): _bits,
    **{(source, target): _to_integer for source in ("numeric", *INTEGERS) for target in INTEGERS},
    **{(name, name): as_is for name in INTEGERS},
    **{(source, "numeric"): _to_numeric for source in ("numeric", *INTEGERS)},
    ("int2", "float4"): _cast,
    ("int2", "float8"): _cast,
    ("int4", "float8"): _cast,
    ("float4", "float8"): _cast,
    ("jsonb", "json"): _cast,
    ("cidr", "inet"): _cast,
}

# Refused although PostgreSQL has a cast: what it would do to the value.
REFUSED: Mapping[tuple[str, str], str] = {
    ("json", "jsonb"): "jsonb drops repeated keys, the order of keys and the spelling of numbers",
    ("date", "timestamp"): "the time of day would be a guess",
    ("date", "timestamptz"): "time of day and time zone would be guesses",
    ("timestamp", "timestamptz"): "the time zone would be a guess",
    ("timestamptz", "timestamp"): "the time zone would be lost",
    ("timestamp", "date"): "the time of day would be lost",
    ("timestamptz", "date"): "the time of day would be lost",
    ("time", "timetz"): "the time zone would be a guess",
    ("timetz", "time"): "the time zone would be lost",
    ("float8", "float4"): "it would be rounded",
    ("int4", "float4"): "beyond 2^24 it would be rounded",
    ("int8", "float4"): "beyond 2^24 it would be rounded",
    ("int8", "float8"): "beyond 2^53 it would be rounded",
    ("numeric", "float4"): "it would be rounded",
    ("numeric", "float8"): "it would be rounded",
    ("float4", "numeric"): "it would be rounded to six digits",
    ("float8", "numeric"): "it would be rounded to fifteen digits",
    ("bpchar", "text"): "its padding would be lost",
    ("bpchar", "varchar"): "its padding would be lost",
    ("text", "bpchar"): "it would be padded",
    ("varchar", "bpchar"): "it would be padded",
    ("money", "money"): "where its decimal point is depends on each server's lc_monetary",
}

POSTGRES = TypeTable(
    RULES,
    REFUSED,
    represented={"text": _as_text, "json": _as_json},
    text_column="a text column",
    mend="make the target column {source}",
    source_bounds=CHUNK_BOUNDS,
    bounds=CHUNK_BOUNDS,
)
