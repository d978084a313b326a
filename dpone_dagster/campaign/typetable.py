"""PostgreSQL to PostgreSQL: which type has its exact home in which. Data; `matching` reads it.

A binary COPY into a column with another type modifier rounds or cuts in silence (1.2367 → 1.24, `abc   ` → `abc`), so
a narrower modifier always has a guard. Types and casts: PostgreSQL documentation, chapters 8 and 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

# What has to be checked where the target's type modifier is narrower than the source's.
ModifierCheck = Literal["numeric", "length", "fraction", "equal"]

MODIFIERS: Mapping[str, ModifierCheck] = {
    "numeric": "numeric",
    "varchar": "length",
    "varbit": "equal",
    "time": "fraction",
    "timetz": "fraction",
    "timestamp": "fraction",
    "timestamptz": "fraction",
    "interval": "equal",
    "bpchar": "equal",  # blanks are padded to the length, so another length is another value on the wire
    "bit": "equal",
}

# Digits before the point that a value of the type can have.
INTEGER_DIGITS: Mapping[str, int] = {"int2": 5, "int4": 10, "int8": 19}
INTEGER_RANGES: Mapping[str, tuple[int, int]] = {
    "int2": (-(2**15), 2**15 - 1),
    "int4": (-(2**31), 2**31 - 1),
    "int8": (-(2**63), 2**63 - 1),
}

# Every value of the first has exactly one value of the second, and the cast is that value.
EXACT: frozenset[tuple[str, str]] = frozenset(
    {
        ("int2", "int4"),
        ("int2", "int8"),
        ("int4", "int8"),
        ("int2", "float4"),
        ("int2", "float8"),
        ("int4", "float8"),
        ("float4", "float8"),
        ("jsonb", "json"),
        ("cidr", "inet"),
    }
)

# Their text form tells every value apart and can be read back; `text` and unbounded `varchar` are one home.
TEXT_HOMES = frozenset({"text", "varchar"})
EXACT_AS_TEXT = frozenset(
    {"varchar", "text", "name", "uuid", "json", "jsonb", "xml", "inet", "cidr", "macaddr", "macaddr8"}
)

# Refused although PostgreSQL has a cast: what it does to the value, for the finding.
REASONS: Mapping[tuple[str, str], str] = {
    ("json", "jsonb"): "jsonb drops repeated keys, spaces and the order of keys",
    ("timestamp", "timestamptz"): "the time zone would be a guess",
    ("timestamptz", "timestamp"): "the time zone would be lost",
    ("float8", "float4"): "it would be rounded",
    ("int8", "float8"): "beyond 2^53 it would be rounded",
    ("int4", "float4"): "beyond 2^24 it would be rounded",
    ("numeric", "float8"): "it would be rounded",
    ("bpchar", "text"): "its padding would be lost",
}
