"""Whether two windows share a row."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_dagster.campaign.plan import ChunkSpec
from dpone_dagster.campaign.windows import apart


def days(first: str, last: str, **more: Any) -> ChunkSpec:
    return ChunkSpec("date", more.get("column", "day"), first, last, "1d")


def times(first: str, end: str) -> ChunkSpec:
    return ChunkSpec("timestamp", "day", first, end, "1d")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (days("2024-01-01", "2024-01-31"), days("2024-02-01", "2024-02-29"), True),
        (days("2024-01-01", "2024-02-01"), days("2024-02-01", "2024-02-29"), False),  # the last day is part of it
        (days("2024-01-01", "2024-01-31"), days("2024-02-01", "2024-02-29", column="other"), False),
        (days("2024-01-01", "9999-12-31"), days("2023-02-01", "2023-02-28"), False),  # not known, so not apart
        (
            times("2024-03-30T00:00+01:00", "2024-03-31T00:00+01:00"),
            times("2024-03-30T23:00", "2024-03-31T22:00"),
            True,
        ),
        (times("2024-03-30T00:00+01:00", "2024-03-31T00:00+01:00"), times("2024-03-30T22:59", "2024-03-31"), False),
        (times("2024-03-30", "2024-03-31"), days("2024-05-01", "2024-05-02"), False),
        (ChunkSpec("integer", "n", "1", "10", "5"), ChunkSpec("integer", "n", "11", "20", "5"), True),
        (ChunkSpec("integer", "n", "1", "10", "5"), ChunkSpec("integer", "n", "10", "20", "5"), False),
        (ChunkSpec("uuid", "id", buckets=4), ChunkSpec("uuid", "id", buckets=4), False),
    ],
)
def test_windows_are_apart_only_if_no_row_can_be_in_both(one: ChunkSpec, other: ChunkSpec, expected: bool) -> None:
    merged, replaced = {**one.as_dict(), "action": "merge"}, {**other.as_dict(), "action": "replace"}
    assert apart(merged, replaced) == expected
    assert apart(replaced, merged) == expected


def test_a_refresh_is_apart_from_nothing_nor_is_what_says_not_what_it_does() -> None:
    one, other = (days(f"2024-0{month}-01", f"2024-0{month}-05").as_dict() for month in (1, 2))
    assert apart({**one, "action": "append"}, {**other, "action": "append"})
    for action in ({"action": "refresh"}, {"action": "later words"}, {}):
        assert not apart({**one, **action}, {**other, "action": "append"})
        assert not apart({**other, "action": "append"}, {**one, **action})
