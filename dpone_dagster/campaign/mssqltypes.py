"""What the values of SQL Server's types can be, and the guards that a narrower home of them needs.

Ranges and lengths: Microsoft's type reference, SQL Server 2019 and later. Moments come over as microseconds of an
instant, so the seventh digit of a second's fraction has a guard wherever it goes, and so has an offset other than zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.contract import ColumnType, Guard
from dpone_dagster.campaign.homes import Home, NoHome

INTEGERS: Mapping[str, tuple[int, int]] = {
    "tinyint": (0, 2**8 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
# Precision and scale of the types whose decimals are fixed; those of the others are arguments.
MONEY: Mapping[str, tuple[int, int]] = {"money": (19, 4), "smallmoney": (10, 4)}
NUMBERS = ("decimal", "numeric", *MONEY)
WIDE_TEXT = ("nvarchar", "nchar")
NARROW_TEXT = ("varchar", "char")
# The types with a text form that depends on no setting and can be read back.
WRITTEN = frozenset(
    {
        *(*INTEGERS, *NUMBERS, *WIDE_TEXT, *NARROW_TEXT, "uniqueidentifier", "xml"),
        *("date", "time", "datetime2", "datetimeoffset", "datetime", "smalldatetime"),
    }
)
FRACTION_DIGITS = 6
# As a datetime is documented, and as the driver hands it over: .000, .003 or .007.
_DIGITS = {"datetime": 3, "smalldatetime": 0}
_UTF8 = "_UTF8"
_LONGEST_WIDE = 4000
_LONGEST_TEXT = 41  # of those written but text and xml: 38 digits, a sign, a point and a zero before it


def whole_guards(source: ColumnType, low: int, high: int) -> tuple[Guard, ...]:
    """What keeps an integer or a decimal whole and in a range.

    Args:
        source: Its type.
        low: Least value of the home, at most 0.
        high: Greatest value of the home.
    """
    in_range = Guard("range", "range", (low, high))
    if source.name in INTEGERS:
        least, most = INTEGERS[source.name]
        return () if low <= least and most <= high else (in_range,)
    before, after = digits(source)
    guards = [Guard("precision", "scale", (0,))] if after else []
    return (*guards, in_range) if 10**before - 1 > min(high, -low) else tuple(guards)


def decimal_guards(source: ColumnType, precision: int, scale: int) -> tuple[Guard, ...]:
    """What keeps an integer or a decimal in a decimal type."""
    before, after = digits(source)
    guards = [Guard("range", "digits", (precision - scale,))] if before > precision - scale else []
    return (*guards, Guard("precision", "scale", (scale,))) if after > scale else tuple(guards)


def kept_digits(source: ColumnType, there: int) -> int:
    """Digits of a second's fraction that come over for a home that has this many."""
    return min(there, FRACTION_DIGITS, fraction(source))


def moment_guards(source: ColumnType, kept: int) -> tuple[Guard, ...]:
    """What keeps a time or an instant of which this many digits of a second's fraction come over."""
    offset = (Guard("offset", "offset"),) if source.name == "datetimeoffset" else ()
    if kept >= fraction(source):
        return offset
    return (*offset, Guard("precision", "nanoseconds", (10 ** (9 - kept),)))


def text_guards(source: ColumnType) -> tuple[Guard, ...]:
    """What keeps text that is well-formed UTF-16: halves of a surrogate pair can be stored alone."""
    return (Guard("surrogate", "surrogate"),) if source.name in WIDE_TEXT else ()


def text_cast(source: ColumnType) -> str | None:
    """The Unicode type that a text is read as, so that the server turns its code page into Unicode; None as it is."""
    if source.name == "nvarchar":
        return None
    units = length(source)
    return f"nvarchar({units})" if units and units <= _LONGEST_WIDE else "nvarchar(max)"


def text_home(source: ColumnType, target: ColumnType) -> Home | NoHome | None:
    """The home of a value's text in a text column, which holds every such text or is refused."""
    if source.name not in WRITTEN:
        return None
    if target.args and (source.name == "xml" or target.args[0] < _LONGEST_TEXT):
        return NoHome(f"{source} may be longer than {target} as text", "make the target column longer")
    return Home("text")


def no_json(_source: ColumnType, target: ColumnType) -> NoHome:
    """Why `representation: json` is refused from SQL Server."""
    return NoHome(f"`representation: json` of SQL Server's values has no rule for {target}", "use `text`")


def length(kind: ColumnType) -> int | None:
    """Most UTF-16 units of a text, or bytes of a binary; None for no bound. A byte is never more than one unit."""
    return kind.args[0] if kind.args else None


def is_utf8(kind: ColumnType) -> bool:
    """Whether a char or varchar holds every character."""
    return (kind.collation or "").upper().endswith(_UTF8)


def digits(kind: ColumnType) -> tuple[int, int]:
    """Most digits before and after the point."""
    if kind.name in INTEGERS:
        return len(str(INTEGERS[kind.name][1])), 0
    precision, scale = MONEY.get(kind.name) or (kind.args[0], kind.args[1])
    return precision - scale, scale


def fraction(kind: ColumnType) -> int:
    """Digits of a second's fraction."""
    return kind.args[0] if kind.args else _DIGITS.get(kind.name, 7)
