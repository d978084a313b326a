"""What a bench runs, what its numbers come to, and what its page says; nothing here measures anything."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import figures, results
from benchmarks.bench import Asked, turns
from benchmarks.campaigns import phases_of
from benchmarks.cases import COMMANDS_CASE, Case, Entry, chosen_entries, default_entries, grid_entries, short
from benchmarks.goals import Goal, judged
from benchmarks.manifests import manifest
from benchmarks.others import condition
from benchmarks.page import render
from benchmarks.results import Results, Run, Session
from benchmarks.tables import columns_of
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.settings import load_spec

COMMIT = "abc1234"
CASE = "pg-narrow-int-5m-16c-2l"
SMALL = "pg-narrow-int-1m-16c-2l"
SESSION = Session("2026-11-30 04:00:00Z", COMMIT, "2 cores", {"python": "3.11"}, {"PostgreSQL": {"fsync": "on"}}, 0.1)


def run(contender: str, repeat: int, seconds: float, load: float, case: str = CASE, **more: float) -> Run:
    measures = {"seconds": seconds, "load_seconds": load, "rows": 5_000_000.0, "source_bytes": 4e8, **more}
    return Run(SESSION.session, COMMIT, case, contender, repeat, measures)


def of(*runs: Run) -> Results:
    return Results([SESSION], runs)


def spec_of(case: str, contender: str, folder: Path) -> CampaignSpec:
    file = folder / "manifest.yaml"
    file.write_text(json.dumps(manifest(Case.parse(case), contender)))
    return load_spec(file)


# ---------------------------------------------------------------- cases


def test_every_case_has_a_name_that_is_read_back() -> None:
    names = [entry.name for entry in (*default_entries(), *grid_entries())]
    assert len(default_entries()) == len({entry.name for entry in default_entries()})
    assert all(Case.parse(name).name == name for name in names if name != COMMANDS_CASE)


@pytest.mark.parametrize(("rows", "name"), [(5_000_000, "5m"), (50_000, "50k"), (300, "300"), (1_500_000, "1500k")])
def test_rows_are_short_in_names(rows: int, name: str) -> None:
    assert short(rows) == name
    assert Case.parse(f"pg-narrow-int-{name}-1c-1l").rows == rows


@pytest.mark.parametrize(
    "name", ["", "pg", "pg-narrow-int-1m-16c", "oracle-narrow-int-1m-16c-2l", "pg-narrow-int-1g-1c-1l"]
)
def test_what_is_no_case_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a case's name"):
        Case.parse(name)


def test_a_pattern_chooses_from_the_list_and_with_a_prefix_from_the_grid() -> None:
    assert chosen_entries("pg-*, mssql-*", "") == chosen_entries("", "")
    found = chosen_entries("grid:pg-narrow-int-1m-*-2l, pg-narrow-int-1m-16c-2l", "wire,o*")
    assert [entry.name for entry in found] == [f"pg-narrow-int-1m-{n}c-2l" for n in (16, 128, 1024)]
    assert {entry.contenders for entry in found} == {("wire", "ours")}


def test_a_pattern_keeps_to_the_contenders_of_the_list() -> None:
    found = {entry.name: entry.contenders for entry in chosen_entries("pg-*-1m-16c-*", "ours,merge")}
    assert found[SMALL] == ("ours", "merge")
    assert found["pg-narrow-int-1m-16c-1l"] == ("ours",)
    (whole,) = chosen_entries("pg-narrow-int-1m-16c-1l", "ours,merge")
    assert whole.contenders == ("ours", "merge")
    assert [entry.name for entry in chosen_entries(COMMANDS_CASE, "")] == [COMMANDS_CASE]


def test_a_name_of_its_own_runs_with_everybody_and_no_other_word_does() -> None:
    (own,) = chosen_entries("mssql-narrow-int-50k-16c-2l", "")
    assert own.contenders == ("wire", "ours", "merge")
    with pytest.raises(ValueError, match="not a case's name"):
        chosen_entries("pg-nothing-*", "")


def test_a_contender_that_nobody_is_is_refused() -> None:
    with pytest.raises(ValueError, match="no contender of these cases is `us`; they are wire, ours, merge"):
        chosen_entries("mssql-narrow-int-1m-16c-2l", "ours,us")


def test_contenders_run_in_turn_within_a_repeat_and_nothing_runs_twice() -> None:
    asked = Asked(tuple(chosen_entries(f"{SMALL},{CASE}", "wire,ours")), repeats=2, budget_seconds=1)
    done = of(run("wire", 1, 1, 1, SMALL), run("ours", 2, 1, 1))
    left = [(turn.repeat, turn.entry.name, turn.contender) for turn in turns(asked, done, COMMIT)]
    assert left == [
        (1, SMALL, "ours"),
        (1, CASE, "wire"),
        (1, CASE, "ours"),
        (2, SMALL, "wire"),
        (2, SMALL, "ours"),
        (2, CASE, "wire"),
    ]
    assert len(turns(asked, done, "another")) == 8


# ---------------------------------------------------------------- what is loaded


@pytest.mark.parametrize("contender", ["ours", "merge"])
@pytest.mark.parametrize("entry", [e for e in default_entries() if e.case], ids=lambda e: e.name)
def test_manifests_are_valid_and_have_the_chunks_and_lanes_of_their_case(
    entry: Entry, contender: str, tmp_path: Path
) -> None:
    case = entry.case
    assert case is not None
    spec = spec_of(case.name, contender, tmp_path)
    assert (spec.plan.count, spec.lanes, spec.direct) == (case.chunks, case.lanes, contender == "merge")


def test_the_wire_reads_the_ranges_of_the_campaign(tmp_path: Path) -> None:
    plan = spec_of("pg-narrow-int-1m-16c-2l", "ours", tmp_path).plan
    assert condition(plan.chunk(0)) == "id >= '1'::bigint AND id <= '62500'::bigint"
    assert condition(plan.chunk(15)) == "id >= '937501'::bigint AND id <= '1000000'::bigint"
    uuids = spec_of("pg-narrow-uuid-1m-16c-2l", "ours", tmp_path).plan
    assert condition(uuids.chunk(0)).endswith("AND id < '10000000-0000-0000-0000-000000000000'::uuid")


def test_all_rows_of_a_sparse_table_are_in_its_first_chunk(tmp_path: Path) -> None:
    plan = spec_of("pg-sparse-int-1k-400c-1l", "ours", tmp_path).plan
    assert (plan.count, plan.chunk(0).lower, plan.chunk(0).upper) == (400, "1", "1000")


def test_shapes_have_the_columns_that_the_page_says() -> None:
    assert [len(columns_of(Case.parse(f"pg-{shape}-int-1k-1c-1l"))) for shape in ("narrow", "wide", "mb")] == [6, 24, 2]


# ---------------------------------------------------------------- figures


def test_a_spread_is_the_median_and_both_ends() -> None:
    assert figures.spread([3.0, 1.0, 2.0]) == figures.Spread(2.0, 1.0, 3.0, 3)
    assert figures.spread([]) is None


def test_deciles_are_medians_of_the_first_and_the_last_tenth() -> None:
    assert figures.deciles([9.0, 1.0, 1.0, *[5.0] * 24, 2.0, 2.0, 9.0]) == (1.0, 2.0)
    assert figures.deciles([1.0] * 9) is None


def test_ratios_are_taken_within_a_repeat() -> None:
    # The machine was half as fast in the second repeat, and ours twice as fast in both.
    ratio = figures.paired_ratio({1: 10.0, 2: 20.0, 3: 99.0}, {1: 5.0, 2: 10.0})
    assert ratio == figures.Spread(2.0, 2.0, 2.0, 2)
    assert figures.paired_ratio({1: 1.0}, {2: 1.0}) is None


def test_gaps_are_of_one_lane() -> None:
    assert figures.gaps({0: [1.0, 2.0, 4.0], 1: [1.5]}) == [1.0, 2.0]


@given(st.lists(st.floats(0.001, 1e6), min_size=1))
def test_a_median_lies_between_its_ends(values: list[float]) -> None:
    found = figures.spread(values)
    assert found is not None
    assert found.low <= found.median <= found.high


def test_the_phases_of_a_campaign_add_up_to_its_command() -> None:
    lane = "bench__shadow.bench_lane"
    steps = {
        "bench__shadow.bench_prepare": (12.0, 13.0),
        f"{lane}[1]": (15.5, 18.5),
        f"{lane}[0]": (15.0, 19.0),
        "bench__validated_shadow": (20.0, 22.0),
    }
    phases = phases_of((10.0, 25.0), (11.0, 24.0), steps, [(16.0, 17.0), (16.5, 18.0)])
    assert phases == {
        "command, until Dagster's run starts": 1.0,
        "prepare, its process": 1.0,
        "prepare, its work": 1.0,
        "lanes, their processes": 2.0,
        "lanes, to the first claim": 1.0,
        "first claim to last commit": 2.0,
        "lanes, to their end": 1.0,
        "validation, its process": 1.0,
        "validation, its work": 2.0,
        "run, to its end": 2.0,
        "command, to its exit": 1.0,
    }
    assert sum(phases.values()) == 15.0


# ---------------------------------------------------------------- results and goals


def test_results_are_read_back_and_a_torn_line_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    results.append(file, SESSION)
    first, again = run("ours", 1, 5, 4), run("ours", 1, 6, 4)
    for entry in (first, again):
        results.append(file, entry)
    with file.open("a") as lines:
        lines.write('{"kind": "run", "ses')
    assert results.read(file) == Results([SESSION], [again])
    assert results.read(tmp_path / "none").runs == []


def test_only_the_commit_that_was_measured_last_is_shown() -> None:
    old = Run("before", "0000000", CASE, "ours", 1, {"seconds": 1.0})
    new = run("ours", 1, 5, 4)
    before = replace(SESSION, session="before", commit="0000000")
    assert Results([before, SESSION], [old, new]).of_last_commit() == Results([SESSION], [new])


def goal(found: Results, what: str) -> Goal:
    (only,) = (goal for goal in judged(found) if goal.what == what)
    return only


WIRE_LOAD = "PostgreSQL, 5M rows: `ours` as fast as `wire`, first claim to last commit"


@pytest.mark.parametrize(("ours", "reached"), [(10.0, True), (12.6, False)])
def test_a_goal_is_reached_or_missed_by_the_median(ours: float, reached: bool) -> None:
    found = goal(of(run("wire", 1, 9, 10), run("ours", 1, 20, ours)), WIRE_LOAD)
    assert found.reached is reached


def test_a_goal_without_a_measurement_is_not_reached() -> None:
    assert goal(of(run("ours", 1, 20, 10)), WIRE_LOAD).reached is None
    assert {g.reached for g in judged(of())} == {None}


def test_a_ratio_that_has_to_grow_must_be_above_one() -> None:
    small = [run("merge", 1, 9, 40, SMALL), run("ours", 1, 9, 10, SMALL)]
    name = "PostgreSQL: the ratio to `merge` grows with table size"
    same = goal(of(*small, run("merge", 1, 9, 200), run("ours", 1, 9, 50)), name)
    more = goal(of(*small, run("merge", 1, 9, 300), run("ours", 1, 9, 50)), name)
    assert (same.reached, more.reached) == (False, True)


# ---------------------------------------------------------------- the page


def test_a_page_has_every_number_with_its_verdict_and_is_the_same_again() -> None:
    found = of(
        run("wire", 1, 9.0, 8.0, with_index_seconds=11.0),
        run("ours", 1, 20.0, 16.0, lane_peak_bytes=121e6),
        run("wire", 2, 10.0, 8.0, with_index_seconds=12.0),
        run("ours", 2, 20.0, 8.0, lane_peak_bytes=123e6),
    )
    page = render(found)
    assert f"| {WIRE_LOAD} | ≥ 0.8 | 0.75 (0.50 to 1.00) | **no** |" in page
    assert "| `ours` | 2 | 20.00 s (20.00 to 20.00) | 12.00 s (8.00 to 16.00) | 250,000 |" in page
    assert "| `wire` | 2 | 9.50 s (9.00 to 10.00) | 8.00 s (8.00 to 8.00) | 527,778 | 625,000 | 50 | 2.11 |" in page
    assert "fsync on" in page
    assert "0.1 at 2026-11-30 04:00:00Z" in page
    assert render(found) == page


def test_a_page_shows_where_the_seconds_went() -> None:
    ours = replace(run("ours", 1, 3, 2), phases={"prepare, its work": 1.0, "run, to its end": 2.0})
    merge = replace(run("merge", 1, 5, 2), phases={"prepare, its work": 5.0})
    page = render(of(ours, merge))
    assert "| `ours` in `pg-` | `narrow-int-5m-16c-2l` |" in page
    assert "| prepare, its work | 1.00 |\n| run, to its end | 2.00 |" in page
    assert "| `merge` in `pg-` | `narrow-int-5m-16c-2l` |\n|---|---|\n| prepare, its work | 5.00 |" in page


def test_a_page_of_nothing_says_so() -> None:
    page = render(of())
    assert "not measured" in page
    assert "**no**" not in page


def test_every_goal_has_its_case_in_the_list() -> None:
    named = {
        word for g in judged(of()) for word in g.origin.split("`") if "-" in word and word.startswith(("pg", "ms"))
    }
    assert named <= {entry.name for entry in default_entries()}
