"""`shadow`, or a `direct` campaign's `loaded_target`: its chunks as partitions, loaded by lanes that are steps."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    DagsterRun,
    DynamicOut,
    DynamicOutput,
    In,
    MetadataValue,
    Nothing,
    OpDefinition,
    OpExecutionContext,
    Out,
    StaticPartitionsDefinition,
    graph_asset,
    op,
)

from dpone_dagster.assets.card import card_metadata
from dpone_dagster.assets.failures import RETRIES, not_run_again, shown_to_dagster
from dpone_dagster.assets.lane_events import LaneEvents, partition_metadata, show_loaded_before
from dpone_dagster.assets.mapped import (
    backfill_policy,
    bound_pool,
    is_mapped,
    mapping_summary,
    plan_tags,
    selected_chunks,
)
from dpone_dagster.assets.names import COMMAND_TAG, kinds_of, loaded_key, partitions_of, pool_name
from dpone_dagster.assets.watchdog import run_is_alive
from dpone_dagster.campaign.errors import CampaignActive, ChunkFailed, StoppedByPeer
from dpone_dagster.campaign.jobnames import campaign_job_name, retry_job_name
from dpone_dagster.campaign.ledger import Phase, Worker
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.card import read_card
from dpone_dagster.engine.complete import DIFFERING, FIRST_OTHER_DIGESTS, OTHER_DIGESTS, complete
from dpone_dagster.engine.load import LaneResult, chunks_of_each, collect, collected, collected_again, load_lane
from dpone_dagster.engine.prepare import Intent, prepare
from dpone_dagster.engine.sessions import hold_campaign, prepared_campaign, target_session
from dpone_dagster.ports.target import Connector
from dpone_dagster.resources.connections import DponeConnections

# Dagster writes one event a partition when collect is done; one by one that costs 14 ms each. Its own storage of SQLite
# files knows no batches; a command's does.
EVENT_BATCH = ("DAGSTER_EVENT_BATCH_SIZE", "100")


def build_shadow(spec: CampaignSpec, manifest_path: Path) -> AssetsDefinition:
    """The asset whose partitions are the plan's chunks (or groups of them).

    Steps hand over nothing but their order, so that they need no storage in common. Runs of different partitions may
    work side by side.

    Args:
        spec: The campaign.
        manifest_path: Where it was read from.
    """
    prepare_op, lane_op, collect_op = _prepare_op(spec), _lane_op(spec), _collect_op(spec)

    @graph_asset(
        key=loaded_key(spec),
        description=f"`{spec.source}` in {spec.plan.count:,} chunks, each loaded once into `{spec.written}`.",
        partitions_def=StaticPartitionsDefinition(partitions_of(spec).keys()),
        backfill_policy=backfill_policy(spec),
        group_name=spec.dataset,
        kinds=kinds_of(spec),
        owners=list(spec.owners),
        tags=spec.tags,
        metadata={
            "manifest": MetadataValue.path(str(manifest_path)),
            "source": str(spec.source),
            "table": str(spec.written),
            "chunks": spec.plan.count,
        },
    )
    def shadow():  # type: ignore[no-untyped-def]  # Dagster calls it once, to see how the ops are wired
        return collect_op(prepare_op().map(lane_op).collect())

    return shadow


def _prepare_op(spec: CampaignSpec) -> OpDefinition:
    @op(
        name=_prepare_name(spec),
        out=DynamicOut(Nothing),
        # Where a backfill is many runs, those that find no slot wait in the queue, not as processes.
        pool=pool_name(spec) if spec.mapping.mapped else None,
        tags=plan_tags(spec),
        retry_policy=RETRIES,
    )
    def prepare_campaign(
        context: OpExecutionContext, dpone_connections: DponeConnections
    ) -> Iterator[DynamicOutput[None]]:
        """Prove that the campaign can be done and create it, or re-check the one there is; a command has done that."""
        # Runs of single partitions work side by side; the campaign's own job wants it for itself.
        if spec.direct:
            not_run_again(context)
        intent: Intent = "run" if context.job_name == campaign_job_name(spec) else "join"
        with shown_to_dagster():
            chosen = selected_chunks(context, spec)
            bound_pool(context, spec)
            connector = dpone_connections.connector(spec)
            if prepared_by_command(context.run):
                with target_session(connector, "prepare") as target:
                    if intent == "run":
                        hold_campaign(spec, target)  # another run may have begun meanwhile
                    record = prepared_campaign(spec, target)
            else:
                record = prepare(spec, connector, intent=intent, run_id=context.run_id)
            if record.phase is not Phase.PREPARED:  # else nothing is loaded yet
                show_loaded_before(context, spec, connector, chosen)
        context.log.info(f"campaign {spec.dataset} is {record.phase}; {chosen.count:,} chunks selected")
        facts = mapping_summary(context, spec, chosen)
        for lane in range(1 if is_mapped(context, spec) else min(spec.lanes, chosen.count)):
            yield DynamicOutput(None, mapping_key=str(lane), metadata=facts)

    return prepare_campaign


def _lane_op(spec: CampaignSpec) -> OpDefinition:
    @op(
        name=f"{spec.dataset}_lane",
        ins={"prepared": In(Nothing)},
        out=Out(Nothing),
        pool=pool_name(spec),
        tags=plan_tags(spec),
        retry_policy=RETRIES,
    )
    def load_chunks(context: OpExecutionContext, dpone_connections: DponeConnections) -> None:
        """Take the next free chunk until none is left."""
        # An increment holds the table of a `direct` campaign for a while; the next try may find it free.
        with shown_to_dagster(*((CampaignActive,) if spec.direct else ())):
            chosen = selected_chunks(context, spec)
            connector = dpone_connections.connector(spec)
            if _prepare_is_left_out(context, spec):
                prepare(spec, connector, intent="join", run_id=context.run_id)
                show_loaded_before(context, spec, connector, chosen)
            lane = int(context.get_mapping_key() or 0)
            worker = Worker(context.run_id, lane, socket.gethostname(), os.getpid())
            loaded = spec.beside_others() if is_mapped(context, spec) else spec
            with contextlib.closing(LaneEvents(context, spec, connector)) as events:
                result = load_lane(loaded, connector, worker, chosen, events, run_is_alive)
            context.log.info(
                f"lane {lane}: {result.committed} chunks committed, {result.replayed} of them by their receipt, "
                f"{result.rows:,} rows, {result.failed} failed"
            )
            _require_all_committed(spec, connector, chosen, result)

    return load_chunks


def prepared_by_command(run: DagsterRun) -> bool:
    """Whether a command has prepared the campaign and started this run at once. A re-execution inherits the tag.

    What changes in between is found where it would be found if it changed right after this step.

    Args:
        run: Of the step.
    """
    return COMMAND_TAG in run.tags and run.parent_run_id is None


def _prepare_is_left_out(context: OpExecutionContext, spec: CampaignSpec) -> bool:
    """Whether this is a re-execution of failed steps only, which takes the campaign up without its first step."""
    steps = context.run.step_keys_to_execute
    return bool(steps) and not any(step.endswith(f".{_prepare_name(spec)}") for step in steps or ())


def _require_all_committed(
    spec: CampaignSpec, connector: Connector, chosen: ChunkSelection, result: LaneResult
) -> None:
    """A lane that was stopped has failed, so that a re-execution from failure runs it again, beside its peers."""
    if result.stopped is None and not result.failed:
        return
    try:
        collect(spec, connector, chosen)
    except ChunkFailed as error:
        if result.failed:
            raise
        raise StoppedByPeer(f"{result.stopped}; {error.message}", findings=error.findings) from None


def _collect_op(spec: CampaignSpec) -> OpDefinition:
    @op(
        name=f"{spec.dataset}_collect",
        ins={"lanes": In(Nothing)},
        out=Out(Nothing),
        tags=plan_tags(spec),
        retry_policy=RETRIES,
    )
    def collect_chunks(context: AssetExecutionContext, dpone_connections: DponeConnections) -> None:
        """Prove by the ledger that every selected chunk is committed, and show each partition with its numbers."""
        partitions = partitions_of(spec)
        with shown_to_dagster():
            chosen = selected_chunks(context, spec)
            connector = dpone_connections.connector(spec)
            with target_session(connector, "collect") as target:
                if context.run.job_name == retry_job_name(spec):
                    collected_again(spec, target)
                else:
                    collected(spec, target, chosen)
                if spec.direct:
                    _complete(context, spec, connector)
                if not (context.has_partition_key or context.has_partition_key_range):
                    return  # started for the whole plan without naming partitions: the lanes' own events stand
                # Dagster records every partition of the run again, and would hide the lanes' metadata behind none.
                keys = sorted(context.partition_keys)
                groups = chunks_of_each(spec, target, map(partitions.chunks_of, keys))
                shown = [(key, partition_metadata(spec, chunks)) for key, chunks in zip(keys, groups, strict=True)]
                card = card_metadata(read_card(spec, target))
        mapping = mapping_summary(context, spec, chosen)
        for key, facts in shown:
            context.add_asset_metadata({**facts, **mapping}, asset_key=loaded_key(spec), partition_key=key)
        # Dagster records them in no order of ours, and the asset's page shows the one that is recorded last.
        context.add_asset_metadata(card, asset_key=loaded_key(spec))
        os.environ.setdefault(*EVENT_BATCH)

    return collect_chunks


def _complete(context: AssetExecutionContext, spec: CampaignSpec, connector: Connector) -> None:
    """Publish a `direct` campaign with its last chunk; nothing is left to be compared or swapped."""
    # Lanes of another run of the same backfill may still be closing their sessions.
    with shown_to_dagster(CampaignActive):
        evidence = complete(spec, connector, context.run_id)
    numbers = evidence.numbers if evidence is not None else {}
    if numbers.get(DIFFERING):
        context.log.warning(f"{numbers[DIFFERING]} chunks wrote another number of rows than they read")
    if numbers.get(OTHER_DIGESTS):
        first = numbers[FIRST_OTHER_DIGESTS]
        context.log.warning(f"{numbers[OTHER_DIGESTS]} chunks wrote other rows than they read: {first} …")


def _prepare_name(spec: CampaignSpec) -> str:
    return f"{spec.dataset}_prepare"
