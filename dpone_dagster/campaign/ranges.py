"""Ranges of the chunk column, a class a kind: how many there are and what the i-th one is. Pure arithmetic."""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import NamedTuple, Protocol

UUID_SPACE = 2**128
INT8_MIN, INT8_MAX = -(2**63), 2**63 - 1
_MICROSECOND = timedelta(microseconds=1)


class Bounds(NamedTuple):
    """One range: lower bound inclusive, upper bound as said."""

    lower: str
    upper: str
    upper_inclusive: bool


class Ranges(Protocol):
    """Adjacent, gapless, non-overlapping ranges, each found without looking at the others."""

    @property
    def count(self) -> int:
        """How many ranges there are, at least one."""
        ...

    def bounds(self, index: int) -> Bounds:
        """The range at an index that is known to lie in the plan."""
        ...


@dataclass(frozen=True)
class UuidRanges:
    """The whole 128-bit space in buckets whose sizes differ by one at most."""

    buckets: int

    @property
    def count(self) -> int:
        """The buckets."""
        return self.buckets

    def bounds(self, index: int) -> Bounds:
        """The bucket; the last one includes the highest uuid."""
        last = index == self.buckets - 1
        upper = UUID_SPACE - 1 if last else self._edge(index + 1)
        return Bounds(_uuid_text(self._edge(index)), _uuid_text(upper), last)

    def _edge(self, index: int) -> int:
        return index * UUID_SPACE // self.buckets


@dataclass(frozen=True)
class IntegerRanges:
    """From `first` to `last`, both inclusive, `step` numbers a range."""

    first: int
    last: int
    step: int

    @property
    def count(self) -> int:
        """Found from the bounds alone, whatever their distance."""
        return -(-(self.last - self.first + 1) // self.step)

    def bounds(self, index: int) -> Bounds:
        """The range, upper bound inclusive."""
        lower = self.first + index * self.step
        return Bounds(str(lower), str(min(lower + self.step - 1, self.last)), True)


@dataclass(frozen=True)
class Step:
    """The length of a calendar range: whole months, or a fixed time."""

    months: int = 0
    length: timedelta = timedelta()

    def __str__(self) -> str:
        if self.months:
            return f"{self.months}mo"
        hours = self.length // timedelta(hours=1)
        return f"{hours}h" if hours % 24 else f"{hours // 24}d"


@dataclass(frozen=True)
class CalendarRanges:
    """Half-open windows of dates or instants.

    Months count from the start and in the start's own offset, so that the 31st neither drifts nor overlaps.

    Attributes:
        kind_is_date: Whether bounds are written as dates.
        start: Lower bound of the first window.
        last: The last instant that belongs to the last window.
        step: Length of a window.
    """

    kind_is_date: bool
    start: datetime
    last: datetime
    step: Step

    @classmethod
    def of_dates(cls, first: date, last: date, step: Step) -> CalendarRanges:
        """Whole days; the last day belongs to the last window."""
        return cls(True, datetime.combine(first, time.min, UTC), datetime.combine(last, time.max, UTC), step)

    @classmethod
    def of_instants(cls, start: datetime, end: datetime, step: Step) -> CalendarRanges:
        """Instants from `start` up to, and without, `end`."""
        return cls(False, start, end.astimezone(UTC) - _MICROSECOND, step)

    @cached_property
    def count(self) -> int:
        """Found from the bounds alone."""
        if not self.step.months:
            return (self.last - self.start) // self.step.length + 1
        last = self.last.astimezone(self.start.tzinfo)
        apart = (last.year - self.start.year) * 12 + last.month - self.start.month
        whole = apart // self.step.months
        return whole + 1 if self._edge(whole) <= last else whole

    def bounds(self, index: int) -> Bounds:
        """The window; the last one ends where the plan ends."""
        ends_plan = index == self.count - 1
        upper = self._end_text() if ends_plan else self._text(self._edge(index + 1))
        return Bounds(self._text(self._edge(index)), upper, False)

    def _edge(self, index: int) -> datetime:
        if not self.step.months:
            return self.start + index * self.step.length
        years, month = divmod(self.start.month - 1 + index * self.step.months, 12)
        year = self.start.year + years
        day = min(self.start.day, calendar.monthrange(year, month + 1)[1])
        return self.start.replace(year=year, month=month + 1, day=day)

    def _text(self, moment: datetime) -> str:
        return moment.date().isoformat() if self.kind_is_date else moment.astimezone(UTC).isoformat()

    def _end_text(self) -> str:
        if self.kind_is_date and self.last.date() == date.max:
            return "10000-01-01"  # the day after the last one that Python knows; PostgreSQL reads it
        return self._text(self.last + _MICROSECOND)


def _uuid_text(number: int) -> str:
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
