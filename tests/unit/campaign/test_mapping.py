"""Mapped modes: what a manifest must say, how many runs a plan becomes, and what a run of one may load."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_dagster.campaign.errors import ManifestInvalid, PlanDrift
from dpone_dagster.campaign.manifest import Manifest, parse_manifest
from dpone_dagster.campaign.mapping import MappingPolicy, the_range
from dpone_dagster.campaign.selection import ChunkSelection
from tests.unit.campaign.test_manifest import changed

BACKFILL = "sink.strategy.backfill"
SUMMARY = {"mode": "summary", "max_items": 40, "max_active": 8, "pool": "dpone_backfill"}
VISIBLE = {"mode": "visible", "max_active": 8, "pool": "dpone_backfill"}


def mapped(mapping: dict[str, Any], *, chunks: int = 20, **changes: Any) -> Manifest:
    """A manifest with this mapping and so many chunks."""
    return parse_manifest(changed(dagster__mapping=mapping, BACKFILL__chunk__buckets=chunks, **changes))


def refused(mapping: dict[str, Any], *, chunks: int = 20, **changes: Any) -> dict[str, str]:
    """What a manifest with this mapping is refused for: problems and advice by path."""
    with pytest.raises(ManifestInvalid) as caught:
        mapped(mapping, chunks=chunks, **changes)
    assert caught.value.exit_code == 2
    return {finding.path: f"{finding.problem}: {finding.advice}" for finding in caught.value.findings}


def without(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


def test_a_manifest_may_say_how_a_backfill_becomes_runs() -> None:
    spec = mapped(SUMMARY).to_spec()
    assert spec.mapping == MappingPolicy("summary", 40, 8, "dpone_backfill")
    assert spec.lanes == 8  # of the campaign's own job, and what an executor must have room for
    assert mapped(VISIBLE, chunks=200).to_spec().mapping.partitions_per_run(200) == 1
    assert mapped(VISIBLE, BACKFILL__parallel_workers=1).to_spec().lanes == 8
    assert not parse_manifest(changed()).to_spec().mapping.mapped


def test_what_mapped_modes_need_is_asked_for_at_once() -> None:
    assert set(refused({"mode": "summary"}, BACKFILL__parallel_workers=4)) == {
        *("dagster.mapping.max_items", "dagster.mapping.max_active", "dagster.mapping.pool"),
        f"{BACKFILL}.parallel_workers",
    }
    assert set(refused({"mode": "visible"})) == {"dagster.mapping.max_active", "dagster.mapping.pool"}


@pytest.mark.parametrize(
    ("mapping", "changes", "path", "said"),
    [
        ({**SUMMARY, "max_items": 0}, {}, "dagster.mapping.max_items", "from 1 to 200"),
        ({**SUMMARY, "max_items": 201}, {}, "dagster.mapping.max_items", "from 1 to 200"),
        ({**SUMMARY, "max_active": 0}, {}, "dagster.mapping.max_active", "from 1 to 64"),
        ({**SUMMARY, "max_active": 65, "max_items": 70}, {}, "dagster.mapping.max_active", "from 1 to 64"),
        ({**SUMMARY, "max_items": 7}, {}, "dagster.mapping.max_active", "8 is above max_items 7"),
        ({**SUMMARY, "pool": ""}, {}, "dagster.mapping.pool", "such as dpone_backfill"),
        ({**SUMMARY, "pool": "two words"}, {}, "dagster.mapping.pool", "without spaces"),
        (SUMMARY, {"BACKFILL__parallel_workers": 4}, f"{BACKFILL}.parallel_workers", "parallel_workers: 1"),
        (SUMMARY, {"dagster__lanes": 2}, "dagster.lanes", "above parallel_workers 1"),
        (
            SUMMARY,
            {"BACKFILL__state__require_distributed_lock": False},
            f"{BACKFILL}.state.require_distributed_lock",
            "require_distributed_lock: true",
        ),
        (VISIBLE, {"chunks": 201}, "dagster.mapping.mode", "this plan has 201 chunks: plan at most 200 chunks"),
        ({**VISIBLE, "max_items": 19}, {}, "dagster.mapping.mode", "plan at most 19 chunks"),
        (VISIBLE, {"dagster__max_partitions": 19}, "dagster.max_partitions", "several of 20 chunks"),
    ],
)
def test_a_limit_is_checked_in_the_manifest(
    mapping: dict[str, Any], changes: dict[str, Any], path: str, said: str
) -> None:
    findings = refused(mapping, **changes)
    assert list(findings) == [path]
    assert said in findings[path]


def test_a_limit_without_effect_is_said() -> None:
    (note,) = mapped({"mode": "internal", "max_items": 4}).notes
    assert note.path == "dagster.mapping.max_items"


@pytest.mark.parametrize("partitions", [1, 2, 39, 40, 41, 79, 80, 81, 1_999, 2_000])
def test_a_summary_is_never_more_runs_than_it_may_be(partitions: int) -> None:
    for most in (1, 3, 40, 200):
        policy = MappingPolicy("summary", most, 1, "pool")
        per_run = policy.partitions_per_run(partitions)
        assert per_run is not None
        assert policy.runs_of(partitions) <= most
        assert policy.runs_of(partitions) * per_run >= partitions
    assert MappingPolicy().partitions_per_run(partitions) is None
    assert MappingPolicy().runs_of(partitions) == 1


def test_a_mapped_run_loads_one_contiguous_range() -> None:
    assert the_range(ChunkSelection(((3, 7),))) == (3, 7)
    with pytest.raises(PlanDrift, match="not one contiguous range: 3 to 4, 6 to 8"):
        the_range(ChunkSelection(((3, 5), (6, 9))))
    with pytest.raises(PlanDrift, match="none"):
        the_range(ChunkSelection(()))


def test_the_plan_digest_knows_the_plan_and_nothing_else() -> None:
    spec = mapped(SUMMARY).to_spec()
    same = mapped({**SUMMARY, "max_items": 9, "max_active": 2}).to_spec()
    assert same.plan_digest == spec.plan_digest
    assert mapped(SUMMARY, chunks=21).to_spec().plan_digest != spec.plan_digest
    assert mapped(SUMMARY, sink__table__name="others").to_spec().plan_digest != spec.plan_digest
