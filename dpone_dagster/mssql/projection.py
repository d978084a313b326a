"""The SELECT list of a source on SQL Server: casts into the wire's types, and flags of the values that have no home.

A refused value is no error of the server: the row says by a flag of its own which guard fired, and the reader stops.
So no cast may fail: a value that does not fit is NULL in its column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract, Guard, type_word
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.mssql.quoting import literal, quoted

_CAST = re.compile(r"[a-z][a-z0-9]*(\((\d+(,\d+)?|max)\))?", re.ASCII)
_EXACT = "COLLATE Latin1_General_BIN2"
_UTF8 = "COLLATE Latin1_General_100_BIN2_UTF8"
_ASCII = literal("%[^\x01-\x7f]%")
_TEXT = "nvarchar(max)"
_PADDED = ("char(", "nchar(", "character(")
_CHARACTERS = frozenset({"char", "varchar", "nchar", "nvarchar"})
REFUSED = "refused"

# What `representation: text` makes of a value; the others are what a CAST makes of them.
_WRITTEN: Mapping[str, str] = {
    "uniqueidentifier": "LOWER(CONVERT(nvarchar(36), {value}))",
    "money": "CONVERT(nvarchar(41), CAST({value} AS decimal(19, 4)))",
    "smallmoney": "CONVERT(nvarchar(41), CAST({value} AS decimal(19, 4)))",
    "date": "CONVERT(nvarchar(10), {value}, 23)",
    **dict.fromkeys(
        ("time", "datetime", "smalldatetime", "datetime2", "datetimeoffset"), "CONVERT(nvarchar(40), {value}, 121)"
    ),
}


@dataclass(frozen=True)
class Refusal:
    """A guard of a column that stops the chunk."""

    column: ColumnBinding
    guard: Guard


@dataclass(frozen=True)
class Projection:
    """What is selected for a contract, of the source table as `s`.

    Attributes:
        contract: The column contract.
        utf8: Whether the server keeps text as UTF-8, where no half of a surrogate pair can be.
    """

    contract: ColumnContract
    utf8: bool

    @cached_property
    def refusals(self) -> tuple[Refusal, ...]:
        """Every guard that stops a chunk; a row's flag is a place in it."""
        return tuple(Refusal(c, guard) for c in self.contract.columns if c.on_bad_value == "fail" for guard in c.guards)

    @cached_property
    def nulled(self) -> Mapping[str, str]:
        """By target column with `on_bad_value: null`: the name of the flag that its value was replaced."""
        asked = [c.target for c in self.contract.columns if c.on_bad_value == "null" and c.guards]
        return {target: f"n{place}" for place, target in enumerate(asked)}

    @property
    def names(self) -> list[str]:
        """Of the values, in the contract's order: neutral ones, since clients stumble over some."""
        return [f"c{place}" for place in range(len(self.contract.columns))]

    @property
    def kinds(self) -> dict[str, str]:
        """By those names, the type of each value; text that is padded in the target counts as padded."""
        return {name: _kind(column) for name, column in zip(self.names, self.contract.columns, strict=True)}

    def values(self) -> str:
        """The values alone."""
        columns = zip(self.names, self.contract.columns, strict=True)
        return ", ".join(f"{self._value(column)} AS {quoted(name)}" for name, column in columns)

    def flagged(self) -> str:
        """The values and, where there are guards, the flags."""
        flags = [f"CAST({self._any_bad(c)} AS bit) AS {quoted(self.nulled[c.target])}" for c in self._replaced]
        if self.refusals:
            cases = " ".join(f"WHEN {self.bad(r)} THEN {place}" for place, r in enumerate(self.refusals))
            flags.append(f"CASE {cases} END AS {quoted(REFUSED)}")
        return ", ".join([self.values(), *flags])

    def bad(self, refusal: Refusal) -> str:
        """T-SQL condition: the guard fires."""
        return self._bad(refusal.column, refusal.guard)

    @property
    def _replaced(self) -> list[ColumnBinding]:
        return [column for column in self.contract.columns if column.target in self.nulled]

    def _any_bad(self, column: ColumnBinding) -> str:
        bad = " OR ".join(f"({self._bad(column, guard)})" for guard in column.guards)
        return f"CASE WHEN {bad} THEN 1 ELSE 0 END"

    def _bad(self, column: ColumnBinding, guard: Guard) -> str:
        if guard.check not in _CHECKS:
            raise DponeError(f"column `{column.source}`: SQL Server has no check `{guard.check}` of its contract")
        if guard.check == "surrogate" and self.utf8:
            return "1 = 0"
        return _CHECKS[guard.check](_name(column), guard.args)

    def _value(self, column: ColumnBinding) -> str:
        value = _cast(column)
        # Text is cast to what holds all of it; where the chunk stops anyway, nothing need be in its place.
        if not column.guards or (column.on_bad_value == "fail" and _kind(column) in _CHARACTERS):
            return value
        return f"CASE {self._any_bad(column)} WHEN 0 THEN {value} END"


def _name(column: ColumnBinding) -> str:
    return f"s.{quoted(column.source)}"


def _cast(column: ColumnBinding) -> str:
    value = _name(column)
    if column.cast is None:
        return value
    if column.cast == "text":
        return _WRITTEN.get(type_word(column.source_type), f"CAST({{value}} AS {_TEXT})").replace("{value}", value)
    if not _CAST.fullmatch(column.cast):
        raise DponeError(f"column `{column.source}`: its contract has a cast that this program does not make")
    return f"CAST({value} AS {column.cast})"


def _kind(column: ColumnBinding) -> str:
    kind = "nvarchar" if column.cast == "text" else type_word(column.cast or column.source_type)
    if kind not in _CHARACTERS:
        return kind
    return "nchar" if column.target_type.startswith(_PADDED) else "nvarchar"


# ---------------------------------------------------------------- checks, true where a value does not fit

_Args = tuple[int | str, ...]


def _range(value: str, args: _Args) -> str:
    return f"{value} NOT BETWEEN {int(args[0])} AND {int(args[1])}"


def _digits(value: str, args: _Args) -> str:
    bound = "1" + "0" * int(args[0])
    return f"{value} >= {bound} OR {value} <= -{bound}"


def _scale(value: str, args: _Args) -> str:
    return f"ROUND({value}, {int(args[0])}, 1) <> {value}"  # cut, since what is rounded up may overflow


def _nanoseconds(value: str, args: _Args) -> str:
    return f"DATEPART(nanosecond, {value}) % {int(args[0])} <> 0"


def _offset(value: str, _args: _Args) -> str:
    return f"DATEPART(tz, {value}) <> 0"


def _utf16(value: str, args: _Args) -> str:
    # A collation without supplementary characters counts units; the point keeps trailing blanks.
    return f"LEN((CAST({value} AS {_TEXT}) + N'.') {_EXACT}) - 1 > {int(args[0])}"


def _utf8(value: str, args: _Args) -> str:
    return f"DATALENGTH(CAST({value} {_UTF8} AS varchar(max))) > {int(args[0])}"


def _ascii(value: str, _args: _Args) -> str:
    return f"CAST({value} AS {_TEXT}) {_EXACT} LIKE {_ASCII}"


def _surrogate(value: str, _args: _Args) -> str:
    # What is no character becomes U+FFFD on its way through UTF-8.
    return f"CAST(CAST({value} {_UTF8} AS varchar(max)) AS {_TEXT}) {_EXACT} <> {value}"


def _nul(value: str, _args: _Args) -> str:
    return f"CHARINDEX(NCHAR(0) {_EXACT}, {value}) > 0"


def _octets(value: str, args: _Args) -> str:
    return f"DATALENGTH({value}) NOT BETWEEN {int(args[0])} AND {int(args[1])}"


_CHECKS: Mapping[str, Callable[[str, _Args], str]] = {
    "range": _range,
    "digits": _digits,
    "scale": _scale,
    "nanoseconds": _nanoseconds,
    "offset": _offset,
    "utf16": _utf16,
    "utf8": _utf8,
    "ascii": _ascii,
    "surrogate": _surrogate,
    "nul": _nul,
    "octets": _octets,
}
