"""A Dagster instance with our own settings, and runs of a campaign on it as Dagster starts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagster import (
    AssetKey,
    DagsterEventType,
    DagsterInstance,
    JobExecutionResult,
    ReexecutionOptions,
    RepositoryDefinition,
    execute_job,
)
from dagster._core.code_pointer import CustomPointer, ModuleCodePointer
from dagster._core.definitions.reconstruct import ReconstructableRepository

from dpone_dagster.assets.names import partitions_of
from dpone_dagster.definitions import build_defs
from tests.orders import Orders

ASSET_JOB = "__ASSET_JOB"
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


def build_repository(manifest: str) -> RepositoryDefinition:
    """The code location as every step process builds it anew."""
    return build_defs({"DPONE_MANIFESTS": manifest}, Path.cwd()).get_repository_def()


def run_job(instance: DagsterInstance, manifest: Path, job: str, **options: Any) -> JobExecutionResult:
    """Execute a job of the manifest under its own executor."""
    pointer = CustomPointer(ModuleCodePointer(__name__, "build_repository"), [str(manifest)], [])
    return execute_job(ReconstructableRepository(pointer).get_reconstructable_job(job), instance, **options)


@dataclass
class Project:
    """One manifest and an instance."""

    orders: Orders
    manifest: Path
    instance: DagsterInstance

    @property
    def dataset(self) -> str:
        return str(self.orders.manifest["name"])

    @property
    def keys(self) -> list[str]:
        return partitions_of(self.orders.spec).keys()

    def write(self) -> None:
        """Take up what the test changed in the manifest."""
        self.orders.write(self.manifest.parent)

    def run(
        self,
        job: str = "orders_campaign",
        *,
        assets: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        again: str | None = None,
    ) -> JobExecutionResult:
        """Execute a job under its own executor.

        Args:
            job: Its name.
            assets: Only these; with `ASSET_JOB` it is what the UI's *Materialize* starts.
            tags: As the UI sets them.
            again: Re-execute this run from its failure.
        """
        if again is not None:
            options = ReexecutionOptions.from_failure(again, self.instance)
            return run_job(self.instance, self.manifest, job, reexecution_options=options, tags=dict(tags or {}))
        chosen = [AssetKey([self.dataset, name]) for name in assets] or None
        return run_job(self.instance, self.manifest, job, asset_selection=chosen, tags=dict(tags or {}))

    def materialize(self, first: str, last: str | None = None) -> JobExecutionResult:
        """One partition, or a range, of the shadow as the UI starts it."""
        tags = {"dagster/partition": first} if last is None else {RANGE_START: first, RANGE_END: last}
        return self.run(ASSET_JOB, assets=["shadow"], tags=tags)

    def statuses(self) -> dict[str, str]:
        """Each partition's status as the UI shows it; those that nothing is known of are left out."""
        shadow = AssetKey([self.dataset, "shadow"])
        partitions = build_repository(str(self.manifest)).asset_graph.get(shadow).partitions_def
        found = self.instance.get_status_by_partition(shadow, self.keys, partitions)
        return {key: status.value for key, status in (found or {}).items() if status is not None}

    def last_materializations(self, name: str = "shadow") -> dict[str | None, dict[str, Any]]:
        """Metadata of the newest materialization, a partition each."""
        key = AssetKey([self.dataset, name])
        records = self.instance.fetch_materializations(key, limit=10_000, ascending=True).records
        return {
            record.partition_key: {name: value.value for name, value in record.asset_materialization.metadata.items()}
            for record in records
            if record.asset_materialization is not None
        }

    def failures(self, result: JobExecutionResult) -> dict[str, str]:
        """Description of each step's failure."""
        events = [e for e in result.all_events if e.event_type is DagsterEventType.STEP_FAILURE]
        return {
            str(e.step_key): (e.step_failure_data.user_failure_data.description or "")
            if e.step_failure_data.user_failure_data
            else str(e.step_failure_data.error)
            for e in events
        }

    def checks(self, result: JobExecutionResult) -> dict[str, bool]:
        """Outcome of each asset check that was evaluated."""
        return {e.check_name: e.passed for e in result.get_asset_check_evaluations()}
