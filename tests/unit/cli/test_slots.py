"""What an instance's `dagster.yaml` means for lanes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_dagster.cli.slots import slot_warnings

ROOT = Path(__file__).parents[3]
GOOD = "run_monitoring: {enabled: true, free_slots_after_run_end_seconds: 60}\n"


@pytest.mark.parametrize("shipped", ["dpone_dagster", "deploy"])
def test_the_settings_that_are_shipped_keep_no_slot(shipped: str) -> None:
    assert list(slot_warnings(ROOT / shipped, lanes=8)) == []


def test_a_home_that_is_not_there_gets_settings_and_one_without_has_none(tmp_path: Path) -> None:
    assert list(slot_warnings(tmp_path / "later", lanes=2)) == []
    (warning,) = slot_warnings(tmp_path, lanes=2)
    assert "no dagster.yaml" in warning.problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["run_monitoring.enabled"]),
        ("run_monitoring: {enabled: false, free_slots_after_run_end_seconds: 60}", ["run_monitoring.enabled"]),
        ("run_monitoring: {enabled: true}", ["free_slots_after_run_end_seconds"]),
        ("run_monitoring: {enabled: true, free_slots_after_run_end_seconds: 0}", ["free_slots_after_run_end_seconds"]),
        (GOOD, []),
        (GOOD + "concurrency: {pools: {granularity: run}}", ["counts runs and not lanes"]),
        (GOOD + "concurrency: {pools: {granularity: op, default_limit: 3}}", ["is 3, and the manifest has 4 lanes"]),
        (GOOD + "concurrency: {pools: {default_limit: 4}}", []),
        (GOOD + "concurrency: {pools: {default_limit: {env: LIMIT}}}", []),
        ("- a list", ["run_monitoring.enabled"]),
        ("run_monitoring: [", ["cannot be read as YAML"]),
        ("run_monitoring: {enabled: false}\nconcurrency: {pools: {default_limit: 1}}", ["enabled", "is 1"]),
    ],
)
def test_each_setting_that_makes_lanes_wait_is_named(tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "dagster.yaml").write_text(text)
    found = list(slot_warnings(tmp_path, lanes=4))
    assert len(found) == len(words), found
    for warning, word in zip(found, words, strict=True):
        assert word in warning.problem
        assert warning.path.startswith(str(tmp_path))
        assert warning.advice
