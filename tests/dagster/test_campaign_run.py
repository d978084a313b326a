"""A whole campaign under the multiprocess executor, and what Dagster shows of it."""

from __future__ import annotations

import pytest
from dagster import AssetKey, DagsterEventType, RunRequest, SkipReason, build_schedule_context
from dagster_shared.serdes import serialize_value

from dpone_dagster.assets.names import COMMAND_TAG
from dpone_dagster.campaign_definitions import build_campaign
from dpone_dagster.engine.validate import CHECK_NAMES
from dpone_dagster.resources.connections import RESOURCE_NAME, DponeConnections
from tests.dagster.project import ASSET_JOB, Project
from tests.engine.campaign import finish, load

pytestmark = pytest.mark.slow

CHECKS = [*CHECK_NAMES, "publication_receipt", "handoff_bound"]


def due(project: Project) -> RunRequest | SkipReason:
    """What the schedule of the increments says at this moment."""
    (schedule,) = build_campaign(project.orders.spec, project.manifest).schedules
    with build_schedule_context(instance=project.instance, resources={RESOURCE_NAME: DponeConnections()}) as context:
        data = schedule.evaluate_tick(context)
    return data.run_requests[0] if data.run_requests else SkipReason(data.skip_message)


def test_the_job_loads_validates_publishes_and_hands_over_and_increments_follow(project: Project) -> None:
    orders = project.orders
    orders.manifest["dagster"] = {"incremental": {"cron": "30 5 * * *"}}
    project.write()
    assert due(project).skip_message == "no campaign was started yet"

    with project.run() as result:
        assert result.success, project.failures(result)
        assert project.checks(result) == dict.fromkeys(CHECKS, True)
        events = result.all_events
    assert orders.target_rows() == orders.source_rows()

    # Each chunk was shown by its lane before the lane was through, and again, with numbers, by collect.
    shown = [(e.step_key or "", e.partition) for e in events if e.event_type is DagsterEventType.ASSET_MATERIALIZATION]
    by_lanes = sorted(partition or "" for step, partition in shown if "orders_lane" in step)
    assert by_lanes == project.keys
    last = dict(sorted(project.last_materializations().items()))
    assert list(last) == project.keys
    receipts = dict(orders.on_target("SELECT chunk_index, receipt_id FROM system.__dpone__chunk_receipts"))
    assert [facts["receipt_id"] for facts in last.values()] == [receipts[i] for i in range(8)]
    assert sum(facts["rows"] for facts in last.values()) == 2_000
    assert all(facts["seconds"] > 0 and facts["rows_per_second"] > 0 for facts in last.values())
    assert set(project.statuses().values()) == {"MATERIALIZED"}
    # What the asset's page shows is the one that was recorded last, whichever that is: the card after the last chunk.
    latest = project.instance.get_latest_materialization_event(AssetKey(["orders", "shadow"]))
    assert latest is not None
    assert latest.asset_materialization is not None
    card = {name: value.value for name, value in latest.asset_materialization.metadata.items()}
    assert "| chunks | 8 committed (of 8) |\n| rows | 2,000 |" in card["campaign"]
    assert "| to go | 0:00:00 |\n| validation | pending |\n| publication | pending |" in card["campaign"]
    assert len(card["slowest_chunks"].records) == 5
    assert all(record.data["seconds"] > 0 for record in card["slowest_chunks"].records)
    # It is on each partition's event, so it has to be small.
    assert len(serialize_value(latest)) < 8_000
    # Later steps show on the shadow too how it went on, without a partition of their own.
    seen = project.instance.fetch_observations(AssetKey(["orders", "shadow"]), limit=1).records[0].asset_observation
    assert seen is not None
    assert seen.partition is None
    assert "**published** as of" in str(seen.metadata["campaign"].value)
    assert "| validation | passed |\n| publication | published |" in str(seen.metadata["campaign"].value)
    (published,) = project.last_materializations("published_target").values()
    assert published["actual_rows"] == published["expected_rows"] == 2_000

    assert isinstance(due(project), RunRequest)
    orders.on_source("DELETE FROM public.orders WHERE paid AND id < '20000000-0000-0000-0000-000000000000'")
    orders.on_source("UPDATE public.orders SET note = 'changed' WHERE NOT paid")
    with project.run("orders_increment") as result:
        assert result.success, project.failures(result)
    assert orders.target_rows() == orders.source_rows()
    (increment,) = project.last_materializations("incremental").values()
    assert increment["updated"] == 1_000
    assert increment["deleted"] > 0
    assert increment["reconciled"]
    assert increment["lag_transactions"] >= 2
    assert increment["lag_seconds"] > 0


def test_an_increment_that_marks_rows_says_so(project: Project) -> None:
    project.orders.on_target("ALTER TABLE landing.orders ADD deleted_at timestamptz")
    soft = {"delete_mode": "soft", "soft_delete_column": "deleted_at"}
    project.orders.manifest["dagster"] = {"incremental": soft}
    project.write()
    load(project.orders)
    finish(project.orders)
    some = "id < '20000000-0000-0000-0000-000000000000'"
    gone = project.orders.on_source(f"DELETE FROM public.orders WHERE {some} RETURNING 1")
    with project.run("orders_increment") as result:
        assert result.success, project.failures(result)
    (increment,) = project.last_materializations("incremental").values()
    assert (increment["marked"], "deleted" in increment) == (len(gone), False)


def test_a_finished_campaign_runs_again_without_touching_anything(project: Project) -> None:
    with project.run() as result:
        assert result.success, project.failures(result)
    (before,) = project.last_materializations("published_target").values()
    query = "SELECT chunk_index, epoch, receipt_id FROM system.__dpone__backfill_chunks ORDER BY 1"
    state = project.orders.on_target(query)
    with project.run() as result:
        assert result.success, project.failures(result)
    assert project.orders.on_target(query) == state
    (after,) = project.last_materializations("published_target").values()
    assert after.items() >= before.items()


def test_what_a_command_has_prepared_is_not_prepared_again(project: Project) -> None:
    tags = {COMMAND_TAG: "run"}
    with project.run(tags=tags) as result:
        (failure,) = project.failures(result).values()
    assert failure.startswith("CAMPAIGN_MISSING")
    # Whoever executes that run again is not the command, though the UI copies its tags.
    with project.run(again=result.run_id, tags=tags) as result:
        assert result.success, project.failures(result)
    assert project.orders.target_rows() == project.orders.source_rows()


def test_partitions_of_several_chunks_are_shown_once_their_last_chunk_is_there(project: Project) -> None:
    project.orders.manifest["dagster"] = {"max_partitions": 3}
    project.write()
    assert len(project.keys) == 3
    with project.run(ASSET_JOB, assets=["shadow"], tags={"dagster/partition": project.keys[1]}) as result:
        assert result.success, project.failures(result)
        shown = [
            (e.partition, e.step_materialization_data.materialization.metadata["receipts"].value)
            for e in result.all_events
            if e.event_type is DagsterEventType.ASSET_MATERIALIZATION and "orders_lane" in (e.step_key or "")
        ]
    # Both lanes may see the group complete; never neither of them, and never one too early.
    assert set(shown) == {(project.keys[1], 3)}
    assert len(shown) <= 2
    facts = project.last_materializations()[project.keys[1]]
    loaded = "SELECT sum(rows), count(*) FROM system.__dpone__chunk_receipts WHERE chunk_index BETWEEN 3 AND 5"
    assert (facts["rows"], facts["receipts"]) == project.orders.on_target(loaded)[0]
    assert project.orders.on_target("SELECT count(*) FROM system.__dpone__chunk_receipts") == [(3,)]


def test_nothing_is_materialized_downstream_of_a_red_check(project: Project) -> None:
    orders = project.orders
    with project.run(ASSET_JOB, assets=["shadow"], tags={"dagster/partition": project.keys[0]}) as result:
        assert result.success
    # Started by hand, in other runs: only the database can know that the shadow is not whole.
    for asset, check, reason in (
        ("validated_shadow", "receipts_complete", "7 of 8 chunks are not committed"),
        ("published_target", "publication_receipt", "VALIDATION_BLOCKED"),
        ("xmin_handoff", "handoff_bound", "HANDOFF_REFUSED"),
    ):
        with project.run(ASSET_JOB, assets=[asset]) as result:
            assert not result.success
            assert project.checks(result) == {check: False}
            (failure,) = project.failures(result).values()
            assert reason in failure
            assert "next: " in failure
        assert project.instance.get_latest_materialization_event(AssetKey(["orders", asset])) is None
    assert orders.on_target("SELECT count(*) FROM landing.orders") == [(3,)]

    orders.on_target(f'INSERT INTO landing."{orders.spec.shadow.name}" SELECT * FROM landing.orders')
    with project.run() as result:
        assert not result.success
        checks = project.checks(result)
        steps = set(project.failures(result))
    assert [name for name, passed in checks.items() if not passed] == ["row_count"]
    assert steps == {"orders__validated_shadow"}
    assert orders.on_target("SELECT count(*) FROM landing.orders") == [(3,)]
