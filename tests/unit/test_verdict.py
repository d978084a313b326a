"""A certification's verdict comes from its measurements alone, and none that is missing can be part of a PASS."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from certify.certification import exit_code_of
from certify.measure import most_at_once, times_of
from certify.measurements import CRASHES, Crash, Measurements, Publication, Seen, Server, State, Step, Times
from certify.orders import batches
from certify.parameters import Asked, CertifyRefused
from certify.report import Parameters, Report, report_schema
from certify.verdict import Result, Verdict, judge, verdict_of

ROWS, OLD = 4_200_000, 1_000
OLD_STATE, NEW_STATE = State(old_rows=OLD, new_rows=0), State(old_rows=0, new_rows=ROWS)
KILLED = [
    Step(command="dpone backfill run", killed_at=point, exit_code=-9, seconds=9.5, failure=None) for point in CRASHES
]
LAST = Step(command="dpone backfill resume", killed_at=None, exit_code=0, seconds=9.5, failure=None)
SICK = LAST.model_copy(update={"exit_code": 1, "failure": "chunk 3: DPONE_ERROR: no"})
TIMES = Times(chunks=511, fewest_rows=380, median_seconds=0.1, p95_seconds=0.2, max_seconds=30)
LARGE = Times(chunks=4, fewest_rows=1_000_400, median_seconds=28, p95_seconds=30, max_seconds=30)
SEEN = Seen(looks=900, states=(OLD_STATE, NEW_STATE), errors=(), longest_look_seconds=0.2, last_look_seconds=0.1)
COMPLETE = Measurements(
    source=Server(connection_ref="oltp", kind="postgres", version="PostgreSQL 18.6", genuine=True),
    target=Server(connection_ref="dwh", kind="mssql", version="Microsoft SQL Server 2022", genuine=True),
    chunks=512,
    committed_chunks=512,
    lanes=4,
    crashes=tuple(Crash(point=point, chunk=None, killed=True) for point in CRASHES),
    operator_steps=(*KILLED, LAST),
    source_rows=ROWS,
    target_rows=ROWS,
    target_keys=ROWS,
    source_digest="4200000:7",
    target_digest="4200000:7",
    receipts=512,
    chunks_with_receipt=512,
    receipt_rows=ROWS,
    foreign_receipts=0,
    publication=Publication(phase="handoff_committed", publications=1, handoff_closed=True),
    old_rows=OLD,
    backup_rows=OLD,
    reader=SEEN,
    chunk_times=TIMES,
    large_chunk_times=LARGE,
    rows_per_second=60_000.0,
)
FIELDS = sorted(Measurements.model_fields)


def but(**changes: Any) -> Measurements:
    return COMPLETE.model_copy(update=changes)


def verdict(measured: Measurements) -> Verdict:
    return verdict_of(judge(measured))


def without(*names: str) -> Measurements:
    return but(**{name: Measurements.model_fields[name].get_default() for name in names})


def results(measured: Measurements) -> dict[str, Result]:
    return {c.name: c.result for c in judge(measured) if c.result is not Result.HELD}


def test_everything_measured_and_held_is_a_pass() -> None:
    assert results(COMPLETE) == {}
    assert verdict(COMPLETE) is Verdict.PASS
    assert exit_code_of(Verdict.PASS) == 0
    assert {exit_code_of(other) for other in Verdict if other is not Verdict.PASS} == {1, 4, 5}


@pytest.mark.parametrize("name", FIELDS)
def test_whatever_is_missing_there_is_no_pass(name: str) -> None:
    assert getattr(without(name), name) in (None, ())
    assert verdict(without(name)) is Verdict.INCOMPLETE


@given(st.sets(st.sampled_from(FIELDS)), st.booleans())
def test_no_set_of_missing_measurements_is_a_pass(names: set[str], genuine: bool) -> None:
    target = COMPLETE.target.model_copy(update={"genuine": genuine})  # type: ignore[union-attr]
    measured = without(*names).model_copy(update={} if "target" in names else {"target": target})
    assert (verdict(measured) is Verdict.PASS) == (not names and genuine)


def test_nothing_at_all_is_incomplete() -> None:
    assert verdict(Measurements()) is Verdict.INCOMPLETE
    assert verdict_of(()) is Verdict.INCOMPLETE


@pytest.mark.parametrize("point", CRASHES)
def test_a_crash_that_did_not_happen_is_missing(point: str) -> None:
    left = tuple(crash for crash in COMPLETE.crashes if crash.point != point)
    for crashes in (left, (*left, Crash(point=point, chunk=3, killed=False))):
        assert results(but(crashes=crashes)) == {f"crash {CRASHES[point]}": Result.MISSING}


@pytest.mark.parametrize(
    ("changes", "name", "result"),
    [
        ({"chunks": 16, "committed_chunks": 16, "receipts": 16, "chunks_with_receipt": 16}, "chunks", Result.MISSING),
        ({"committed_chunks": 511}, "chunks", Result.FAILED),
        ({"lanes": 3}, "lanes", Result.MISSING),
        ({"operator_steps": tuple(KILLED)}, "recovery", Result.MISSING),
        ({"operator_steps": (*KILLED, SICK, LAST)}, "failures", Result.FAILED),
        ({"target_digest": "4200000:8"}, "content", Result.FAILED),
        ({"target_keys": ROWS - 1}, "keys", Result.FAILED),
        ({"receipt_rows": ROWS - 1}, "rows", Result.FAILED),
        ({"receipts": 513}, "receipts", Result.FAILED),
        ({"chunks_with_receipt": 511}, "receipts", Result.FAILED),
        ({"foreign_receipts": 1}, "receipts", Result.FAILED),
        ({"backup_rows": OLD - 1}, "backup", Result.FAILED),
        (
            {"publication": Publication(phase="published", publications=1, handoff_closed=False)},
            "publication",
            Result.FAILED,
        ),
        (
            {"publication": Publication(phase="handoff_committed", publications=2, handoff_closed=True)},
            "publication",
            Result.FAILED,
        ),
        ({"reader": SEEN.model_copy(update={"errors": ("no such table",)})}, "readers", Result.FAILED),
        (
            {"reader": SEEN.model_copy(update={"states": (OLD_STATE, State(old_rows=OLD, new_rows=9), NEW_STATE)})},
            "readers",
            Result.FAILED,
        ),
        ({"reader": SEEN.model_copy(update={"states": (State(old_rows=0, new_rows=9),)})}, "readers", Result.FAILED),
        ({"reader": SEEN.model_copy(update={"states": (NEW_STATE, OLD_STATE)})}, "readers", Result.FAILED),
        ({"reader": SEEN.model_copy(update={"states": (OLD_STATE,)})}, "readers", Result.MISSING),
        ({"reader": SEEN.model_copy(update={"states": ()})}, "readers", Result.MISSING),
        ({"reader": SEEN.model_copy(update={"looks": 99})}, "readers", Result.MISSING),
        ({"chunk_times": TIMES.model_copy(update={"chunks": 19})}, "chunk times", Result.MISSING),
        ({"large_chunk_times": LARGE.model_copy(update={"p95_seconds": 120.1})}, "large chunks", Result.FAILED),
        ({"large_chunk_times": LARGE.model_copy(update={"fewest_rows": 899_999})}, "large chunks", Result.MISSING),
        ({"large_chunk_times": LARGE.model_copy(update={"chunks": 3})}, "large chunks", Result.MISSING),
    ],
)
def test_each_criterion_sees_what_it_is_there_to_see(changes: dict[str, Any], name: str, result: Result) -> None:
    assert results(but(**changes)) == {name: result}
    assert verdict(but(**changes)) is (Verdict.FAIL if result is Result.FAILED else Verdict.INCOMPLETE)


@pytest.mark.parametrize("code", [1, 2, 3, 130])
def test_a_resume_that_is_refused_or_comes_to_no_end_is_no_recovery(code: int) -> None:
    refused = but(operator_steps=(*KILLED, LAST.model_copy(update={"exit_code": code})))
    assert results(refused) == {"recovery": Result.FAILED, "failures": Result.FAILED}


def test_a_run_that_fails_by_itself_need_not_be_the_products_fault_on_a_stand_in() -> None:
    stand_in = COMPLETE.target.model_copy(update={"genuine": False})  # type: ignore[union-attr]
    failed = but(target=stand_in, operator_steps=(*KILLED, SICK, LAST))
    assert results(failed) == {"target": Result.UNVERIFIED, "failures": Result.UNVERIFIED}
    assert verdict(but(target=stand_in, operator_steps=(*KILLED, SICK))) is Verdict.FAIL


def test_a_stand_in_is_unverified_whatever_else_is_missing_and_never_hides_a_failure() -> None:
    stand_in = COMPLETE.target.model_copy(update={"genuine": False})  # type: ignore[union-attr]
    assert verdict(but(target=stand_in)) is Verdict.UNVERIFIED
    assert verdict(but(target=stand_in, large_chunk_times=None)) is Verdict.UNVERIFIED
    assert verdict(but(target=stand_in, target_keys=1)) is Verdict.FAIL


def report(measured: Measurements, **changes: Any) -> Report:
    criteria = judge(measured)
    facts: dict[str, Any] = {
        "verdict": verdict_of(criteria),
        "criteria": criteria,
        "measurements": measured,
        "parameters": Parameters(rows=200_000, chunks=512, lanes=4, large_chunks=4),
        "problems": (),
        "limitations": (),
        "versions": {},
        "started_at": datetime.now(UTC),
        "seconds": 300.0,
    }
    return Report(**facts | changes)


def test_a_report_whose_verdict_does_not_follow_is_none() -> None:
    written = report(without("reader"))
    assert Report.model_validate_json(written.model_dump_json()) == written
    with pytest.raises(ValidationError, match="do not follow"):
        report(without("reader"), verdict=Verdict.PASS)
    with pytest.raises(ValidationError, match="do not follow"):
        report(without("reader"), verdict=Verdict.PASS, criteria=judge(COMPLETE))


def test_the_schema_wants_every_measurement_for_a_pass() -> None:
    schema = report_schema()
    passed = schema["then"]["properties"]["measurements"]
    measurements = schema["$defs"]["Measurements"]
    assert sorted(passed["properties"]) == sorted(measurements["required"]) == FIELDS
    assert measurements["additionalProperties"] is False
    assert sorted(schema["required"]) == sorted(Report.model_fields)


def test_p95_is_a_time_that_was_measured() -> None:
    assert times_of([]) is None
    times = times_of([(10, seconds / 10) for seconds in range(100, 0, -1)])
    assert times is not None
    assert (times.median_seconds, times.p95_seconds, times.max_seconds) == (5.05, 9.5, 10.0)
    assert times_of([(7, 3.0), (5, 1.0)]) == Times(
        chunks=2, fewest_rows=5, median_seconds=2.0, p95_seconds=3.0, max_seconds=3.0
    )


def test_lanes_count_where_they_are_at_work_at_once() -> None:
    def span(begin: int, end: int) -> tuple[datetime, datetime]:
        return datetime(2026, 3, 1, 0, begin, tzinfo=UTC), datetime(2026, 3, 1, 0, end, tzinfo=UTC)

    assert most_at_once([]) == 0
    assert most_at_once([span(0, 1), span(1, 2), span(2, 3), span(3, 4)]) == 1, "one after another is one lane's work"
    assert most_at_once([span(0, 9), span(1, 2), span(3, 5), span(4, 6)]) == 3


@given(st.integers(1, 65_536), st.integers(0, 8))
def test_large_chunks_get_their_rows_and_no_other_one(chunks: int, large: int) -> None:
    first, *more = batches(50, chunks, large)
    assert (first.rows, first.low, first.width) == (50, 0, 2**32)
    assert len(more) == large
    for batch in more:
        ends = {
            ((batch.low + offset) << 96 | tail) * chunks >> 128
            for offset in (0, batch.width - 1)
            for tail in (0, 2**96 - 1)
        }
        assert len(ends) == 1
    assert len({batch.salt for batch in more}) == min(large, chunks)


@pytest.mark.parametrize("wrong", ["ROWS=0", "CHUNKS=many", "LANES=65", "LARGE=-1", "LARGE=513"])
def test_numbers_that_cannot_be_used_are_refused(wrong: str) -> None:
    name, _, value = wrong.partition("=")
    with pytest.raises(CertifyRefused) as refused:
        Asked.from_environment({name: value})
    assert [finding.path for finding in refused.value.findings] == [name]
    assert refused.value.exit_code == 2


def test_without_a_word_it_is_a_whole_certification_on_private_servers() -> None:
    asked = Asked.from_environment({"ROWS": "", "SOURCE": ""})
    assert (asked.source, asked.target, asked.chunks, asked.lanes, asked.large_chunks) == (None, "postgres", 512, 4, 4)
    assert asked.keep is False
    assert Asked.from_environment({"LANES": "6", "KEEP": "1"}).large_chunks == 6
