"""Numbers, times and sizes as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_KILO = 1_000


def number(value: object) -> str:
    """A whole number with thousands parted; anything else as it is, and `-` for nothing."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def rounded(value: float) -> str:
    """A measured number with no more digits than it deserves."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}"


def short(value: float) -> str:
    """A number for an axis: `12`, `3.4k`, `1.2M`."""
    for step, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= step:
            return f"{value / step:.3g}{letter}"
    return f"{value:.3g}"


def size(value: int) -> str:
    """Bytes in the largest unit that fits."""
    left = float(value)
    for unit in _UNITS:
        if left < _KILO or unit == _UNITS[-1]:
            return f"{left:.0f} {unit}" if unit == "B" else f"{left:.1f} {unit}"
        left /= _KILO
    return str(value)


def duration(seconds: float | None) -> str:
    """A duration: `0.25 s`, `12.4 s`, `3:05 min`, `2:04:00 h`, `3 d 04:00 h`."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    whole = round(seconds)
    days, rest = divmod(whole, 86_400)
    hours, minutes = divmod(rest // 60, 60)
    if days:
        return f"{days} d {hours:02}:{minutes:02} h"
    return f"{hours}:{minutes:02}:{rest % 60:02} h" if hours else f"{minutes}:{rest % 60:02} min"


def moment(when: datetime | None) -> str:
    """A time in UTC, to the second."""
    return "-" if when is None else f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(when: datetime) -> str:
    """A time in UTC without its year, for a column of them."""
    return f"{when.astimezone(UTC):%m-%d %H:%M:%S}"
