"""The course of a campaign in numbers: groups of chunks, lanes, slices of time, spread. Bounded, whatever its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dpone_dagster.campaign.ledger import ChunkState

_LEAST_SLICE_MILLISECONDS = 100
_LEAST_LENGTH = 1e-6  # of a slice; what is shorter is lost beside the number of its place


@dataclass(frozen=True)
class Slices:
    """A stretch of time in equal slices, from which the server counts the number of one.

    Attributes:
        start: Of the first slice, by the target server's clock.
        milliseconds: Length of each.
        count: How many there are.
    """

    start: datetime
    milliseconds: int
    count: int

    @classmethod
    def of(cls, start: datetime, end: datetime, at_most: int) -> Slices:
        """Cut a stretch of time.

        Args:
            start: Its beginning.
            end: Its end.
            at_most: Slices; fewer where one would be shorter than a tenth of a second.
        """
        whole = max(int((end - start) / timedelta(milliseconds=1)), 0) + 1
        length = max(_LEAST_SLICE_MILLISECONDS, -(-whole // at_most))
        return cls(start, length, -(-whole // length))

    @property
    def seconds(self) -> float:
        """Length of one slice."""
        return self.milliseconds / 1_000

    @property
    def end(self) -> datetime:
        """Of the last slice."""
        return self.start + timedelta(milliseconds=self.milliseconds * self.count)


@dataclass(frozen=True)
class Course:
    """When lanes were at work.

    Attributes:
        started_at: The first claim that is still on record; None before any.
        ended_at: The last commit or failure, or now while a chunk runs; None likewise.
        now: The server's clock.
    """

    started_at: datetime | None
    ended_at: datetime | None
    now: datetime


@dataclass(frozen=True)
class ChunkGroup:
    """Neighbouring chunks, counted by effective state.

    Attributes:
        first: Index of the first.
        last: Index of the last.
        rows: Rows of the committed ones.
        seconds: Sum of their durations.
        longest_seconds: The longest of these.
    """

    first: int
    last: int
    pending: int = 0
    running: int = 0
    committed: int = 0
    failed: int = 0
    lease_expired: int = 0
    rows: int = 0
    seconds: float = 0.0
    longest_seconds: float = 0.0

    @property
    def total(self) -> int:
        """Chunks of the group."""
        return self.last - self.first + 1

    @property
    def state(self) -> ChunkState:
        """What a person has to see of it first: trouble, then work, then what is left."""
        for state in (ChunkState.FAILED, ChunkState.LEASE_EXPIRED, ChunkState.RUNNING, ChunkState.PENDING):
            if getattr(self, str(state)):
                return state
        return ChunkState.COMMITTED


@dataclass(frozen=True)
class LaneTotals:
    """What one lane of one run did, as far as it was the last to have the chunk.

    Attributes:
        run_id: The run.
        lane: Its number in the run.
        host: Where it ran.
        chunks: Committed ones.
        rows: Rows of these.
        busy_seconds: Sum of their durations.
        started_at: Its first claim.
        ended_at: Its last commit or failure, or now while it works.
    """

    run_id: str
    lane: int
    host: str
    chunks: int
    rows: int
    busy_seconds: float
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True)
class LaneSpan:
    """What a lane finished within one slice of time, from its first start to its last end.

    Attributes:
        run_id: The run.
        lane: Its number in the run.
        state: `committed`, `failed` or `running`.
        first: Lowest chunk.
        last: Highest chunk; not all between them are the lane's.
        chunks: How many.
        rows: Rows committed.
        started_at: When the first of them was claimed.
        ended_at: When the last of them ended, or now.
    """

    run_id: str
    lane: int
    state: str
    first: int
    last: int
    chunks: int
    rows: int
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True)
class SliceRows:
    """What was committed within one slice of time.

    Attributes:
        place: Number of the slice, from 0.
        chunks: How many were committed in it.
        rows: Rows of these.
        seconds: Sum of their durations.
    """

    place: int
    chunks: int
    rows: int
    seconds: float


def rows_over_time(parts: Sequence[SliceRows], slices: Slices, count: int) -> list[float]:
    """Rows of each of `count` equal stretches of the whole time: a chunk's rows came evenly while it was loaded.

    Args:
        parts: What was committed when.
        slices: The slices of these.
        count: Stretches wanted.

    Returns:
        As many numbers, which sum up to the rows of all parts.
    """
    found = [0.0] * count
    stretch = slices.count / count  # in slices
    for part in parts:
        end = part.place + 0.5
        length = min(max(part.seconds / part.chunks / slices.seconds, _LEAST_LENGTH), end)
        first, last = int((end - length) / stretch), min(int(end / stretch), count - 1)
        for place in range(first, last + 1):
            covered = max(0.0, min(end, (place + 1) * stretch) - max(end - length, place * stretch))
            found[place] += part.rows * covered / length
    return found


@dataclass(frozen=True)
class Spread:
    """A measure of the committed chunks from the smallest to the largest, by samples at equal steps.

    Attributes:
        count: Chunks.
        total: Sum of all.
        samples: (place from 1, value), ascending; the first and the last chunk are among them.
    """

    count: int = 0
    total: float = 0.0
    samples: tuple[tuple[int, float], ...] = ()

    def at(self, share: float) -> float:
        """The value that this share of the chunks does not exceed; 0 without chunks.

        Args:
            share: 0 for the smallest, 0.5 for the median, 1 for the largest.
        """
        place = max(1.0, share * self.count)
        return next((value for sampled, value in self.samples if sampled >= place), 0.0)

    @property
    def mean(self) -> float:
        """Average."""
        return self.total / self.count if self.count else 0.0

    @property
    def skew(self) -> float:
        """The largest as a multiple of the average; 1 if all are alike."""
        return self.at(1.0) / self.mean if self.mean else 1.0


@dataclass(frozen=True)
class FailureGroup:
    """Failed chunks of one error code.

    Attributes:
        code: The code.
        chunks: How many.
        first: The first of them.
        error: The message of that one.
    """

    code: str
    chunks: int
    first: int
    error: str


@dataclass(frozen=True)
class ReceiptSums:
    """Sums over a campaign's chunk receipts.

    Attributes:
        receipts: How many there are.
        rows: Rows that they prove.
        bytes: Bytes moved.
        nulled: Values that `on_bad_value: null` set to NULL, a column.
        first_at: When the first was committed.
        last_at: When the last was.
    """

    receipts: int = 0
    rows: int = 0
    bytes: int = 0
    nulled: Mapping[str, int] = field(default_factory=dict)
    first_at: datetime | None = None
    last_at: datetime | None = None


@dataclass(frozen=True)
class StepRecord:
    """A step of a run as the audit rows have it.

    Attributes:
        run_id: The run.
        step: `validate`, `publish`, `handoff`, `rollback`, `increment`, ….
        status: `succeeded` or `failed`.
        seconds: Duration.
        recorded_at: When it ended.
        facts: What it recorded of itself.
    """

    run_id: str
    step: str
    status: str
    seconds: float
    recorded_at: datetime
    facts: Mapping[str, object]


@dataclass(frozen=True)
class Steps:
    """The latest steps, newest first, and how many there are in all."""

    total: int = 0
    latest: Sequence[StepRecord] = ()
