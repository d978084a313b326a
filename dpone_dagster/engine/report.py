"""Everything that a report shows of a campaign, in any phase: read over one connection, and nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dpone_dagster.campaign.history import (
    ChunkGroup,
    Course,
    FailureGroup,
    LaneSpan,
    LaneTotals,
    ReceiptSums,
    SliceRows,
    Slices,
    Spread,
    Steps,
)
from dpone_dagster.campaign.ledger import CampaignRecord, ChunkRecord
from dpone_dagster.campaign.receipts import PublicationReceipt
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.campaign.watermark import Checkpoint
from dpone_dagster.engine.inspect import CampaignStatus, status_of
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.engine.validate import ValidationEvidence
from dpone_dagster.ports.target import Connector, Target

MOST_GROUPS = 800
MOST_LANES = 32
_MOST_SPANS = 4_000
_MOST_SLICES = 240
_SHOWN = 20


@dataclass(frozen=True)
class Timeline:
    """Who loaded what when.

    Attributes:
        slices: The time of the campaign's lanes, cut.
        committed: What was committed in each slice.
        lane_count: Lanes there were.
        lanes: The ones that are shown.
        spans: What these did.
    """

    slices: Slices
    committed: tuple[SliceRows, ...]
    lane_count: int
    lanes: tuple[LaneTotals, ...]
    spans: tuple[LaneSpan, ...]


@dataclass(frozen=True)
class Chunks:
    """What became of the chunks.

    Attributes:
        groups: All of them by index, each alone or with its neighbours.
        slowest: Those that took, or take, longest.
        rows: Spread of their rows.
        seconds: Spread of their durations.
        failures: The failed ones by error code.
        receipts: What their receipts prove.
        foreign_receipts: Receipts of another plan or contract.
    """

    groups: tuple[ChunkGroup, ...]
    slowest: tuple[ChunkRecord, ...]
    rows: Spread
    seconds: Spread
    failures: tuple[FailureGroup, ...]
    receipts: ReceiptSums
    foreign_receipts: int


@dataclass(frozen=True)
class CampaignReport:
    """A campaign from its plan to its increments.

    Attributes:
        status: Where it stands.
        made_at: When it was read, by this machine's clock.
        chunks: None if it was never prepared.
        timeline: None before the first chunk was claimed.
        steps: The latest steps of its runs.
        head: The latest publication of the target, whoever made it.
        checkpoint: Where its increments start; None without a handoff.
        increments: Those that were applied to the generation it published.
    """

    status: CampaignStatus
    made_at: datetime
    chunks: Chunks | None = None
    timeline: Timeline | None = None
    steps: Steps = field(default_factory=Steps)
    head: PublicationReceipt | None = None
    checkpoint: Checkpoint | None = None
    increments: Steps = field(default_factory=Steps)

    @property
    def evidence(self) -> ValidationEvidence | None:
        """Of the last validation."""
        record = self.status.record
        if record is None or record.validation is None:
            return None
        return ValidationEvidence.from_dict(record.validation)

    @property
    def superseded_by(self) -> PublicationReceipt | None:
        """The publication that has replaced this campaign's since; its own rollback is none."""
        mine = self.status.publication
        if mine is None or self.head is None or self.head.run_key == mine.run_key:
            return None
        return self.head if self.head.sequence > mine.sequence else None


def campaign_report(spec: CampaignSpec, connector: Connector) -> CampaignReport:
    """Read a campaign's report. Changes nothing; the server aggregates, so a million chunks take no more memory.

    Args:
        spec: The campaign.
        connector: Opens the connection.
    """
    with target_session(connector, "report") as target:
        status = status_of(spec, target)
        if status.record is None:
            return CampaignReport(status, datetime.now(UTC))
        return _report(status, status.record, target)


def _report(status: CampaignStatus, record: CampaignRecord, target: Target) -> CampaignReport:
    history, receipt = target.history, status.publication
    since = record.created_at or datetime.now(UTC)
    return CampaignReport(
        status=status,
        made_at=datetime.now(UTC),
        chunks=_chunks(record, target),
        timeline=_timeline(record.run_key, history.course(record.run_key), target),
        steps=history.campaign_steps(record.dataset, since, _SHOWN),
        head=target.publications.head(record.target),
        checkpoint=target.publications.checkpoint(record.target, receipt.generation) if receipt else None,
        increments=history.increments(receipt.generation, _SHOWN) if receipt else Steps(),
    )


def _chunks(record: CampaignRecord, target: Target) -> Chunks:
    history, run_key = target.history, record.run_key
    return Chunks(
        groups=tuple(history.groups(run_key, -(-record.chunk_count // MOST_GROUPS))),
        slowest=tuple(history.slowest(run_key, _SHOWN // 2)),
        rows=history.rows_spread(run_key),
        seconds=history.seconds_spread(run_key),
        failures=tuple(history.failures(run_key, _SHOWN)),
        receipts=history.receipt_sums(run_key),
        foreign_receipts=target.ledger.receipt_totals(record).foreign,
    )


def _timeline(run_key: str, course: Course, target: Target) -> Timeline | None:
    if course.started_at is None or course.ended_at is None:
        return None
    history = target.history
    count, lanes = history.lanes(run_key, MOST_LANES)
    fine = Slices.of(course.started_at, course.ended_at, _MOST_SLICES)
    coarse = Slices.of(course.started_at, course.ended_at, min(_MOST_SLICES, _MOST_SPANS // max(1, len(lanes))))
    return Timeline(
        slices=fine,
        committed=tuple(history.committed_rows(run_key, fine)),
        lane_count=count,
        lanes=_by_run(lanes),
        spans=tuple(history.spans(run_key, coarse, MOST_LANES)),
    )


def _by_run(lanes: Sequence[LaneTotals]) -> tuple[LaneTotals, ...]:
    """Run by run in the order of their starts, each run's lanes by number."""
    begun: dict[str, datetime] = {}
    for lane in lanes:
        begun[lane.run_id] = min(begun.get(lane.run_id, lane.started_at), lane.started_at)
    return tuple(sorted(lanes, key=lambda lane: (begun[lane.run_id], lane.run_id, lane.lane)))
