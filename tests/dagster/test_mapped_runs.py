"""What a run proves before it opens a connection, and the pool that it holds its lanes to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import (
    AssetSelection,
    DagsterEventType,
    DagsterInstance,
    Definitions,
    JobDefinition,
    build_op_context,
    define_asset_job,
    in_process_executor,
)
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

from dpone_dagster.assets.mapped import bound_pool
from dpone_dagster.assets.names import loaded_key
from dpone_dagster.assets.shadow import build_shadow
from dpone_dagster.campaign.manifest import parse_manifest
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.resources.connections import RESOURCE_NAME, DponeConnections
from tests.dagster.manifests import manifest_of

POOL = "dpone_backfill"


def spec_of(*, chunks: int = 8, max_active: int = 3) -> CampaignSpec:
    manifest = manifest_of(chunks=chunks, lanes=1)
    manifest["dagster"] = {"mapping": {"mode": "visible", "max_active": max_active, "pool": POOL}}
    return parse_manifest(manifest).to_spec()


def job_of(spec: CampaignSpec) -> JobDefinition:
    """The load alone, in this process."""
    definitions = Definitions(
        assets=[build_shadow(spec, Path("orders.yaml"))],
        jobs=[define_asset_job("load", AssetSelection.assets(loaded_key(spec)), executor_def=in_process_executor)],
        resources={RESOURCE_NAME: DponeConnections()},
    )
    return definitions.resolve_job_def("load")


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterInstance]:
    """An instance in memory, and no connection in the environment: whatever is opened fails otherwise."""
    for name in [name for name in os.environ if name.startswith("DPONE_")]:
        monkeypatch.delenv(name)
    with DagsterInstance.ephemeral() as instance:
        yield instance


def failure_of(instance: DagsterInstance, launched: CampaignSpec, executed: CampaignSpec) -> str:
    """What a run says that was launched with the one plan and is executed with the other."""
    run = instance.create_run_for_job(job_of(launched))
    result = execute_run(InMemoryJob(job_of(executed)), run, instance)
    (failed,) = [e for e in result.all_events if e.event_type is DagsterEventType.STEP_FAILURE]
    assert failed.step_key == "orders__shadow.orders_prepare"
    told = failed.step_failure_data.user_failure_data
    return (told.description if told else None) or str(failed.step_failure_data.error)


def test_a_run_that_was_launched_with_another_plan_opens_nothing(instance: DagsterInstance) -> None:
    said = failure_of(instance, spec_of(chunks=8), spec_of(chunks=9))
    assert said.startswith("PLAN_DRIFT: ")
    assert "reload the code location" in said
    # With the plan of its launch it gets as far as the first connection; how many lanes there are is no part of it.
    assert "DPONE_CONNECTION_" in failure_of(instance, spec_of(max_active=3), spec_of(max_active=2))


def slots(instance: DagsterInstance) -> int | None:
    return {limit.name: limit.limit for limit in instance.event_log_storage.get_pool_limits()}.get(POOL)


def test_a_pool_has_no_more_slots_than_lanes_may_be_at_work(instance: DagsterInstance) -> None:
    context = build_op_context(instance=instance)
    bound_pool(context, spec_of(max_active=3))
    assert slots(instance) == 3
    bound_pool(context, spec_of(max_active=2))
    assert slots(instance) == 2
    bound_pool(context, spec_of(max_active=5))
    assert slots(instance) == 2  # the lowest of those that share it, or what somebody has set by hand
    instance.event_log_storage.set_concurrency_slots(POOL, 9)
    bound_pool(context, spec_of(max_active=5))
    assert slots(instance) == 5
