"""The jobs of a campaign and the executor that their steps run under."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dagster import AssetSelection, ExecutorDefinition, define_asset_job, multiprocess_executor
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    MAX_RETRIES_TAG,
    RETRY_ON_ASSET_OR_OP_FAILURE_TAG,
)

from dpone_dagster.assets.failures import NO_RETRIES
from dpone_dagster.assets.names import asset_key, loaded_key, partitions_of
from dpone_dagster.campaign.errors import Finding, ManifestInvalid
from dpone_dagster.campaign.jobnames import campaign_job_name, increment_job_name, retry_job_name
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec
from dpone_dagster.forking import EXECUTOR_VARIABLE, MULTIPROCESS, PRELOADED

# For runs whose process died: what has receipts and retains the table from before may run again by itself.
# A step that failed is a known failure, and steps retry by themselves what can succeed when tried again.
RUN_RETRIES: Mapping[str, str] = {MAX_RETRIES_TAG: "3", RETRY_ON_ASSET_OR_OP_FAILURE_TAG: "false"}


def executor_for(specs: Iterable[RouteSpec], environ: Mapping[str, str]) -> ExecutorDefinition:
    """Where steps run: processes of this host, or pods (`DPONE_EXECUTOR=k8s`).

    Args:
        specs: The campaigns that it has to serve; the one with the most lanes counts.
        environ: Environment of this process.

    Raises:
        ManifestInvalid: `DPONE_EXECUTOR` names no executor.
    """
    # Dagster's default is the number of processors, which would make lanes wait for one another.
    at_once = max((spec.lanes for spec in specs), default=1) + 1
    wanted = environ.get(EXECUTOR_VARIABLE) or MULTIPROCESS
    if wanted == MULTIPROCESS:
        start = {"forkserver": {"preload_modules": PRELOADED}}
        return multiprocess_executor.configured({"max_concurrent": at_once, "start_method": start})
    if wanted == "k8s":
        from dagster_k8s import k8s_job_executor  # brings the Kubernetes client, which nobody else needs

        # A lane has no parent process there to watch: its Job is deleted with the pod of its run.
        return k8s_job_executor.configured({"max_concurrent": at_once, "enable_owner_references": True})
    raise ManifestInvalid(
        f"{EXECUTOR_VARIABLE} names no executor",
        findings=[Finding(EXECUTOR_VARIABLE, f"found `{wanted}`", "set it to `multiprocess` or `k8s`, or unset it")],
        next_step=f"Correct {EXECUTOR_VARIABLE}.",
    )


def campaign_job(spec: CampaignSpec, executor: ExecutorDefinition) -> UnresolvedAssetJobDefinition:
    """Everything up to the handoff, or to the last chunk of a `direct` campaign, with all partitions in one run.

    Args:
        spec: The campaign.
        executor: Where its steps run.
    """
    keys = partitions_of(spec).keys()
    later = ("validated_shadow", "published_target", *(("xmin_handoff",) if spec.handoff_id else ()))
    assets = [loaded_key(spec), *(asset_key(spec, name) for name in (() if spec.direct else later))]
    return define_asset_job(
        campaign_job_name(spec),
        selection=AssetSelection.assets(*assets),
        description=f"Load `{spec.target}`."
        if spec.direct
        else f"Load, validate and publish `{spec.target}`, and hand it over.",
        # A run without them would have no partitions at all.
        run_tags={
            **(NO_RETRIES if spec.direct else RUN_RETRIES),
            ASSET_PARTITION_RANGE_START_TAG: keys[0],
            ASSET_PARTITION_RANGE_END_TAG: keys[-1],
        },
        executor_def=executor,
    )


def retry_job(spec: CampaignSpec, executor: ExecutorDefinition) -> UnresolvedAssetJobDefinition:
    """Failed chunks again; its run names no partition, so that none is shown as loaded that is not.

    Args:
        spec: The campaign; its retry policy is `failed_only`.
        executor: Where its steps run.
    """
    return define_asset_job(
        retry_job_name(spec),
        selection=AssetSelection.assets(loaded_key(spec)),
        description=f"Load the failed chunks of `{spec.source}` again.",
        run_tags=NO_RETRIES if spec.direct else RUN_RETRIES,
        executor_def=executor,
    )


def interval_job(spec: CampaignSpec, executor: ExecutorDefinition) -> UnresolvedAssetJobDefinition:
    """One interval, or a range of them.

    Args:
        spec: Read for any interval.
        executor: Where its steps run.
    """
    return define_asset_job(
        campaign_job_name(spec),
        selection=AssetSelection.assets(loaded_key(spec)),
        description=f"Load intervals of `{spec.source}` into `{spec.target}`.",
        run_tags=NO_RETRIES,
        executor_def=executor,
    )


def increment_job(spec: RouteSpec, executor: ExecutorDefinition) -> UnresolvedAssetJobDefinition:
    """One increment.

    Args:
        spec: The campaign; its `handoff_id` is set.
        executor: Where its step runs.
    """
    return define_asset_job(
        increment_job_name(spec),
        selection=AssetSelection.assets(asset_key(spec, "incremental")),
        description=f"Load into `{spec.target}` what changed in `{spec.source}`.",
        run_tags=RUN_RETRIES,
        executor_def=executor,
    )
