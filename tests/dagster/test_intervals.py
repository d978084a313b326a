"""A manifest with interval tokens: partitions by time, whose runs replace exactly their slices."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from dagster import AssetKey, ReexecutionOptions, TimeWindowPartitionsDefinition

from dpone_dagster.assets.interval import partitions_by
from dpone_dagster.campaign.errors import ManifestInvalid
from dpone_dagster.campaign.interval import Interval
from dpone_dagster.campaign.manifests import parse_any
from dpone_dagster.campaign.overrides import RunOptions
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.campaign.spec import IntervalPolicy
from dpone_dagster.definitions import build_defs
from dpone_dagster.settings import load_spec
from tests.dagster.manifests import manifest_of
from tests.dagster.project import ASSET_JOB, RANGE_END, RANGE_START, Project, run_job
from tests.dagster.test_direct import tried_again

CHUNK = {"column": "placed_at", "from": "{{ data_interval_start }}", "to": "{{ data_interval_end }}", "step": "1d"}
SPREAD = """
    UPDATE public.orders
    SET placed_at = timestamptz '2024-03-29 23:00:00+00'
                  + mod(('x' || left(md5(id::text), 4))::bit(16)::int, 71) * interval '1 hour'
"""
IN_BERLIN = "SELECT (placed_at AT TIME ZONE 'Europe/Berlin')::date, count(*), max(note) FROM {} GROUP BY 1 ORDER BY 1"


def by_intervals(manifest: dict[str, Any], *, chunk: dict[str, Any] = CHUNK, **interval: Any) -> dict[str, Any]:
    """The manifest, loaded by intervals."""
    manifest["source"].pop("options", None)
    backfill = manifest["sink"]["strategy"]["backfill"]
    for name in ("publication", "backfill_id"):
        backfill.pop(name, None)
    backfill |= {"inner_mode": "partition_replace", "chunk": dict(chunk)}
    manifest["dagster"] = {"interval": {"start": "2024-03-30", **interval}}
    return manifest


def chunks_of(policy: IntervalPolicy, until: datetime, **chunk: Any) -> list[list[Chunk]]:
    """The chunks of every interval that has ended by then."""
    manifest = by_intervals(manifest_of(chunks=1, lanes=1), chunk={**CHUNK, **chunk}, start=policy.start)
    partitions = partitions_by(policy)
    found = []
    for key in partitions.get_partition_keys(until):
        window = partitions.time_window_for_partition_key(key)
        options = RunOptions(interval=Interval(window.start, window.end))
        found.append(list(parse_any(manifest, options).to_spec().plan))  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "UTC"])
@pytest.mark.parametrize(
    ("cron", "step", "intervals"), [("0 0 * * *", "1d", 366), ("0 0 1 * *", "1mo", 12), ("0 0 * * sun", "1d", 52)]
)
def test_a_year_of_intervals_has_no_gap_and_no_overlap(zone: str, cron: str, step: str, intervals: int) -> None:
    start = "2024-01-07" if "sun" in cron else "2024-01-01"
    end = datetime(2025, 1, 5 if "sun" in cron else 1, tzinfo=ZoneInfo(zone))
    found = chunks_of(IntervalPolicy(start, None, cron, zone), end, step=step)
    assert len(found) == intervals
    chunks = [chunk for one in found for chunk in one]
    assert all(before.upper == after.lower for before, after in pairwise(chunks))
    first, last = (datetime.fromisoformat(bound) for bound in (chunks[0].lower, chunks[-1].upper))
    assert first == datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone))
    assert last == end


@pytest.mark.parametrize(
    ("day", "hours"), [("2024-03-30", 24), ("2024-03-31", 23), ("2024-10-26", 24), ("2024-10-27", 25)]
)
def test_a_day_on_which_clocks_change_has_all_of_its_hours(day: str, hours: int) -> None:
    after = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo("Europe/Berlin")) + timedelta(days=1)
    (chunks,) = chunks_of(IntervalPolicy(day, None, "0 0 * * *", "Europe/Berlin"), after, step="1h")
    assert len(chunks) == hours
    begin = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
    assert [chunk.lower for chunk in chunks] == [(begin + timedelta(hours=n)).isoformat() for n in range(hours)]


def test_hours_that_come_twice_are_two_partitions() -> None:
    policy = IntervalPolicy("2024-10-27", None, "0 * * * *", "Europe/Berlin")
    partitions = partitions_by(policy)
    until = datetime(2024, 10, 27, 5, tzinfo=ZoneInfo("Europe/Berlin"))
    keys = partitions.get_partition_keys(until)
    assert keys[2:4] == ["2024-10-27-0200", "2024-10-27-0200+0100"]
    assert not any(sign in key for key in keys for sign in " ,:'\"")
    chunks = [chunk for one in chunks_of(policy, until, step="1h") for chunk in one]
    assert len(chunks) == 6
    assert all(before.upper == after.lower for before, after in pairwise(chunks))


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Auckland"])
def test_days_of_a_date_column_are_the_days_of_the_zone(zone: str) -> None:
    policy = IntervalPolicy("2024-02-28", None, "0 0 * * *", zone)
    found = chunks_of(policy, datetime(2024, 3, 12, tzinfo=ZoneInfo(zone)), kind="date", column="day")
    bounds = [(chunk.lower, chunk.upper) for (chunk,) in found]
    days = [date(2024, 2, 28) + timedelta(days=n) for n in range(14)]
    assert bounds == [(day.isoformat(), after.isoformat()) for day, after in pairwise(days)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "campaigns").mkdir()
    return tmp_path


def write(folder: Path, manifest: dict[str, Any]) -> Path:
    path = folder / "campaigns" / "orders.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


def test_a_manifest_with_intervals_becomes_one_asset_by_time(folder: Path) -> None:
    path = write(folder, by_intervals(manifest_of(chunks=1, lanes=2), timezone="Europe/Berlin", end="2024-04-03"))
    defs = build_defs({}, folder)
    graph = defs.get_repository_def().asset_graph
    (key,) = graph.get_all_asset_keys()
    assert key == AssetKey(["orders", "loaded_target"])
    partitions = graph.get(key).partitions_def
    assert isinstance(partitions, TimeWindowPartitionsDefinition)
    assert partitions.get_partition_keys() == ["2024-03-30", "2024-03-31", "2024-04-01", "2024-04-02"]
    assert [job.name for job in defs.jobs or ()] == ["orders_campaign"]
    with pytest.raises(ManifestInvalid, match="problem"):
        load_spec(path)  # one load needs an interval


@pytest.mark.parametrize(
    ("change", "path", "advice"),
    [
        ({"publication": {"mode": "shadow_swap"}}, "dagster.interval", "leave it out"),
        ({"inner_mode": "incremental_append"}, "sink.strategy.backfill.inner_mode", "`partition_replace`"),
        ({"chunk": {**CHUNK, "to": "2024-05-01"}}, "sink.strategy.backfill.chunk.to", "{{ data_interval_end }}"),
    ],
)
def test_what_does_not_go_with_intervals_is_refused(
    folder: Path, change: dict[str, Any], path: str, advice: str
) -> None:
    manifest = by_intervals(manifest_of(chunks=1, lanes=1))
    manifest["sink"]["strategy"]["backfill"] |= change
    write(folder, manifest)
    with pytest.raises(ManifestInvalid) as refused:
        build_defs({}, folder)
    found = {finding.path.partition(": ")[2]: finding.advice for finding in refused.value.findings}
    assert advice in found[path]


def test_thresholds_for_campaigns_that_nobody_watches_are_refused() -> None:
    manifest = by_intervals(manifest_of(chunks=1, lanes=1))
    options = RunOptions(interval=Interval(datetime(2024, 3, 30, tzinfo=UTC), datetime(2024, 3, 31, tzinfo=UTC)))
    parse_any(manifest, options)
    manifest["dagster"]["alerts"] = {"load_within_hours": 2}
    with pytest.raises(ManifestInvalid) as refused:
        parse_any(manifest, options)
    assert [finding.path for finding in refused.value.findings] == ["dagster.alerts"]


@pytest.mark.parametrize("interval", [{"start": "yesterday"}, {"start": "2024-01-01T00:00+01:00"}, {"cron": "x"}])
def test_an_interval_that_cannot_be_read_is_refused(folder: Path, interval: dict[str, Any]) -> None:
    write(folder, by_intervals(manifest_of(chunks=1, lanes=1), **interval))
    with pytest.raises(ManifestInvalid, match="not all manifests"):
        build_defs({}, folder)


def days_of(rows: list[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each day in Berlin, the live table's older generation left out."""
    days: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        day = row[2].astimezone(ZoneInfo("Europe/Berlin")).date()
        if day >= date(2024, 3, 30):
            days.setdefault(day.isoformat(), []).append(row)
    return days


@pytest.mark.slow
def test_a_partition_replaces_its_day_however_often_it_is_materialized(either_project: Project) -> None:
    project, orders = either_project, either_project.orders
    orders.on_source(SPREAD)
    older = orders.target_rows()
    by_intervals(orders.manifest, timezone="Europe/Berlin", end="2024-04-02")
    project.write()
    tags = {RANGE_START: "2024-03-30", RANGE_END: "2024-04-01"}
    with project.run(ASSET_JOB, assets=["loaded_target"], tags=tags) as result:
        assert result.success, project.failures(result)
    before = days_of(orders.source_rows())
    assert sorted(before) == ["2024-03-30", "2024-03-31", "2024-04-01"]
    assert days_of(orders.target_rows()) == before
    assert sorted(key or "" for key in project.last_materializations("loaded_target")) == sorted(before)

    orders.on_source("UPDATE public.orders SET note = 'zz corrected'")
    orders.on_source("DELETE FROM public.orders WHERE paid")
    with project.run(ASSET_JOB, assets=["loaded_target"], tags={"dagster/partition": "2024-03-31"}) as result:
        assert result.success, project.failures(result)
    corrected = days_of(orders.source_rows())["2024-03-31"]
    assert days_of(orders.target_rows()) == before | {"2024-03-31": corrected}
    assert {row[3] for row in corrected} == {"zz corrected"}
    assert [row for row in orders.target_rows() if row in older] == older
    # Each run was a campaign of its own, and each is through.
    phases = orders.on_target("SELECT phase, backfill_id FROM system.__dpone__backfill_campaigns ORDER BY created_at")
    assert [phase for phase, _ in phases] == ["published", "published"]
    assert phases[1][1].startswith("2024-03-31_2024-03-31_")


@pytest.mark.slow
def test_a_re_execution_goes_on_with_the_campaign_of_the_run_that_failed(project: Project) -> None:
    orders = project.orders
    orders.on_source(SPREAD)
    by_intervals(orders.manifest, timezone="Europe/Berlin", end="2024-04-02")
    orders.manifest["sink"]["strategy"]["backfill"]["on_chunk_failure"] = "continue"
    project.write()
    # A row of the second day whose key is in the live table already, on a day that nobody loads.
    (row,) = orders.on_source(
        "SELECT id FROM public.orders WHERE (placed_at AT TIME ZONE 'Europe/Berlin')::date = '2024-03-31' LIMIT 1"
    )
    orders.on_target("INSERT INTO landing.orders (id, placed_at, paid) VALUES (%s, '2020-01-01', true)", *row)
    tags = {RANGE_START: "2024-03-30", RANGE_END: "2024-04-01"}
    with project.run(ASSET_JOB, assets=["loaded_target"], tags=tags) as result:
        assert not result.success
        assert any("UNIQUE_CONFLICT" in failure for failure in project.failures(result).values())
        failed = result.run_id
    state = "SELECT chunk_index, receipt_id FROM system.__dpone__chunk_receipts ORDER BY 1"
    before = orders.on_target(state)
    assert [index for index, _ in before] == [0, 2]
    orders.on_target("DELETE FROM landing.orders WHERE id = %s", *row)
    again = ReexecutionOptions.from_failure(failed, project.instance)
    # As the UI does, with the tags of the run before.
    with run_job(project.instance, project.manifest, ASSET_JOB, reexecution_options=again, tags=tags) as result:
        assert result.success, project.failures(result)
    after = orders.on_target(state)
    assert [after[0], after[2]] == before
    assert orders.on_target("SELECT phase FROM system.__dpone__backfill_campaigns") == [("published",)]
    outside = "WHERE placed_at >= '2024-03-29 23:00+00'"
    assert orders.on_target(IN_BERLIN.format(f"landing.orders {outside}")) == orders.on_source(
        IN_BERLIN.format("public.orders")
    )


@pytest.mark.slow
def test_a_re_execution_of_a_run_that_succeeded_loads_the_interval_again(project: Project) -> None:
    orders = project.orders
    orders.on_source(SPREAD)
    by_intervals(orders.manifest, timezone="Europe/Berlin", end="2024-04-02")
    project.write()
    tags = {"dagster/partition": "2024-03-31"}
    with project.run(ASSET_JOB, assets=["loaded_target"], tags=tags) as result:
        assert result.success, project.failures(result)
        last = result.run_id
    assert not tried_again(project.instance, last)
    day = "WHERE (placed_at AT TIME ZONE 'Europe/Berlin')::date = '2024-03-31' AND note LIKE 'zz %'"
    for note in ("zz corrected", "zz once more"):  # the second is a re-execution of a re-execution
        orders.on_source(f"UPDATE public.orders SET note = '{note}'")
        again = ReexecutionOptions(parent_run_id=last)
        with run_job(project.instance, project.manifest, ASSET_JOB, reexecution_options=again, tags=tags) as result:
            assert result.success, project.failures(result)
            last = result.run_id
        loaded = orders.on_target(f"SELECT DISTINCT note FROM landing.orders {day}")
        assert loaded == [(note,)]
        newest = "SELECT backfill_id, phase FROM system.__dpone__backfill_campaigns ORDER BY created_at DESC LIMIT 1"
        assert orders.on_target(newest) == [(f"2024-03-31_2024-03-31_{last}", "published")]
