"""What a lane shows in Dagster: a partition's materialization the moment its last chunk commits, failures, progress."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from dagster import AssetMaterialization, AssetObservation, MetadataValue, OpExecutionContext

from dpone_dagster.assets.card import card_metadata
from dpone_dagster.assets.names import loaded_key, partitions_of
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.ledger import ChunkRecord
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.card import CampaignCard
from dpone_dagster.engine.load import loaded_before
from dpone_dagster.ports.target import Connector, Target

Metadata = dict[str, bool | int | float | str | MetadataValue]
# Where chunks take longer than this, the card is shown without one.
_QUIET_SECONDS = 60.0
_logger = logging.getLogger(__name__)


class LaneEvents:
    """A lane's observer. Nothing here ever fails the lane: the database has the truth already, Dagster may lag.

    Args:
        context: Of the lane's step.
        spec: The campaign.
        connector: Opens the connection by which grouped partitions are counted; none otherwise.
    """

    def __init__(self, context: OpExecutionContext, spec: CampaignSpec, connector: Connector) -> None:
        self._context = context
        self._spec = spec
        self._connector = connector
        self._partitions = partitions_of(spec)
        self._target: Target | None = None
        self._card: dict[str, MetadataValue] = {}
        self._shown_at = -_QUIET_SECONDS
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dpone-events")
        self._written: Future[None] | None = None

    def committed(self, chunk: Chunk, receipt: ChunkReceipt, seconds: float, *, replayed: bool) -> None:
        """Show the chunk's partition as materialized, if this was its last chunk.

        The event is written while the lane works on its next chunk: that takes Dagster longer than a small chunk takes.
        """
        with _never_failing():
            key = self._partitions.key_of(chunk.index)
            if self._partitions.grouped:
                facts = self._group_metadata(key)
            else:
                facts = _metadata(receipt.rows, seconds) | {
                    "receipt_id": receipt.receipt_id,
                    "range": str(chunk),
                    "replayed": replayed,
                }
            if facts is not None:
                # What the asset's page shows is the latest partition's, so each bears the card.
                shown = {**facts, **self._card}
                self._shown_at = time.monotonic()
                event = AssetMaterialization(loaded_key(self._spec), partition=key, metadata=shown)
                self._wait_for_writer()
                self._written = self._writer.submit(self._context.log_event, event)

    def _wait_for_writer(self) -> None:
        """No more than one event is ever behind, and its error is told once."""
        written, self._written = self._written, None
        if written is not None:
            with _never_failing():
                written.result()

    def failed(self, chunk: Chunk, error: DponeError) -> None:
        """Log what stopped the chunk; the step fails with it when the lane is through."""
        with _never_failing():
            self._context.log.error(f"chunk {chunk.index} {chunk} failed: {error}")

    def progress(self, card: CampaignCard) -> None:
        """Keep the card for the events to come, and log its counters.

        While no chunk of this run's first lane is committed, the card is an observation of its own, once a minute.
        """
        with _never_failing():
            self._card = card_metadata(card)
            progress = card.progress
            eta = "" if progress.eta_seconds is None else f", {progress.eta_seconds:,.0f} s to go"
            self._context.log.info(
                f"{progress.committed:,} of {progress.total:,} chunks, {progress.rows_loaded:,} rows, "
                f"{progress.rows_per_second:,.0f} rows/s{eta}"
            )
            if self._first_lane and time.monotonic() - self._shown_at >= _QUIET_SECONDS:
                self._shown_at = time.monotonic()
                self._context.log_event(AssetObservation(loaded_key(self._spec), metadata=self._card))

    @property
    def _first_lane(self) -> bool:
        return int(self._context.get_mapping_key() or 0) == 0

    def close(self) -> None:
        """Wait for the last event, and close the connection of grouped partitions."""
        self._wait_for_writer()
        self._writer.shutdown()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._target is not None:
            self._target.close()
        self._target = None

    def _group_metadata(self, key: str) -> Metadata | None:
        """Whoever sees a group with nothing left shows it; twice is harmless, never is not possible."""
        try:
            return self._counted(key)
        except DponeError:
            self._disconnect()  # the next group gets a new connection
            raise

    def _counted(self, key: str) -> Metadata | None:
        if self._target is None:
            self._target = self._connector.target("events")
        group = ChunkSelection((self._partitions.chunks_of(key),))
        if self._target.ledger.progress(self._spec.run_key, group).remaining:
            return None
        return partition_metadata(self._spec, self._target.ledger.chunks(self._spec.run_key, group))


def show_loaded_before(
    context: OpExecutionContext, spec: CampaignSpec, connector: Connector, chosen: ChunkSelection
) -> None:
    """Show partitions that an earlier run has loaded; if this one fails, Dagster would call them failed with it.

    Args:
        context: Of the step.
        spec: The campaign; it is prepared.
        connector: Opens the connection.
        chosen: The run's chunks.
    """
    if not (context.has_partition_key or context.has_partition_key_range):
        return
    partitions = partitions_of(spec)
    groups = map(partitions.chunks_of, sorted(context.partition_keys))
    with _never_failing():
        for chunks in loaded_before(spec, connector, chosen, groups):
            key, facts = partitions.key_of(chunks[0].index), partition_metadata(spec, chunks)
            context.log_event(AssetMaterialization(loaded_key(spec), partition=key, metadata=facts))


def partition_metadata(spec: CampaignSpec, chunks: Sequence[ChunkRecord]) -> Metadata:
    """What the ledger knows of a partition's committed chunks.

    Args:
        spec: The campaign.
        chunks: All chunks of one partition, by index.
    """
    facts = _metadata(sum(c.rows or 0 for c in chunks), sum(c.seconds or 0.0 for c in chunks))
    first, last = chunks[0], chunks[-1]
    workers = {c.worker.run_id for c in chunks if c.worker is not None}
    facts["loaded_in_run"] = ", ".join(sorted(workers))
    if len(chunks) == 1:
        return facts | {"receipt_id": first.receipt_id or "", "range": str(spec.plan.chunk(first.index))}
    return facts | {
        "chunks": f"{first.index} to {last.index}",
        "receipts": sum(c.receipt_id is not None for c in chunks),
    }


def _metadata(rows: int, seconds: float) -> Metadata:
    return {
        "rows": rows,
        "dagster/partition_row_count": rows,
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / seconds) if seconds > 0 else 0,
    }


@contextlib.contextmanager
def _never_failing() -> Iterator[None]:
    try:
        yield
    except Exception:  # whatever the event log's storage raises; an interrupt of Dagster is no `Exception`
        _logger.warning("an event could not be shown in Dagster; the ledger has it", exc_info=True)
