"""PostgreSQL to PostgreSQL: which type has its exact home in which. One row a pair; a pair without a row is refused.

A binary COPY into a column with another type modifier rounds or cuts in silence (1.2367 → 1.24, `abc   ` → `abc`), so
whatever is narrower has a guard. Types, casts and modifiers: PostgreSQL documentation, chapters 8 and 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dpone_dagster.campaign.contract import ColumnType, Guard, Representation
from dpone_dagster.campaign.homes import Home, NoHome
from dpone_dagster.campaign.plan import ChunkKind

Rule = Callable[[ColumnType, ColumnType], Home | NoHome]

_INTEGERS: Mapping[str, tuple[int, int]] = {
    "int2": (-(2**15), 2**15 - 1),
    "int4": (-(2**31), 2**31 - 1),
    "int8": (-(2**63), 2**63 - 1),
}
_ALL_FRACTION_DIGITS = 6

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
# Their text form depends on no setting, tells every value apart and can be read back.
_PLAIN_TEXT = ("uuid", "json", "jsonb", "xml", "inet", "cidr", "macaddr", "macaddr8", "name")
_TEXT = ("text", "varchar")


def spelled(kind: ColumnType) -> str:
    """A built-in base type as a cast names it: `numeric(18,2)`."""
    return f"{kind.name}({','.join(map(str, kind.args))})" if kind.args else kind.name


# ---------------------------------------------------------------- rules


def _as_is(_source: ColumnType, _target: ColumnType) -> Home:
    return Home()


def _cast(_source: ColumnType, target: ColumnType) -> Home:
    return Home(spelled(target))


def _same_modifier(source: ColumnType, target: ColumnType) -> Home | NoHome:
    if target.args in ((), source.args):
        return Home()
    return NoHome(f"{source} would be cut or padded in {target}", f"make the target column {source}")


def _characters(source: ColumnType, target: ColumnType) -> Home:
    fits = not target.args or (source.name == "varchar" and source.args and source.args[0] <= target.args[0])
    return Home(None if source.name in _TEXT else "text", () if fits else (Guard("length", "characters", target.args),))


def _bits(source: ColumnType, target: ColumnType) -> Home:
    fits = not target.args or (source.args and source.args[0] <= target.args[0])
    return Home(None if source.name == "varbit" else "varbit", () if fits else (Guard("length", "bits", target.args),))


def _fraction(source: ColumnType, target: ColumnType) -> Home:
    kept = target.args[0] if target.args else _ALL_FRACTION_DIGITS
    if kept >= (source.args[0] if source.args else _ALL_FRACTION_DIGITS):
        return Home()
    return Home(None, (Guard("precision", "microseconds", (10 ** (_ALL_FRACTION_DIGITS - kept),)),))


def _to_integer(source: ColumnType, target: ColumnType) -> Home:
    low, high = _INTEGERS[target.name]
    if source.name in _INTEGERS:
        fits = low <= _INTEGERS[source.name][0]
        return Home(target.name, () if fits else (Guard("range", "range", (low, high)),))
    before, after = _digits(source)
    guards = [Guard("nan", "nan")]  # numeric holds NaN whatever its precision
    if not source.args:
        guards.append(Guard("infinity", "infinity"))
    if after is None or after > 0:
        guards.append(Guard("precision", "scale", (0,)))
    if before is None or 10**before - 1 > high:
        guards.append(Guard("range", "range", (low, high)))
    return Home(target.name, tuple(guards))


def _to_numeric(source: ColumnType, target: ColumnType) -> Home:
    if not target.args or target.args == source.args:
        return Home(None if source.name == "numeric" else "numeric")
    precision, scale = target.args
    before, after = _digits(source)
    guards = []
    if source.name == "numeric" and not source.args:
        guards.append(Guard("infinity", "infinity"))  # no numeric with a precision holds it
    if before is None or before > precision - scale:
        guards.append(Guard("range", "digits", (precision - scale,)))
    if after is None or after > scale:
        guards.append(Guard("precision", "scale", (scale,)))
    return Home(spelled(target), tuple(guards))


def _digits(kind: ColumnType) -> tuple[int | None, int | None]:
    """Most digits before and after the point; None for no bound."""
    if kind.name in _INTEGERS:
        return len(str(_INTEGERS[kind.name][1])), 0
    return (kind.args[0] - kind.args[1], kind.args[1]) if kind.args else (None, None)


# ---------------------------------------------------------------- the table

RULES: Mapping[tuple[str, str], Rule] = {
    **{(name, name): _as_is for name in SELF_CONTAINED},
    **{(name, name): _same_modifier for name in ("bpchar", "bit", "interval")},
    **{(name, name): _fraction for name in ("time", "timetz", "timestamp", "timestamptz")},
    **{(source, target): _characters for source in (*_TEXT, *_PLAIN_TEXT) for target in _TEXT},
    ("varbit", "varbit"): _bits,
    ("bit", "varbit"): _bits,
    **{(source, target): _to_integer for source in ("numeric", *_INTEGERS) for target in _INTEGERS},
    **{(name, name): _as_is for name in _INTEGERS},
    **{(source, "numeric"): _to_numeric for source in ("numeric", *_INTEGERS)},
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

# Which columns can be cut into chunks of a kind, and the type of the bounds: one that the column's index can use.
CHUNK_BOUNDS: Mapping[ChunkKind, Mapping[str, str]] = {
    "uuid": {"uuid": "uuid"},
    "integer": {"int2": "int8", "int4": "int8", "int8": "int8", "numeric": "numeric"},
    "date": {"date": "date", "timestamp": "timestamp", "timestamptz": "timestamptz"},
    "timestamp": {"date": "timestamp", "timestamp": "timestamp", "timestamptz": "timestamptz"},
}


def chunk_bound_type(kind: ChunkKind, column: ColumnType) -> str | None:
    """The type of a chunk's bounds over a column; None if the column cannot be cut into such chunks.

    Args:
        kind: Of the chunks.
        column: Type of the chunk column. Bounds of a timestamp without time zone are in UTC.
    """
    if column.kind != "base" or (column.name == "numeric" and not _whole_numbers(column)):
        return None  # inclusive integer bounds would leave fractions out
    return CHUNK_BOUNDS[kind].get(column.name)


def _whole_numbers(column: ColumnType) -> bool:
    return bool(column.args) and column.args[1] <= 0


# ---------------------------------------------------------------- looking it up


def postgres_home(source: ColumnType, target: ColumnType, representation: Representation | None) -> Home | NoHome:
    """The exact home of a source type in a target type, both PostgreSQL's.

    Args:
        source: Of the source column; a domain counts as the type that it is made of.
        target: Of the target column.
        representation: The form that the manifest asks for.
    """
    if representation == "text":
        return _as_text(source, target)
    if representation == "json":
        return _as_json(source, target)
    if source.kind == "enum" and target.name in _TEXT:
        return _characters(source, target)
    if source.kind == target.kind == "array":
        return _array(source, target)
    rule = RULES.get((source.name, target.name))
    return rule(source, target) if rule else _no_home(source, target)


def _built_in(kind: ColumnType) -> bool:
    return "." not in kind.name


def _no_home(source: ColumnType, target: ColumnType) -> NoHome:
    if not _built_in(source):
        return NoHome(
            f"{source} is defined by its own database, so {target} is not the same type",
            "name `representation: text`, with a text column in the target",
        )
    reason = REFUSED.get((source.name, target.name))
    advice = f"make the target column {source}, or name `representation: text` with a text column"
    if source.name == target.name:
        advice = "name `representation: text`, with a text column in the target"
    return NoHome(f"{source} has no exact home in {target}{f': {reason}' if reason else ''}", advice)


def _as_text(source: ColumnType, target: ColumnType) -> Home | NoHome:
    if target.name not in _TEXT:
        return NoHome(f"`representation: text` does not go into {target}", "make the target column text")
    return _characters(source, target)


def _as_json(source: ColumnType, target: ColumnType) -> Home | NoHome:
    if target.name not in ("json", "jsonb"):
        return NoHome(f"`representation: json` does not go into {target}", "make the target column json or jsonb")
    may_hold_json = not _built_in(source) and source.kind != "enum"
    if target.name == "jsonb" and (may_hold_json or source.name in ("json", "_json")):
        return NoHome(f"{source} may hold json, and {REFUSED['json', 'jsonb']}", "make the target column json")
    return Home(target.name)


def _array(source: ColumnType, target: ColumnType) -> Home | NoHome:
    element, home_element = _element(source), _element(target)
    rule = RULES.get((element.name, home_element.name))
    home = rule(element, home_element) if rule else None
    if not isinstance(home, Home) or home.guards:
        return _no_home(source, target)  # a guard looks at one value, not at each element
    # The wire form of an array names its element type.
    plain = home.cast is None and element.name == home_element.name
    return Home(None if plain else f"{spelled(home_element)}[]")


def _element(array: ColumnType) -> ColumnType:
    return ColumnType(array.name.removeprefix("_"), array.args)
