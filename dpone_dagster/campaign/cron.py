"""Checks a cron line before a scheduler meets it, so that a wrong one is a finding with a path."""

from __future__ import annotations

import re

_ITEM = re.compile(r"(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\d{1,3}))?", re.ASCII)
_MONTHS = {"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6}
_MONTHS |= {"jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12}
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)


def cron_problem(text: str) -> str | None:
    """What is wrong with a five-field cron line; None if nothing is.

    Args:
        text: Such as `30 5 * * *`.
    """
    words = text.split()
    if len(words) != len(_FIELDS):
        return f"it has {len(words)} field{'' if len(words) == 1 else 's'}"
    for word, (field, low, high, names) in zip(words, _FIELDS, strict=True):
        if not all(_fits(item, low, high, names) for item in word.lower().split(",")):
            return f"{field} `{word}` is not within {low}-{high}"
    return None


def _fits(item: str, low: int, high: int, names: dict[str, int]) -> bool:
    match = _ITEM.fullmatch(item)
    if match is None or (match["step"] is not None and int(match["step"]) == 0):
        return False
    numbers = [_number(word, names) for word in (match["first"], match["last"]) if word is not None]
    return all(low <= number <= high for number in numbers) and numbers == sorted(numbers)


def _number(word: str, names: dict[str, int]) -> int:
    return int(word) if word.isdigit() else names.get(word, -1)
