"""One bad chunk: the others stay green, the message says what to do, and one click finishes the job."""

from __future__ import annotations

import pytest

from tests.dagster.project import Project

pytestmark = pytest.mark.slow


def spoil(project: Project, chunk: int) -> str:
    """Put a number that the target's numeric(18,2) cannot hold into one chunk; returns its key."""
    orders = project.orders
    orders.on_source("ALTER TABLE public.orders ALTER amount TYPE numeric")
    bounds = orders.spec.plan.chunk(chunk)
    (row,) = orders.on_source(
        "UPDATE public.orders SET amount = 1e17 WHERE id = "
        "(SELECT id FROM public.orders WHERE id >= %s ORDER BY id LIMIT 1) RETURNING id",
        bounds.lower,
    )
    return str(row[0])


def mend(project: Project, key: str) -> None:
    project.orders.on_source("UPDATE public.orders SET amount = 1 WHERE id = %s", key)


def test_one_of_eight_is_red_and_materializing_it_again_is_enough(project: Project) -> None:
    project.orders.backfill["on_chunk_failure"] = "continue"
    project.write()
    bad = spoil(project, 3)
    with project.run() as result:
        assert not result.success
        failures = project.failures(result)
    (message,) = (text for step, text in failures.items() if "orders_lane" in step)
    assert "chunk 3" in message
    assert "VALUE_NOT_REPRESENTABLE" in message
    assert "next: " in message
    expected = dict.fromkeys(project.keys, "MATERIALIZED") | {project.keys[3]: "FAILED"}
    assert project.statuses() == expected

    mend(project, bad)
    reads = project.orders.on_target("SELECT sum(tries) FROM system.__dpone__backfill_chunks")[0][0]
    with project.materialize(project.keys[3]) as result:
        assert result.success, project.failures(result)
    assert project.orders.on_target("SELECT sum(tries) FROM system.__dpone__backfill_chunks") == [(reads + 1,)]
    assert set(project.statuses().values()) == {"MATERIALIZED"}
    with project.run() as result:
        assert result.success, project.failures(result)
    assert project.orders.target_rows() == project.orders.source_rows()


def test_a_re_execution_from_failure_takes_up_a_stopped_campaign_with_all_its_lanes(project: Project) -> None:
    bad = spoil(project, 0)
    with project.run() as result:
        assert not result.success
        run_id = result.run_id
        failures = project.failures(result)
    assert all("orders_lane" in step for step in failures)
    assert any("CHUNK_FAILED" in text for text in failures.values())
    assert project.orders.on_target("SELECT phase FROM system.__dpone__backfill_campaigns") == [("recoverable",)]
    assert project.statuses()[project.keys[0]] == "FAILED"

    mend(project, bad)
    with project.run(again=run_id) as result:
        assert result.success, project.failures(result)
        assert not any("orders_prepare" in (event.step_key or "") for event in result.all_events)
    assert project.orders.target_rows() == project.orders.source_rows()
    assert set(project.statuses().values()) == {"MATERIALIZED"}


def test_ranges_side_by_side_make_one_campaign(project: Project) -> None:
    with project.materialize(project.keys[2], project.keys[4]) as result:
        assert result.success, project.failures(result)
    loaded = "SELECT chunk_index FROM system.__dpone__chunk_receipts ORDER BY 1"
    assert project.orders.on_target(loaded) == [(2,), (3,), (4,)]
    assert project.statuses() == dict.fromkeys(project.keys[2:5], "MATERIALIZED")
    # Another run of the same backfill is at work: this one joins it, where a second coordinator would be refused.
    other = project.orders.connector.target("lane 0 of another run")
    assert other.fence.lock_campaign(project.orders.spec.run_key, "shared", 1)
    try:
        with project.materialize(project.keys[0], project.keys[1]) as result:
            assert result.success, project.failures(result)
        with project.run() as result:
            assert not result.success
            (message,) = project.failures(result).values()
        assert "CAMPAIGN_ACTIVE" in message
        assert "lane 0 of another run" in message
    finally:
        other.close()
    assert len(project.orders.on_target(loaded)) == 5


def test_partitions_of_another_campaign_are_refused(project: Project) -> None:
    foreign = [key[:-4] + "0000" for key in project.keys]
    with pytest.raises(Exception, match="0000"):
        project.materialize(foreign[0], foreign[1])
