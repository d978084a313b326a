"""Partition keys: every chunk in exactly one, sortable, and new for a new campaign."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpone_dagster.campaign.errors import PlanDrift
from dpone_dagster.campaign.partitions import Partitions

RUN_KEY = "3fa2" + "0" * 60


@settings(deadline=None)
@given(chunks=st.integers(1, 5_000), limit=st.integers(1, 2_500))
def test_every_chunk_is_in_exactly_one_partition(chunks: int, limit: int) -> None:
    partitions = Partitions(chunks, RUN_KEY, limit)
    keys = partitions.keys()
    assert len(keys) == len(partitions) <= limit
    assert keys == sorted(set(keys))
    edges = [partitions.chunks_of(key) for key in keys]
    assert edges[0][0] == 0
    assert edges[-1][1] == chunks
    assert all(before[1] == after[0] for before, after in itertools.pairwise(edges))
    assert all(
        partitions.key_of(start) == partitions.key_of(stop - 1) == key
        for key, (start, stop) in zip(keys, edges, strict=True)
    )
    assert partitions.selection(keys) == ((0, chunks),)


def test_a_key_is_plain_and_ends_in_the_run_key() -> None:
    assert Partitions(32, RUN_KEY, 2_000).key_of(7) == "c0007-3fa2"
    grouped = Partitions(100, RUN_KEY, 30)
    assert grouped.grouped
    assert grouped.key_of(99) == "g0024-3fa2"
    assert grouped.chunks_of("g0003-3fa2") == (12, 16)
    assert all(re.fullmatch(r"[cg]\d{4,}-[0-9a-f]{4}", key) for key in map(grouped.key_of, range(100)))


def test_more_than_ten_thousand_keys_still_sort() -> None:
    keys = Partitions(10_001, RUN_KEY, 20_000).keys()
    assert keys == sorted(keys)
    assert keys[-1] == "c10000-3fa2"


def test_a_selection_is_sorted_disjoint_and_merged() -> None:
    partitions = Partitions(32, RUN_KEY, 2_000)
    keys = ["c0005-3fa2", "c0001-3fa2", "c0004-3fa2", "c0005-3fa2", "c0031-3fa2"]
    assert partitions.selection(keys) == ((1, 2), (4, 6), (31, 32))
    assert partitions.selection([]) == ()


@pytest.mark.parametrize(
    "key", ["c0032-3fa2", "c0001-aaaa", "g0001-3fa2", "c1-3fa2", "c\u0661\u0661\u0661\u0661-3fa2", "", "c-001-3fa2"]
)
def test_a_key_of_another_plan_is_refused_by_name(key: str) -> None:
    partitions = Partitions(32, RUN_KEY, 2_000)
    with pytest.raises(PlanDrift) as caught:
        partitions.selection(["c0001-3fa2", key])
    assert [finding.path for finding in caught.value.findings] == [key]
    assert "Reload the code location" in caught.value.advice
    with pytest.raises(PlanDrift):
        partitions.chunks_of(key)


@pytest.mark.parametrize("index", [-1, 32])
def test_a_chunk_outside_the_plan_has_no_key(index: int) -> None:
    with pytest.raises(IndexError):
        Partitions(32, RUN_KEY, 2_000).key_of(index)
