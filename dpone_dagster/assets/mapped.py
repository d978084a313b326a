"""A run of the shadow: what it was launched with, and what it may do where a backfill is several runs."""

from __future__ import annotations

from dagster import AssetExecutionContext, BackfillPolicy, JsonMetadataValue, MetadataValue, OpExecutionContext

from dpone_dagster.assets.names import partitions_of, pool_name
from dpone_dagster.campaign.errors import PlanDrift
from dpone_dagster.campaign.jobnames import campaign_job_name, retry_job_name
from dpone_dagster.campaign.mapping import the_range
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec

Context = OpExecutionContext | AssetExecutionContext
_PLAN_TAG = "dpone/plan_digest"
_TAG_LENGTH = 32  # a tag of an op holds 63 characters


def backfill_policy(spec: CampaignSpec) -> BackfillPolicy:
    """How Dagster cuts a partition backfill into runs, each of one contiguous range.

    Args:
        spec: The campaign.
    """
    per_run = spec.mapping.partitions_per_run(len(partitions_of(spec)))
    return BackfillPolicy.single_run() if per_run is None else BackfillPolicy.multi_run(per_run)


def plan_tags(spec: CampaignSpec) -> dict[str, str]:
    """Tags of the campaign's ops, by which a run keeps the plan that it was launched with.

    Args:
        spec: The campaign.
    """
    return {_PLAN_TAG: _digest(spec)}


def is_mapped(context: Context, spec: CampaignSpec) -> bool:
    """Whether this run is one of several; the campaign's own jobs are always the only one.

    Args:
        context: Of the step.
        spec: The campaign.
    """
    return spec.mapping.mapped and context.job_name not in (campaign_job_name(spec), retry_job_name(spec))


def selected_chunks(context: Context, spec: CampaignSpec) -> ChunkSelection:
    """The chunks of the run's partitions, all of them where the run names none; proven before anything is opened.

    Args:
        context: Of the step.
        spec: The campaign.

    Raises:
        PlanDrift: The run was launched with another plan, or is a mapped one of no contiguous range.
    """
    _prove_launched_plan(context, spec)
    if not (context.has_partition_key or context.has_partition_key_range):
        return ChunkSelection.all(spec.plan.count)
    chosen = ChunkSelection(partitions_of(spec).selection(context.partition_keys))
    if is_mapped(context, spec):
        the_range(chosen)
    return chosen


def mapping_summary(context: Context, spec: CampaignSpec, chosen: ChunkSelection) -> dict[str, JsonMetadataValue]:
    """Where a mapped run stands in its backfill, of a few values whatever the plan; nothing where there is one run.

    Args:
        context: Of the step.
        spec: The campaign.
        chosen: The run's chunks.
    """
    if not is_mapped(context, spec):
        return {}
    start, stop = the_range(chosen)
    partitions = partitions_of(spec)
    summary: dict[str, object] = {
        "mode": spec.mapping.mode,
        "runs_of_all": spec.mapping.runs_of(len(partitions)),
        "max_active": spec.mapping.max_active,
        "pool": pool_name(spec),
        "first_partition": partitions.key_of(start),
        "last_partition": partitions.key_of(stop - 1),
        "first_chunk": start,
        "last_chunk": stop - 1,
        "chunks": chosen.count,
        "plan_digest": _digest(spec),
    }
    return {"backfill.mapping": MetadataValue.json(summary)}


def bound_pool(context: OpExecutionContext, spec: CampaignSpec) -> None:
    """See to it that the pool has no more slots than `max_active`, before the first lane takes one.

    A limit that somebody has set lower stays; the campaigns of one pool share the lowest.

    Args:
        context: Of the step.
        spec: The campaign.
    """
    most, pool, storage = spec.mapping.max_active, pool_name(spec), context.instance.event_log_storage
    if most is None:
        return
    limits = {found.name: found.limit for found in storage.get_pool_limits()}
    limit = limits.get(pool, context.instance.global_op_concurrency_default_limit)
    if limit is None or limit > most:
        storage.set_concurrency_slots(pool, most)
    elif limit < most:
        raised = f"`dagster instance concurrency set {pool} {most}` raises it"
        context.log.warning(f"pool {pool} has {limit} slots, fewer than max_active {most}; {raised}")


def _prove_launched_plan(context: Context, spec: CampaignSpec) -> None:
    """The plan of the manifest is the one that Dagster saw when it launched the run.

    A queued run may start long after its launch, and the chunks of its partitions would be others by then.
    """
    snapshot_id = context.run.execution_plan_snapshot_id
    if snapshot_id is None:
        return
    steps = context.instance.get_execution_plan_snapshot(snapshot_id).steps
    launched = {tags[_PLAN_TAG] for step in steps if _PLAN_TAG in (tags := step.tags or {})}
    if launched - {_digest(spec)}:
        raise PlanDrift(
            f"the manifest of {spec.dataset} was edited since this run was launched",
            next_step="Put the manifest back as it was; or, in Dagster, reload the code location and start anew.",
        )


def _digest(spec: CampaignSpec) -> str:
    return spec.plan_digest[:_TAG_LENGTH]
