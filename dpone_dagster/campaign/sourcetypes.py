"""What the values of PostgreSQL's types can be, and the guards that a narrower home of them needs.

Ranges and modifiers: PostgreSQL documentation, chapter 8.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.contract import ColumnType, Guard

INTEGERS: Mapping[str, tuple[int, int]] = {
    "int2": (-(2**15), 2**15 - 1),
    "int4": (-(2**31), 2**31 - 1),
    "int8": (-(2**63), 2**63 - 1),
}
FRACTION_DIGITS = 6
TEXT = ("text", "varchar")
# Their text form depends on no setting, tells every value apart and can be read back.
PLAIN_TEXT = ("uuid", "json", "jsonb", "xml", "inet", "cidr", "macaddr", "macaddr8", "name")


def spelled(kind: ColumnType) -> str:
    """A built-in base type as a cast names it: `numeric(18,2)`."""
    return f"{kind.name}({','.join(map(str, kind.args))})" if kind.args else kind.name


def whole_guards(source: ColumnType, low: int, high: int) -> tuple[Guard, ...]:
    """What keeps an integer or a numeric whole and in a range.

    Args:
        source: Its type.
        low: Least value of the home, at most 0.
        high: Greatest value of the home.
    """
    in_range = Guard("range", "range", (low, high))
    if source.name in INTEGERS:
        least, most = INTEGERS[source.name]
        return () if low <= least and most <= high else (in_range,)
    before, after = _digits(source)
    guards = [Guard("nan", "nan")]  # numeric holds NaN whatever its precision
    if not source.args:
        guards.append(Guard("infinity", "infinity"))
    if after is None or after > 0:
        guards.append(Guard("precision", "scale", (0,)))
    if before is None or 10**before - 1 > min(high, -low):
        guards.append(in_range)
    return tuple(guards)


def decimal_guards(source: ColumnType, precision: int, scale: int) -> tuple[Guard, ...]:
    """What keeps an integer or a numeric in a decimal type that holds no infinity; NaN is the caller's."""
    before, after = _digits(source)
    guards = []
    if source.name == "numeric" and not source.args:
        guards.append(Guard("infinity", "infinity"))
    if before is None or before > precision - scale:
        guards.append(Guard("range", "digits", (precision - scale,)))
    if after is None or after > scale:
        guards.append(Guard("precision", "scale", (scale,)))
    return tuple(guards)


def fraction_guards(source: ColumnType, kept: int) -> tuple[Guard, ...]:
    """What keeps a time or an instant whose home has this many digits of a second's fraction."""
    if kept >= (source.args[0] if source.args else FRACTION_DIGITS):
        return ()
    return (Guard("precision", "microseconds", (10 ** (FRACTION_DIGITS - kept),)),)


def _digits(kind: ColumnType) -> tuple[int | None, int | None]:
    """Most digits before and after the point; None for no bound."""
    if kind.name in INTEGERS:
        return len(str(INTEGERS[kind.name][1])), 0
    return (kind.args[0] - kind.args[1], kind.args[1]) if kind.args else (None, None)
