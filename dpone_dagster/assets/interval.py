"""`loaded_target` by intervals: a partition is a run's interval, and each run of one is a campaign of its own."""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    BackfillPolicy,
    DagsterRun,
    DynamicOut,
    DynamicOutput,
    In,
    MetadataValue,
    Nothing,
    OpDefinition,
    OpExecutionContext,
    Out,
    TimeWindowPartitionsDefinition,
    graph_asset,
    op,
)

from dpone_dagster.assets.failures import RETRIES, not_run_again, shown_to_dagster
from dpone_dagster.assets.names import kinds_of, loaded_key, plain_metadata, pool_name
from dpone_dagster.assets.watchdog import run_is_alive
from dpone_dagster.campaign.errors import CampaignActive, DponeError, IntervalInvalid
from dpone_dagster.campaign.interval import Interval
from dpone_dagster.campaign.ledger import FINISHED, Phase, Worker
from dpone_dagster.campaign.overrides import RunOptions
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec, IntervalPolicy
from dpone_dagster.engine.card import CampaignCard
from dpone_dagster.engine.complete import complete
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.load import collect, load_lane
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.resources.connections import DponeConnections
from dpone_dagster.settings import load_spec

Context = OpExecutionContext | AssetExecutionContext
_DAY, _TIME = "%Y-%m-%d", "%Y-%m-%d-%H%M"
_AT_MIDNIGHT = "0 0 "


def partitions_by(policy: IntervalPolicy) -> TimeWindowPartitionsDefinition:
    """One partition an interval, whatever the zone's clocks do meanwhile.

    Args:
        policy: Of the manifest.
    """
    form = _DAY if policy.cron.startswith(_AT_MIDNIGHT) else _TIME
    return TimeWindowPartitionsDefinition(
        start=datetime.fromisoformat(policy.start),
        end=None if policy.end is None else datetime.fromisoformat(policy.end),
        fmt=form,
        cron_schedule=policy.cron,
        timezone=policy.timezone,
    )


@dataclass(frozen=True)
class IntervalLoad:
    """A manifest whose campaigns are made when their runs start.

    Attributes:
        template: Read for any interval: names, lanes, policy.
        manifest: Its file, which each run reads for its own interval.
        partitions: Of the asset.
    """

    template: CampaignSpec
    manifest: Path
    partitions: TimeWindowPartitionsDefinition

    def campaign_of(self, context: Context, connections: DponeConnections, *, ending: bool = False) -> CampaignSpec:
        """The campaign of the run's partitions: another one each time that they are materialized.

        A re-execution goes on with the last campaign of the runs that it comes from, unless that is finished.

        Args:
            context: Of the step.
            connections: Say where the campaigns of those runs are looked up.
            ending: Whether the step ends a campaign, which may be finished if the step is tried again.

        Raises:
            IntervalInvalid: The run names no partition.
            ManifestInvalid: The manifest cannot be read for this interval.
        """
        if not (context.has_partition_key or context.has_partition_key_range):
            raise IntervalInvalid(
                "the run names no interval", next_step="Materialize one or more partitions of the asset."
            )
        own = self._made_by(context.run_id, context)
        if context.run.parent_run_id is None:
            return own
        for run_id in _lineage(context):
            spec = own if run_id == context.run_id else self._made_by(run_id, context)
            phase = status(spec, connections.connector(spec)).phase
            if phase is not Phase.PLANNED:
                return own if phase in FINISHED and not ending else spec
        return own

    def _made_by(self, run_id: str, context: Context) -> CampaignSpec:
        """The campaign that this run would make of the partitions."""
        keys = context.partition_key_range
        start = self.partitions.time_window_for_partition_key(keys.start).start
        end = self.partitions.time_window_for_partition_key(keys.end).end
        spec = load_spec(self.manifest, RunOptions(interval=Interval(start, end, dag_run_id=run_id)))
        return replace(spec, backfill_id=f"{keys.start}_{keys.end}_{run_id}")


def _lineage(context: Context) -> Iterator[str]:
    """The run and those that it is a re-execution of, the latest first."""
    run: DagsterRun | None = context.run
    while run is not None:
        yield run.run_id
        run = context.instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None


class _Told:
    """What a lane tells the log; the partition is shown when all of it is there."""

    def __init__(self, context: OpExecutionContext) -> None:
        self._log = context.log

    def committed(self, chunk: Chunk, receipt: ChunkReceipt, seconds: float, *, replayed: bool) -> None:
        """Nothing: progress is told often enough."""

    def failed(self, chunk: Chunk, error: DponeError) -> None:
        """Log what stopped the chunk."""
        self._log.error(f"chunk {chunk.index} {chunk} failed: {error}")

    def progress(self, card: CampaignCard) -> None:
        """Log the campaign's counters."""
        progress = card.progress
        self._log.info(f"{progress.committed:,} of {progress.total:,} chunks, {progress.rows_loaded:,} rows")


def build_interval_target(load: IntervalLoad) -> AssetsDefinition:
    """The live table by intervals. A backfill is one run a contiguous range, whose chunks are cut as the manifest says.

    Args:
        load: What is loaded.
    """
    spec = load.template
    prepare_op, lane_op, collect_op = _prepare_op(load), _lane_op(load), _collect_op(load)

    @graph_asset(
        key=loaded_key(spec),
        description=f"`{spec.source}` by intervals, each replaced in `{spec.target}` by its own run.",
        partitions_def=load.partitions,
        backfill_policy=BackfillPolicy.single_run(),
        group_name=spec.dataset,
        kinds=kinds_of(spec),
        owners=list(spec.owners),
        tags=spec.tags,
        metadata={
            "manifest": MetadataValue.path(str(load.manifest)),
            "source": str(spec.source),
            "table": str(spec.target),
        },
    )
    def loaded_target():  # type: ignore[no-untyped-def]  # Dagster calls it once, to see how the ops are wired
        return collect_op(prepare_op().map(lane_op).collect())

    return loaded_target


def _prepare_op(load: IntervalLoad) -> OpDefinition:
    @op(name=f"{load.template.dataset}_prepare", out=DynamicOut(Nothing), retry_policy=RETRIES)
    def prepare_interval(
        context: OpExecutionContext, dpone_connections: DponeConnections
    ) -> Iterator[DynamicOutput[None]]:
        """Prove that the interval can be loaded, and create its campaign; or re-check the one of the run before."""
        not_run_again(context)
        # Another run may be loading a range that overlaps; the next try may find it done.
        with shown_to_dagster(CampaignActive):
            spec = load.campaign_of(context, dpone_connections)
            prepare(spec, dpone_connections.connector(spec), intent="join", run_id=context.run_id)
        context.log.info(f"campaign {spec.backfill_id} ({spec.run_key[:12]}): {spec.plan.count:,} chunks")
        for lane in range(min(spec.lanes, spec.plan.count)):
            yield DynamicOutput(None, mapping_key=str(lane))

    return prepare_interval


def _lane_op(load: IntervalLoad) -> OpDefinition:
    @op(
        name=f"{load.template.dataset}_lane",
        ins={"prepared": In(Nothing)},
        out=Out(Nothing),
        pool=pool_name(load.template),
        retry_policy=RETRIES,
    )
    def load_interval(context: OpExecutionContext, dpone_connections: DponeConnections) -> None:
        """Take the next free chunk of the interval until none is left."""
        with shown_to_dagster(CampaignActive):
            spec = load.campaign_of(context, dpone_connections)
            connector = dpone_connections.connector(spec)
            # A re-execution may have begun here; preparing what is prepared clears the stop of the run before.
            if context.run.parent_run_id:
                prepare(spec, connector, intent="join", run_id=context.run_id)
            worker = Worker(context.run_id, int(context.get_mapping_key() or 0), socket.gethostname(), os.getpid())
            everything = ChunkSelection.all(spec.plan.count)
            result = load_lane(spec, connector, worker, everything, _Told(context), run_is_alive)
            context.log.info(f"{result.committed} chunks committed, {result.rows:,} rows, {result.failed} failed")
            if result.failed or result.stopped is not None:
                collect(spec, connector, everything)

    return load_interval


def _collect_op(load: IntervalLoad) -> OpDefinition:
    @op(
        name=f"{load.template.dataset}_collect",
        ins={"lanes": In(Nothing)},
        out=Out(Nothing),
        retry_policy=RETRIES,
    )
    def collect_interval(context: AssetExecutionContext, dpone_connections: DponeConnections) -> None:
        """Prove by the ledger that every chunk of the interval is committed, and complete its campaign."""
        with shown_to_dagster(CampaignActive):
            spec = load.campaign_of(context, dpone_connections, ending=True)
            connector = dpone_connections.connector(spec)
            progress = collect(spec, connector, ChunkSelection.all(spec.plan.count))
            evidence = complete(spec, connector, context.run_id)
        facts = plain_metadata(
            {
                "rows": progress.rows_loaded,
                "chunks": progress.total,
                "window": f"{spec.plan.chunk(0).lower} to {spec.plan.chunk(spec.plan.count - 1).upper}",
                "campaign": spec.backfill_id,
                **(evidence.numbers if evidence else {}),
            }
        )
        for key in context.partition_keys:
            context.add_asset_metadata(facts, asset_key=loaded_key(spec), partition_key=key)

    return collect_interval
