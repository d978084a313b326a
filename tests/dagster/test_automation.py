"""`automate: true`: each step starts when everything before it is there, at rest and green, and at no other moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    AssetKey,
    AssetMaterialization,
    AutomationConditionSensorDefinition,
    DagsterEvent,
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    Definitions,
    evaluate_automation_conditions,
)
from dagster._core.events import AssetMaterializationPlannedData
from dagster._core.test_utils import create_run_for_test

from dpone_dagster.assets.names import partitions_of
from dpone_dagster.campaign.manifest import parse_manifest
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.campaign_definitions import build_campaign
from dpone_dagster.engine.validate import CHECK_NAMES
from tests.dagster.manifests import manifest_of

# Dagster 1.13.27 uses its own beta in `evaluate_automation_conditions`.
pytestmark = pytest.mark.filterwarnings("ignore:Parameter `include_sources` of function")

CHECKS = {
    "validated_shadow": CHECK_NAMES,
    "published_target": ("publication_receipt",),
    "xmin_handoff": ("handoff_bound",),
}
CHAIN = list(CHECKS)


def spec_of(backfill_id: str = "orders_1", *, automate: bool = True) -> CampaignSpec:
    manifest = manifest_of(chunks=4, lanes=2)
    manifest["sink"]["strategy"]["backfill"]["backfill_id"] = backfill_id
    manifest["dagster"] = {"automate": automate}
    return parse_manifest(manifest).to_spec()


@dataclass
class Chain:
    """A campaign's assets on an instance, and what their conditions ask for from one look to the next."""

    instance: DagsterInstance
    spec: CampaignSpec = field(default_factory=spec_of)
    cursor: object = None

    @property
    def definitions(self) -> Definitions:
        return build_campaign(self.spec, Path("orders.yaml"))

    @property
    def keys(self) -> list[str]:
        return partitions_of(self.spec).keys()

    def asked_for(self) -> list[str]:
        """The assets that the next tick starts."""
        result = evaluate_automation_conditions(self.definitions, self.instance, cursor=self.cursor)  # type: ignore[arg-type]
        self.cursor = result.cursor
        return [name for name in CHAIN if result.get_num_requested(AssetKey(["orders", name]))]

    def load(self, *keys: str) -> None:
        for key in keys or self.keys:
            event = AssetMaterialization(AssetKey(["orders", "shadow"]), partition=key)
            self.instance.report_runless_asset_event(event)

    def done(self, name: str, *, red: str | None = None) -> None:
        """The asset is materialized and its checks are evaluated, of which one may be red."""
        key = AssetKey(["orders", name])
        self.instance.report_runless_asset_event(AssetMaterialization(key))
        for check in CHECKS[name]:
            evaluation = AssetCheckEvaluation(
                asset_key=key, check_name=check, passed=check != red, severity=AssetCheckSeverity.ERROR
            )
            self.instance.report_runless_asset_event(evaluation)

    def under_way(self, name: str, status: DagsterRunStatus, partition: str | None = None) -> None:
        """A run that was to materialize it is at work, or has failed."""
        key = AssetKey(["orders", name])
        run = create_run_for_test(self.instance, job_name="run", status=DagsterRunStatus.STARTED)
        planned = DagsterEvent.build_asset_materialization_planned_event(
            "run", name, AssetMaterializationPlannedData(key, partition=partition)
        )
        self.instance.report_dagster_event(planned, run.run_id)
        if status is DagsterRunStatus.FAILURE:
            self.instance.report_run_failed(run)
        assert DagsterEventType.ASSET_MATERIALIZATION_PLANNED is planned.event_type


@pytest.fixture
def chain() -> Iterator[Chain]:
    with DagsterInstance.ephemeral() as instance:
        yield Chain(instance)


def test_nothing_starts_before_the_last_partition_and_all_starts_with_it(chain: Chain) -> None:
    assert chain.asked_for() == []
    chain.load(*chain.keys[:-1])
    assert chain.asked_for() == []
    chain.load(chain.keys[-1])
    assert chain.asked_for() == CHAIN  # one run, in which a red check stops what comes after it
    chain.done("validated_shadow")
    assert chain.asked_for() == CHAIN[1:]
    chain.done("published_target")
    assert chain.asked_for() == CHAIN[2:]
    chain.done("xmin_handoff")
    assert chain.asked_for() == []


def test_a_partition_that_is_loaded_again_holds_the_chain_up_and_starts_nothing_afterwards(chain: Chain) -> None:
    chain.load()
    chain.under_way("shadow", DagsterRunStatus.STARTED, chain.keys[1])
    assert chain.asked_for() == []
    chain.load(chain.keys[1])
    assert chain.asked_for() == CHAIN
    for name in CHAIN:
        chain.done(name)
    assert chain.asked_for() == []
    chain.load(chain.keys[1])
    assert chain.asked_for() == []  # what is published stays published


@pytest.mark.parametrize("red", CHECK_NAMES)
def test_nothing_starts_behind_a_red_check(chain: Chain, red: str) -> None:
    chain.load()
    chain.done("validated_shadow", red=red)
    assert chain.asked_for() == []
    chain.done("validated_shadow")
    assert chain.asked_for() == CHAIN[1:]


def test_what_is_at_work_or_has_failed_is_not_started_again(chain: Chain) -> None:
    chain.load()
    chain.under_way("validated_shadow", DagsterRunStatus.STARTED)
    assert chain.asked_for() == []
    chain.under_way("validated_shadow", DagsterRunStatus.FAILURE)
    assert chain.asked_for() == []


def test_a_second_campaign_of_the_same_target_is_carried_on_too(chain: Chain) -> None:
    chain.load()
    for name in CHAIN:
        chain.done(name)
    assert chain.asked_for() == []
    chain.spec = spec_of("orders_2")
    assert chain.asked_for() == []
    chain.load(*chain.keys[1:])
    assert chain.asked_for() == []
    chain.load(chain.keys[0])
    assert chain.asked_for() == CHAIN
    # The old publication is there and green, but it is not this campaign's.
    chain.done("validated_shadow", red="row_count")
    assert chain.asked_for() == []
    chain.done("validated_shadow")
    assert chain.asked_for() == CHAIN[1:]
    for name in CHAIN[1:]:
        chain.done(name)
    assert chain.asked_for() == []


def test_the_sensor_is_on_from_the_start_and_only_where_the_manifest_says_so(chain: Chain) -> None:
    (sensor,) = chain.definitions.sensors or ()
    assert isinstance(sensor, AutomationConditionSensorDefinition)
    assert (sensor.name, sensor.default_status) == ("orders_automation", DefaultSensorStatus.RUNNING)
    graph = chain.definitions.get_repository_def().asset_graph
    assert sensor.asset_selection.resolve(graph) == {AssetKey(["orders", name]) for name in CHAIN}

    chain.spec = spec_of(automate=False)
    assert not chain.definitions.sensors
    chain.load()
    assert chain.asked_for() == []
