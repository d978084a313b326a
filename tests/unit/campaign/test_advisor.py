"""The advisor: each piece of evidence says what the guide has it say, and nothing is applied."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dpone_dagster.campaign.advisor import Advice, Profile, advise
from dpone_dagster.campaign.errors import EvidenceInvalid
from dpone_dagster.campaign.evidence import Evidence, read_evidence
from dpone_dagster.campaign.manifest import parse_manifest
from dpone_dagster.campaign.spec import CampaignSpec
from tests.unit.campaign.test_manifest import changed

DAYS = {"column": "id", "kind": "date", "from": "2024-01-01", "to": "2024-12-31", "step": "1d"}
CHUNK, WORKERS = "sink.strategy.backfill.chunk", "sink.strategy.backfill.parallel_workers"


def spec(lanes: int = 2, **chunk: Any) -> CampaignSpec:
    block = chunk or DAYS
    return parse_manifest(changed(BACKFILL__chunk=block, BACKFILL__parallel_workers=lanes)).to_spec()


def told(*files: object, profile: Profile = "balanced", lanes: int = 2, **chunk: Any) -> Advice:
    seen = Evidence()
    for number, data in enumerate(files):
        seen = seen.and_(read_evidence(copy.deepcopy(data), f"{number}.json"))
    return advise(spec(lanes, **chunk), profile, seen)


def chunks(number: int, **facts: Any) -> dict[str, Any]:
    return {"chunks": [{"state": "committed", "rows": 1_000, "seconds": 1.0, "attempts": 1} | facts] * number}


@pytest.mark.parametrize(
    ("profile", "lanes", "word"),
    [
        ("balanced", 4, "increase_lanes"),
        ("worker_safety", 1, "decrease_lanes"),
        ("source_safety", 1, "decrease_lanes"),
        ("speed", 8, "increase_lanes"),
    ],
)
def test_a_profile_is_all_there_is_without_evidence(profile: Profile, lanes: int, word: str) -> None:
    advice = told(profile=profile)
    assert (advice.lanes, advice.recommendation, advice.step) == (lanes, word, None)
    assert advice.overrides == {WORKERS: lanes}
    assert advice.as_dict()["evidence_sources"] == []
    assert any("room" in warning for warning in advice.warnings) is (profile == "speed")
    assert told(chunks(1, state="failed"), profile="speed").warnings == (
        "1 chunks have failed: retry them with one lane, then look again",
    )
    assert told(lanes=4).recommendation == "keep"
    assert told(lanes=4).overrides == {}


def test_a_plan_of_few_chunks_needs_few_lanes() -> None:
    assert told(lanes=1, column="id", kind="uuid", buckets=2).lanes == 2


def test_empty_chunks_make_the_step_longer_up_to_a_bound() -> None:
    rest = chunks(5)["chunks"]
    half = told({"chunks": [*rest, *chunks(5, rows=0)["chunks"]]})
    assert (half.recommendation, half.step, half.overrides[f"{CHUNK}.step"]) == ("increase_step", "2d", "2d")
    assert told(chunks(100, rows=0)).step == "8d"
    assert told(chunks(9, rows=0)).step is None, "too few to tell"
    keys = told(chunks(100, rows=0), column="id", kind="uuid", buckets=512)
    assert (keys.recommendation, keys.step, keys.buckets) == ("decrease_buckets", None, 64)


def test_small_fast_and_stable_chunks_make_it_longer_too() -> None:
    assert told(chunks(10)).step == "8d"
    assert told(chunks(10, seconds=1.9)).step == "5d"
    assert told(chunks(10, seconds=2.0)).step is None
    assert told(chunks(10, attempts=2)).step is None, "not stable"
    ends = {"seconds": None, "started_at": "2024-01-01T00:00:00Z", "finished_at": "2024-01-01T00:00:01Z"}
    assert told(chunks(10, **ends)).step == "8d"


def test_failed_chunks_take_it_to_one_lane_and_no_longer_step() -> None:
    advice = told(chunks(50, rows=0), chunks(1, state="failed"), profile="speed", lanes=4)
    assert (advice.recommendation, advice.lanes, advice.step) == ("reduce_to_one_lane", 1, None)
    assert advice.overrides == {WORKERS: 1}


def test_lost_workers_are_looked_at_and_no_lease_is_extended() -> None:
    for lost in ({"state": "lease_expired"}, {"state": "failed", "error": "LEASE_EXPIRED: not heard of"}):
        advice = told(chunks(1, **lost), lanes=2)
        assert advice.lanes <= 2
        assert any("lease_ttl_minutes" in warning for warning in advice.warnings)
        assert advice.as_dict()["recommended_lease_ttl_minutes"] is None


def test_the_lowest_positive_rate_of_a_stage_counts() -> None:
    steps = [
        {"stage": "source_read", "rows_per_second": 900.0},
        {"stage": "sink_finalize", "rows_per_second": 5_000.0},
        {"stage": "sink_finalize", "rows": 1_000, "seconds": 2.0},
        {"stage": "sink_finalize", "rows_per_second": 0},
        {"stage": "sink_finalize", "rows_per_second": -1},
    ]
    for shape in (steps, {"load_steps": steps}):
        advice = told(shape)
        assert advice.evidence.stage_rates == {"source_read": 900.0, "sink_finalize": 500.0}
        assert (advice.recommendation, advice.lanes) == ("keep_lanes", 2)
    assert told(steps, profile="source_safety").recommendation == "decrease_lanes"
    assert told({"load_steps": steps[:2]}).recommendation == "increase_lanes"
    assert told(steps[:2], steps[2:]).evidence.stage_rates["sink_finalize"] == 500.0


@pytest.mark.parametrize(
    "report",
    [
        {"matrix_report": {"total_cases": 10, "failed_cases": 2}},
        {"certification_report": {"total_cases": 10, "passed_cases": 8}},
        {"total_cases": 10, "failed": 2},
        {"total_cases": 10, "status": "RED", "failed_cases": 2},
    ],
)
def test_a_red_report_blocks_all_tuning(report: object) -> None:
    advice = told(report, chunks(100, rows=0), profile="speed", lanes=4)
    assert (advice.recommendation, advice.risk) == ("resolve_vendor_certification_failures", "high")
    assert (advice.lanes, advice.step, advice.overrides) == (1, None, {WORKERS: 1})
    seen = advice.evidence
    assert (seen.failed_matrix_reports, seen.failed_matrix_cases, seen.failed_chunks) == (1, 2, 0)


@pytest.mark.parametrize("report", [{"total_cases": 99, "failed_cases": 0}, {"matrix_report": {"passed": True}}])
def test_a_green_report_is_no_chunk(report: object) -> None:
    advice = told(report)
    assert (advice.step, advice.evidence.empty_chunks, advice.evidence.failed_matrix_reports) == (None, 0, 0)
    assert advice.as_dict()["evidence_sources"] == ["matrix_report"]


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"total_cases": 3, "passed": "false"}, "passed"),
        ({"total_cases": 3, "failed_cases": ["a"]}, "failed_cases"),
        ({"total_cases": 3, "failed_cases": -1}, "failed_cases"),
        ({"total_cases": 3, "failed_cases": 4}, ""),
        ({"total_cases": 3}, ""),
        ({"matrix_report": {}}, ""),
        ({"matrix_report": {"status": "unwell"}}, "status"),
        ([{"stage": "source_read", "rows_per_second": float("nan")}], "0.rows_per_second"),
        ([{"stage": "source_read", "rows_per_second": float("inf")}], "0.rows_per_second"),
        ([{"stage": "source_read", "rows": "ten", "seconds": 1}], "0.rows"),
        (chunks(1, rows=10**400), "0.rows"),
        (chunks(1, seconds=-1), "0.seconds"),
        (chunks(1, seconds=None, started_at="yesterday"), "0.started_at"),
        (chunks(1, state=7), "0.state"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_its_place(data: object, place: str) -> None:
    with pytest.raises(EvidenceInvalid) as refused:
        read_evidence(data, "evidence.json")
    path = refused.value.findings[0].path
    assert path == (f"evidence.json: {place}" if place else "evidence.json") or path.startswith(
        f"evidence.json: {place}."
    )


@pytest.mark.parametrize("data", [{}, {"chunks": 7}, {"load_steps": [1]}, "x", [[]], {"matrix_report": []}])
def test_what_has_no_known_shape_is_refused_by_name(data: object) -> None:
    with pytest.raises(EvidenceInvalid) as refused:
        read_evidence(data, "evidence.json")
    assert all(finding.path.startswith("evidence.json") for finding in refused.value.findings)
    assert all(finding.advice.startswith("give ") for finding in refused.value.findings)
