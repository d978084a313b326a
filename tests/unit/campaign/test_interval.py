"""The interval of a run: where it comes from, and what a manifest's tokens become, whatever the clocks do."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dpone_dagster.campaign.errors import IntervalInvalid, ManifestInvalid
from dpone_dagster.campaign.interval import NO_INTERVAL, Interval, read_interval, resolved, token_problem
from dpone_dagster.campaign.manifests import parse_any
from dpone_dagster.campaign.overrides import RunOptions
from dpone_dagster.campaign.plan import ChunkSpec, Plan, infer_kind
from dpone_dagster.campaign.spec import CampaignSpec
from tests.unit.campaign.test_manifest import changed

BERLIN = ZoneInfo("Europe/Berlin")
START, END = "{{ data_interval_start }}", "{{ data_interval_end }}"


def berlin(year: int, month: int, day: int, hour: int = 0, minute: int = 0, fold: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=BERLIN, fold=fold)


def window(interval: Interval, **chunk: str) -> list[tuple[str, str]]:
    """The chunks of a window of `from` and `to` tokens."""
    block = {"column": "d", "from": START, "to": END, "step": "1d"} | chunk
    data = {"sink": {"strategy": {"backfill": {"chunk": block}}}}
    found = resolved(data, interval)["sink"]["strategy"]["backfill"]["chunk"]
    kind = found.get("kind") or infer_kind(found["from"], None)
    spec = ChunkSpec(kind, "d", found["from"], found["to"], found["step"])
    return [(c.lower, c.upper) for c in Plan(spec)]


def test_flags_come_before_variables_and_no_zone_means_utc() -> None:
    environ = {
        "DPONE_INTERVAL_START": "2024-01-01 00:00:00+00:00",
        "DPONE_INTERVAL_END": "2024-01-02T00:00:00Z",
        "DPONE_LOGICAL_DATE": "None",
        "DPONE_DAG_RUN_ID": "scheduled__2024-01-01",
        "DPONE_DAG_ID": "orders",
        "DPONE_TRY_NUMBER": "2",
    }
    read = read_interval({"start": "2024-01-01T06:00", "end": None, "logical_date": None}, environ)
    assert read.as_dict() == {
        "start": "2024-01-01T06:00:00+00:00",
        "end": "2024-01-02T00:00:00+00:00",
        "logical_date": "2024-01-01T06:00:00+00:00",
        "dag_id": "orders",
        "dag_run_id": "scheduled__2024-01-01",
        "try_number": "2",
    }
    assert read_interval(read.as_dict(), {}).as_dict() == read.as_dict()
    assert read_interval({}, {"DPONE_INTERVAL_START": "", "DPONE_INTERVAL_END": "None"}) == NO_INTERVAL


def test_what_is_no_time_is_named_by_flag_or_variable_all_at_once() -> None:
    with pytest.raises(IntervalInvalid) as refused:
        read_interval({"start": "yesterday", "end": "2024-02-30"}, {"DPONE_LOGICAL_DATE": "20240101"})
    assert [f.path for f in refused.value.findings] == ["--interval-start", "--interval-end", "DPONE_LOGICAL_DATE"]
    with pytest.raises(IntervalInvalid, match="before it starts"):
        read_interval({"start": "2024-01-02", "end": "2024-01-01"}, {})


def test_every_token_gets_its_value_wherever_it_stands() -> None:
    interval = Interval(berlin(2024, 7, 1), berlin(2024, 7, 2), None, dag_run_id="manual__1")
    data = {"a": ["x-{{ ds }}", {"b": "{{dag_run_id}}"}], "c": 7, "d": f"{START} {END}", "e": "{{ logical_date }}"}
    assert resolved(data, interval) == {
        "a": ["x-2024-07-01", {"b": "manual__1"}],
        "c": 7,
        "d": "2024-07-01T00:00:00+02:00 2024-07-02T00:00:00+02:00",
        "e": "2024-07-01T00:00:00+02:00",
    }


def test_what_has_no_value_stays_and_says_what_to_give() -> None:
    data = resolved({"from": START, "ds": "{{ ds }}"}, Interval(dag_run_id="x"))
    assert data == {"from": START, "ds": "{{ ds }}"}
    problem, advice = token_problem(data["from"]) or ("", "")
    assert "has no value in this run" in problem
    assert "--interval-start" in advice
    assert "DPONE_INTERVAL_START" in advice
    problem, advice = token_problem("{{ ds_nodash }}") or ("", "")
    assert "no token" in problem
    assert "`{{ ds }}`" in advice
    assert token_problem("{ ds }") is None
    endless: dict[str, Any] = {"x": START}
    endless["self"] = endless
    assert resolved(endless, Interval(berlin(2024, 1, 1)))["x"] == "2024-01-01T00:00:00+01:00"


def test_the_day_of_a_logical_date_is_its_own_zones() -> None:
    assert Interval(logical_date=berlin(2024, 3, 31)).values["ds"] == "2024-03-31"
    assert read_interval({"logical_date": "2024-03-30T23:00:00Z"}, {}).values["ds"] == "2024-03-30"


@pytest.mark.parametrize(
    ("first", "next_day", "hours", "chunks"),
    [
        (berlin(2024, 3, 31), berlin(2024, 4, 1), 23, 1),  # the clocks go forward
        (berlin(2024, 10, 27), berlin(2024, 10, 28), 25, 2),  # and back: 24 hours, then one
        (berlin(2024, 2, 29), berlin(2024, 3, 1), 24, 1),
    ],
)
def test_days_with_23_and_25_hours_are_loaded_whole(
    first: datetime, next_day: datetime, hours: int, chunks: int
) -> None:
    bounds = window(Interval(first, next_day))
    lengths = [(datetime.fromisoformat(b) - datetime.fromisoformat(a)).total_seconds() / 3600 for a, b in bounds]
    assert (len(bounds), sum(lengths)) == (chunks, hours)
    assert datetime.fromisoformat(bounds[0][0]) == first
    assert datetime.fromisoformat(bounds[-1][1]) == next_day


def test_an_hour_that_comes_twice_is_two_intervals() -> None:
    first, second = berlin(2024, 10, 27, 2, 30), berlin(2024, 10, 27, 2, 15, fold=1)
    assert window(Interval(first, second), step="1h") == [("2024-10-27T00:30:00+00:00", "2024-10-27T01:15:00+00:00")]


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        (berlin(2024, 3, 31), berlin(2024, 4, 1), [("2024-03-31", "2024-04-01")]),
        (berlin(2024, 1, 31), berlin(2024, 2, 1), [("2024-01-31", "2024-02-01")]),
        (berlin(2024, 2, 1), berlin(2024, 3, 1), [("2024-02-01", "2024-03-01")]),
        # Midnight was left out there that day, so that it began at one o'clock.
        (
            datetime(2018, 11, 4, 1, tzinfo=ZoneInfo("America/Sao_Paulo")),
            datetime(2018, 11, 5, tzinfo=ZoneInfo("America/Sao_Paulo")),
            [("2018-11-04", "2018-11-05")],
        ),
    ],
)
def test_a_window_of_whole_days_ends_with_the_day_before_the_next_interval(
    start: datetime, end: datetime, days: list[tuple[str, str]]
) -> None:
    assert window(Interval(start, end), kind="date", step="1mo") == days


def test_adjacent_intervals_of_whole_days_share_no_day() -> None:
    months = [berlin(2024, month, 1) for month in range(1, 7)]
    seen = [window(Interval(a, b), kind="date", step="1mo") for a, b in pairwise(months)]
    assert [bounds[0][0] for bounds in seen[1:]] == [bounds[-1][1] for bounds in seen[:-1]]


def test_half_a_day_is_no_window_of_whole_days() -> None:
    with pytest.raises(IntervalInvalid) as refused:
        window(Interval(berlin(2024, 1, 1, 6), berlin(2024, 1, 1, 12)), kind="date")
    assert [f.path.split()[0] for f in refused.value.findings] == ["--interval-start", "--interval-end"]
    with pytest.raises(IntervalInvalid, match=r"2024-01-01T12:00:00\+01:00 is in the middle") as refused:
        window(Interval(berlin(2024, 1, 1), berlin(2024, 1, 1, 12)), kind="date")
    assert len(refused.value.findings) == 1


def test_a_swap_refuses_tokens_whatever_the_interval_and_others_ask_for_it() -> None:
    chunk = {"column": "id", "from": START, "to": END, "step": "1d"}
    options = RunOptions(interval=Interval(berlin(2024, 1, 1), berlin(2024, 1, 2)))
    with pytest.raises(ManifestInvalid) as refused:
        parse_any(changed(BACKFILL__chunk=chunk), options)
    assert {f.advice for f in refused.value.findings} == {
        "write the value itself: shadow_swap loads one fixed range once"
    }
    direct = changed(BACKFILL__chunk=chunk, BACKFILL__publication={"mode": "direct"})
    for given, unresolved in ((options, False), (RunOptions(), True)):
        try:
            parse_any(direct, given)
            said = ""
        except ManifestInvalid as error:
            said = str(error)
        assert ("has no value in this run" in said) is unresolved


def test_each_interval_is_a_campaign_unless_its_id_says_otherwise() -> None:
    chunk = {"column": "id", "from": START, "to": END, "step": "1d"}

    def key(day: int, run: str, **more: str) -> str:
        manifest = changed(
            BACKFILL__chunk=chunk, BACKFILL__publication={"mode": "direct"}, BACKFILL__inner_mode="replace", **more
        )
        manifest["source"].pop("options")
        interval = Interval(berlin(2024, 1, day), berlin(2024, 1, day + 1), dag_run_id=run)
        spec = parse_any(manifest, RunOptions(interval=interval)).to_spec()
        assert isinstance(spec, CampaignSpec)
        return spec.run_key

    assert key(1, "a") == key(1, "b") != key(2, "a")
    by_run = {"BACKFILL__backfill_id": "x_{{ dag_run_id }}"}
    again = "scheduled__2024-01-01T00:00:00+00:00"
    assert key(1, again, **by_run) == key(1, again, **by_run) != key(1, "manual__1", **by_run)
