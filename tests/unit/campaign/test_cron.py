from __future__ import annotations

import pytest

from dpone_dagster.campaign.cron import cron_problem


@pytest.mark.parametrize(
    "text", ["30 5 * * *", "*/15 * * * *", "0 0 1 jan,JUL *", "0-30/5 8-18 * * mon-fri", "0 0 31 12 7", " 0  0 * * 0 "]
)
def test_a_cron_line_is_right(text: str) -> None:
    assert cron_problem(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it has 0 fields"),
        ("@daily", "it has 1 field"),
        ("0 5 * * * *", "it has 6 fields"),
        ("60 * * * *", "minute `60` is not within 0-59"),
        ("0 24 * * *", "hour `24` is not within 0-23"),
        ("0 0 0 * *", "day of month `0` is not within 1-31"),
        ("0 0 * 13 *", "month `13` is not within 1-12"),
        ("0 0 * * 8", "day of week `8` is not within 0-7"),
        ("0 0 * * fri-mon", "day of week `fri-mon` is not within 0-7"),
        ("*/0 * * * *", "minute `*/0` is not within 0-59"),
        ("0 0 * mon *", "month `mon` is not within 1-12"),
        ("0, 0 * * *", "minute `0,` is not within 0-59"),
    ],
)
def test_a_cron_line_is_wrong(text: str, problem: str) -> None:
    assert cron_problem(text) == problem
