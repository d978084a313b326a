"""The plan: every kind's ranges cover exactly what was asked for, once, and any one is found without the others."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_dagster.campaign.errors import ManifestInvalid, TooManyChunks
from dpone_dagster.campaign.plan import Chunk, ChunkKind, ChunkSpec, Plan, infer_kind
from dpone_dagster.campaign.ranges import INT8_MAX, INT8_MIN

MANY = 3_000  # chunks that a property test looks at one by one


def number_of(kind: ChunkKind, text: str) -> int:
    """The bound as a number on the kind's own line, found without the code under test."""
    if kind == "integer":
        return int(text)
    if kind == "uuid":
        return UUID(text).int
    if kind == "date":
        return date.max.toordinal() + 1 if text == "10000-01-01" else date.fromisoformat(text).toordinal()
    assert text.endswith("+00:00")
    return (datetime.fromisoformat(text) - datetime.min.replace(tzinfo=UTC)) // timedelta(microseconds=1)


def half_open(chunk: Chunk) -> tuple[int, int]:
    upper = number_of(chunk.kind, chunk.upper)
    return number_of(chunk.kind, chunk.lower), upper + 1 if chunk.upper_inclusive else upper


def assert_partition_of(spec: ChunkSpec, start: int, stop: int) -> None:
    """Adjacent, gapless, non-overlapping, covering [start, stop), stable, and the same by index as by iteration."""
    plan = Plan(spec)
    chunks = list(itertools.islice(plan, MANY))
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert len(chunks) == min(plan.count, MANY)
    assert chunks == [Plan(spec).chunk(index) for index in range(len(chunks))]
    ranges = [half_open(chunk) for chunk in chunks]
    assert ranges[0][0] == start
    assert all(lower < upper for lower, upper in ranges)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
    assert half_open(plan.chunk(plan.count - 1))[1] == stop
    with pytest.raises(IndexError):
        plan.chunk(plan.count)
    with pytest.raises(IndexError):
        plan.chunk(-1)


unhurried = settings(max_examples=80, deadline=None)
int8 = st.integers(INT8_MIN, INT8_MAX)
units = st.sampled_from(["d", "w", "mo", "y"])


@unhurried
@given(first=int8, last=int8, step=st.integers(1, INT8_MAX))
def test_integer_ranges(first: int, last: int, step: int) -> None:
    first, last = min(first, last), max(first, last)
    assert_partition_of(ChunkSpec("integer", "id", str(first), str(last), str(step)), first, last + 1)


@unhurried
@given(first=int8, length=st.integers(0, 2_500), step=st.integers(1, 50))
def test_dense_integer_ranges(first: int, length: int, step: int) -> None:
    last = min(first + length, INT8_MAX)
    assert_partition_of(ChunkSpec("integer", "id", str(first), str(last), str(step)), first, last + 1)


@given(buckets=st.integers(1, 1_000_000))
@unhurried
def test_uuid_ranges(buckets: int) -> None:
    assert_partition_of(ChunkSpec("uuid", "id", buckets=buckets), 0, 2**128)


@given(first=st.dates(), last=st.dates(), step=st.integers(1, 400), unit=units)
@unhurried
def test_date_ranges(first: date, last: date, step: int, unit: str) -> None:
    first, last = min(first, last), max(first, last)
    spec = ChunkSpec("date", "day", str(first), str(last), f"{step}{unit}")
    assert_partition_of(spec, first.toordinal(), last.toordinal() + 1)


offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
earliest, latest = (datetime.fromisoformat(text) for text in ("0001-01-03", "9999-12-29"))
moments = st.datetimes(earliest, latest, timezones=st.one_of(st.just(UTC), offsets))


@given(start=moments, end=moments, step=st.integers(1, 9_999), unit=st.one_of(units, st.just("h")))
@unhurried
def test_timestamp_ranges(start: datetime, end: datetime, step: int, unit: str) -> None:
    start, end = min(start, end), max(start, end)
    end = end if end > start else end + timedelta(microseconds=1)
    spec = ChunkSpec("timestamp", "at", start.isoformat(), end.isoformat(), f"{step}{unit}")
    origin = datetime.min.replace(tzinfo=UTC)
    micros = [(moment - origin) // timedelta(microseconds=1) for moment in (start, end)]
    assert_partition_of(spec, *micros)


def windows(spec: ChunkSpec) -> list[tuple[str, str]]:
    return [(chunk.lower, chunk.upper) for chunk in Plan(spec)]


def test_month_steps_count_from_the_start_so_that_the_31st_does_not_drift() -> None:
    assert windows(ChunkSpec("date", "d", "2024-01-31", "2024-05-30", "1mo")) == [
        ("2024-01-31", "2024-02-29"),
        ("2024-02-29", "2024-03-31"),
        ("2024-03-31", "2024-04-30"),
        ("2024-04-30", "2024-05-31"),
    ]


def test_year_steps_from_a_leap_day() -> None:
    assert windows(ChunkSpec("date", "d", "2020-02-29", "2024-02-29", "1y")) == [
        ("2020-02-29", "2021-02-28"),
        ("2021-02-28", "2022-02-28"),
        ("2022-02-28", "2023-02-28"),
        ("2023-02-28", "2024-02-29"),
        ("2024-02-29", "2024-03-01"),
    ]


def test_a_date_window_includes_its_last_day_and_a_timestamp_window_excludes_its_end() -> None:
    assert windows(ChunkSpec("date", "d", "2024-12-31", "2024-12-31", "1d")) == [("2024-12-31", "2025-01-01")]
    assert windows(ChunkSpec("timestamp", "t", "2024-12-31", "2025-01-01", "1d")) == [
        ("2024-12-31T00:00:00+00:00", "2025-01-01T00:00:00+00:00")
    ]


def test_the_last_day_of_the_calendar_has_an_end() -> None:
    assert windows(ChunkSpec("date", "d", "9999-12-30", "9999-12-31", "1d"))[-1] == ("9999-12-31", "10000-01-01")


def test_offsets_are_kept_exactly_and_months_are_counted_in_them() -> None:
    spec = ChunkSpec("timestamp", "t", "2024-03-01T00:00:00+02:00", "2024-05-01T00:00:00+02:00", "1mo")
    assert windows(spec) == [
        ("2024-02-29T22:00:00+00:00", "2024-03-31T22:00:00+00:00"),
        ("2024-03-31T22:00:00+00:00", "2024-04-30T22:00:00+00:00"),
    ]


def test_hours_are_instants_so_that_a_change_of_clocks_is_no_event() -> None:
    spec = ChunkSpec("timestamp", "t", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00", "1h")
    assert Plan(spec).count == 23


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2024-01-01", "2024-01-01T00:00:00+00:00"),
        ("2024-01-01 06:30", "2024-01-01T06:30:00+00:00"),
        ("2024-01-01T06:30:00Z", "2024-01-01T06:30:00+00:00"),
        ("2024-01-01T06:30:00.000001-05:30", "2024-01-01T12:00:00.000001+00:00"),
    ],
)
def test_a_timestamp_says_its_zone(text: str, utc: str) -> None:
    assert Plan(ChunkSpec("timestamp", "t", text, "2030-01-01", "1y")).chunk(0).lower == utc


def test_the_whole_int8_range_is_exact_and_counted_without_enumerating() -> None:
    plan = Plan(ChunkSpec("integer", "id", str(INT8_MIN), str(INT8_MAX), "1"))
    assert plan.count == 2**64
    assert plan.chunk(2**64 - 1).upper == "9223372036854775807"


def test_every_integer_chunk_and_only_the_last_uuid_chunk_includes_its_upper_bound() -> None:
    assert [c.upper_inclusive for c in Plan(ChunkSpec("integer", "id", "1", "30", "10"))] == [True] * 3
    uuids = list(Plan(ChunkSpec("uuid", "id", buckets=3)))
    assert [c.upper_inclusive for c in uuids] == [False, False, True]
    assert uuids[-1].upper == "ffffffff-ffff-ffff-ffff-ffffffffffff"


@pytest.mark.parametrize(
    ("lower", "buckets", "kind"),
    [
        ("2024-01-01", None, "date"),
        ("2024-01-01T00:00:00Z", None, "timestamp"),
        ("-5", None, "integer"),
        (None, 8, "uuid"),
        (None, None, None),
        ("yesterday", None, None),
    ],
)
def test_kind_is_inferred_from_the_lower_bound(lower: str | None, buckets: int | None, kind: str | None) -> None:
    assert infer_kind(lower, buckets) == kind


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"kind": "date", "lower": "2024-02-30", "upper": "2024-03-01", "step": "1d"}, "from"),
        ({"kind": "date", "lower": "2024-02-01", "upper": "2024-03-01T00:00:00", "step": "1d"}, "to"),
        ({"kind": "date", "lower": "2024-02-02", "upper": "2024-02-01", "step": "1d"}, "to"),
        ({"kind": "date", "lower": "2024-02-01", "upper": "2024-03-01", "step": "6h"}, "step"),
        ({"kind": "date", "lower": "2024-02-01", "upper": "2024-03-01", "step": "0d"}, "step"),
        ({"kind": "date", "lower": "2024-02-01", "upper": "2024-03-01"}, "step"),
        ({"kind": "timestamp", "lower": "2024-02-01", "upper": "2024-02-01", "step": "1h"}, "to"),
        ({"kind": "timestamp", "lower": "2024-02-01T00:00:00.1234567", "upper": "2024-03-01", "step": "1h"}, "from"),
        ({"kind": "timestamp", "lower": "0001-01-01T00:00:00+02:00", "upper": "2024-03-01", "step": "1h"}, "from"),
        ({"kind": "integer", "lower": "1", "upper": str(INT8_MAX + 1), "step": "5"}, "to"),
        ({"kind": "integer", "lower": "1.5", "upper": "7", "step": "5"}, "from"),
        ({"kind": "integer", "lower": "1", "upper": "7", "step": "1d"}, "step"),
        ({"kind": "integer", "lower": "1", "upper": "7", "step": "1", "buckets": 3}, "buckets"),
        ({"kind": "uuid", "buckets": 0}, "buckets"),
        ({"kind": "uuid"}, "buckets"),
        ({"kind": "uuid", "buckets": 4, "step": "1"}, "step"),
    ],
)
def test_a_window_that_cannot_be_planned_is_refused_with_path_and_advice(spec: dict[str, object], path: str) -> None:
    with pytest.raises(ManifestInvalid) as caught:
        ChunkSpec(column="c", **spec)  # type: ignore[arg-type]
    (finding,) = caught.value.findings
    assert finding.path == f"sink.strategy.backfill.chunk.{path}"
    assert finding.problem
    assert finding.advice


def test_every_spelling_of_the_same_chunks_has_one_identity() -> None:
    week = ChunkSpec("date", "d", "2024-01-01", "2024-12-31", "1w")
    assert week.as_dict() == ChunkSpec("date", "d", "2024-01-01", "2024-12-31", "7d", immutable=True).as_dict()
    utc = ChunkSpec("timestamp", "t", "2024-01-01", "2025-01-01", "24h")
    assert utc.as_dict() == ChunkSpec("timestamp", "t", "2024-01-01T02:00+02:00", "2025-01-01", "1d").as_dict()
    assert week.as_dict() != ChunkSpec("date", "d", "2024-01-01", "2024-12-31", "8d").as_dict()


def test_a_chunk_is_bound_to_its_range() -> None:
    chunks = list(Plan(ChunkSpec("uuid", "id", buckets=64)))
    assert len({chunk.binding for chunk in chunks}) == 64
    assert chunks[3].binding == Chunk(9, "uuid", chunks[3].lower, chunks[3].upper, False).binding


def test_too_many_chunks_are_refused_by_count_alone() -> None:
    plan = Plan(ChunkSpec("integer", "id", str(INT8_MIN), str(INT8_MAX), "1"))
    with pytest.raises(TooManyChunks) as caught:
        plan.require_at_most(10_000)
    assert "backfill would produce 18446744073709551616 chunks, above max_chunks 10000" in str(caught.value)
    assert caught.value.findings[0].path == "sink.strategy.backfill.chunk.step"
    assert caught.value.advice.startswith("Increase `chunk.step`")
    Plan(ChunkSpec("integer", "id", "1", "10000", "1")).require_at_most(10_000)
    with pytest.raises(TooManyChunks) as of_uuids:
        Plan(ChunkSpec("uuid", "id", buckets=11)).require_at_most(10)
    assert of_uuids.value.advice == "Lower `chunk.buckets` or increase `max_chunks`."


def test_a_million_chunks_plan_in_ten_seconds_and_150_megabytes() -> None:
    program = textwrap.dedent(
        r"""
        import pathlib, re, resource
        from dpone_dagster.campaign.plan import ChunkSpec, Plan
        plan = Plan(ChunkSpec("uuid", "id", buckets=1_000_000))
        assert sum(1 for chunk in plan) == 1_000_000
        usage = resource.getrusage(resource.RUSAGE_SELF)
        # ru_maxrss would count the parent's memory from before exec.
        peak = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text())
        print(usage.ru_utime + usage.ru_stime, int(peak[1]) * 1024)
        """
    )
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    seconds, memory = (float(word) for word in answer.stdout.split())
    assert seconds < 10
    assert memory < 150_000_000
