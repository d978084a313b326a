"""A `direct` campaign in Dagster: one asset, whose last partition publishes it, and no run that is tried again."""

from __future__ import annotations

from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, DagsterRunStatus
from dagster._core.events import RunFailureReason
from dagster._core.execution.retries import auto_reexecution_should_retry_run
from dagster._core.storage.tags import MAX_RETRIES_TAG

from dpone_dagster.campaign.manifest import parse_manifest
from dpone_dagster.campaign_definitions import build_campaign
from dpone_dagster.engine.inspect import status
from tests.dagster.manifests import manifest_of
from tests.dagster.project import ASSET_JOB, RANGE_END, RANGE_START, Project


def made_direct(manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["source"].pop("options", None)
    backfill = manifest["sink"]["strategy"]["backfill"]
    del backfill["publication"]
    backfill["inner_mode"] = "replace"
    return manifest


def test_a_direct_manifest_becomes_one_asset_whose_runs_are_not_retried(tmp_path: Any) -> None:
    spec = parse_manifest(made_direct(manifest_of(chunks=8, lanes=2))).to_spec()
    defs = build_campaign(spec, tmp_path / "orders.yaml")
    graph = defs.get_repository_def().asset_graph
    (key,) = graph.get_all_asset_keys()
    assert key == AssetKey(["orders", "loaded_target"])
    assert graph.get(key).metadata["table"] == "landing.orders"
    (job,) = (job for job in defs.resolve_all_job_defs() if not job.name.startswith("__"))
    assert (job.name, job.run_tags[MAX_RETRIES_TAG]) == ("orders_campaign", "0")


def tried_again(instance: DagsterInstance, run_id: str) -> bool:
    """Whether Dagster would run it again, had its process died."""
    run = instance.get_run_by_id(run_id)
    assert run is not None
    dead = run.with_status(DagsterRunStatus.FAILURE)
    return auto_reexecution_should_retry_run(instance, dead, RunFailureReason.RUN_EXCEPTION)


@pytest.mark.slow
def test_the_last_partition_publishes_whichever_run_it_is_in(project: Project) -> None:
    orders = project.orders
    made_direct(orders.manifest)
    project.write()
    keys = project.keys
    for first, last, phase in ((keys[0], keys[4], "loading"), (keys[5], keys[7], "published")):
        tags = {RANGE_START: first, RANGE_END: last}
        with project.run(ASSET_JOB, assets=["loaded_target"], tags=tags) as result:
            assert result.success, project.failures(result)
        assert status(orders.spec, orders.connector).phase == phase
        assert not tried_again(project.instance, result.run_id)
    shown = project.last_materializations("loaded_target")
    assert sorted(key or "" for key in shown) == keys
    assert sum(facts["rows"] for facts in shown.values()) == 2_000
    assert orders.target_rows() == orders.source_rows()
    with project.run() as result:  # a finished campaign touches nothing any more
        assert result.success, project.failures(result)
    assert orders.on_target("SELECT count(*) FROM system.__dpone__chunk_receipts") == [(8,)]
