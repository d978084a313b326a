"""The port `History` on a state file."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

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
from dpone_dagster.campaign.ledger import ChunkRecord, ChunkState
from dpone_dagster.campaign.selection import EVERY_CHUNK
from dpone_dagster.files.filerows import counters, now
from dpone_dagster.files.ledger import FileLedger
from dpone_dagster.ports.history import SPREAD_SAMPLES

_Lane = tuple[str, int]


class FileHistory:
    """What a campaign's file tells of its course.

    Args:
        ledger: Reads the files.
    """

    def __init__(self, ledger: FileLedger) -> None:
        self._ledger = ledger

    def course(self, run_key: str) -> Course:
        """When lanes were at work."""
        touched, at = self._touched(run_key), now()
        started = min((chunk.started_at for chunk in touched if chunk.started_at), default=None)
        ended = max((chunk.finished_at for chunk in touched if chunk.finished_at), default=None)
        return Course(started, at if any(map(_runs, touched)) else ended, at)

    def groups(self, run_key: str, size: int) -> list[ChunkGroup]:
        """All chunks by index, `size` of them a group."""
        chunks = self._chunks(run_key)
        return [_group(chunks[start : start + size]) for start in range(0, len(chunks), size)]

    def slowest(self, run_key: str, limit: int) -> list[ChunkRecord]:
        """Committed and running chunks that took longest, longest first; a running one's `seconds` are those so far."""
        at = now()
        shown = [chunk for chunk in self._touched(run_key) if _runs(chunk) or _done(chunk)]
        timed = [replace(chunk, seconds=_took(chunk, at)) for chunk in shown]
        return sorted(timed, key=lambda chunk: (-(chunk.seconds or 0.0), chunk.index))[:limit]

    def lanes(self, run_key: str, limit: int) -> tuple[int, list[LaneTotals]]:
        """How many lanes there were, and those that loaded the most rows, at most `limit`, by their start."""
        every = self._lanes(run_key)
        found = [_totals(lane, every[lane], now()) for lane in _most(every, limit)]
        return len(every), sorted(found, key=lambda each: (each.started_at, each.run_id, each.lane))

    def spans(self, run_key: str, slices: Slices, lanes: int) -> list[LaneSpan]:
        """What those `lanes` finished, at most one span a lane, slice and state, by start."""
        every, at = self._lanes(run_key), now()
        parts: dict[tuple[_Lane, str, int], list[ChunkRecord]] = defaultdict(list)
        for lane in _most(every, lanes):
            for chunk in every[lane]:
                parts[lane, _shown(chunk), _slice(_ended(chunk, at), slices)].append(chunk)
        spans = [_span(lane, state, chunks, at) for (lane, state, _), chunks in parts.items()]
        return sorted(spans, key=lambda span: (span.started_at, span.run_id, span.lane))

    def committed_rows(self, run_key: str, slices: Slices) -> list[SliceRows]:
        """Rows and chunks committed in each slice that has any, by place."""
        parts: dict[int, list[ChunkRecord]] = defaultdict(list)
        for chunk in filter(_done, self._touched(run_key)):
            if chunk.finished_at is not None:
                parts[min(slices.count - 1, max(0, _slice(chunk.finished_at, slices)))].append(chunk)
        return [SliceRows(place, len(chunks), _rows(chunks), _busy(chunks)) for place, chunks in sorted(parts.items())]

    def rows_spread(self, run_key: str) -> Spread:
        """Rows of the committed chunks, at most `SPREAD_SAMPLES` + 1 samples."""
        return _spread([chunk.rows or 0 for chunk in self._touched(run_key) if _done(chunk)])

    def seconds_spread(self, run_key: str) -> Spread:
        """Durations of the committed chunks, likewise."""
        return _spread([c.seconds for c in self._touched(run_key) if _done(c) and c.seconds is not None])

    def failures(self, run_key: str, limit: int) -> list[FailureGroup]:
        """Failed chunks by error code, the most frequent first."""
        parts: dict[str, list[ChunkRecord]] = defaultdict(list)
        for chunk in self._touched(run_key):
            if chunk.state is ChunkState.FAILED:
                parts[chunk.error_code or ""].append(chunk)
        found = [FailureGroup(code, len(part), part[0].index, part[0].error or "") for code, part in parts.items()]
        return sorted(found, key=lambda each: (-each.chunks, each.first))[:limit]

    def receipt_sums(self, run_key: str) -> ReceiptSums:
        """Sums over all receipts."""
        found, nulled = self._ledger.receipts(run_key), Counter[str]()
        for each in found:
            nulled.update(each.nulled)
        times = [each.committed_at for each in found if each.committed_at]
        return ReceiptSums(
            receipts=len(found),
            rows=sum(each.rows for each in found),
            bytes=sum(each.bytes for each in found),
            nulled=dict(sorted(nulled.items())),
            first_at=min(times, default=None),
            last_at=max(times, default=None),
        )

    def campaign_steps(self, dataset: str, since: datetime, limit: int) -> Steps:
        """Steps of the campaign's runs since its prepare; a campaign's file has no other's."""
        found = [step for step in self._ledger.steps(dataset) if step.recorded_at >= since]
        return Steps(len(found), tuple(reversed(found[-limit:])))

    def increments(self, generation: str, limit: int) -> Steps:  # noqa: ARG002 - the port's
        """None: a `direct` campaign makes no generation that increments could be applied to."""
        return Steps()

    def _chunks(self, run_key: str) -> list[ChunkRecord]:
        return self._ledger.chunks(run_key, EVERY_CHUNK)

    def _touched(self, run_key: str) -> list[ChunkRecord]:
        return [chunk for chunk in self._chunks(run_key) if chunk.state is not ChunkState.PENDING]

    def _lanes(self, run_key: str) -> dict[_Lane, list[ChunkRecord]]:
        lanes: dict[_Lane, list[ChunkRecord]] = defaultdict(list)
        for chunk in self._touched(run_key):
            if chunk.worker is not None:
                lanes[chunk.worker.run_id, chunk.worker.lane].append(chunk)
        return lanes


def _done(chunk: ChunkRecord) -> bool:
    return chunk.state is ChunkState.COMMITTED


def _runs(chunk: ChunkRecord) -> bool:
    return chunk.state is ChunkState.RUNNING


def _took(chunk: ChunkRecord, at: datetime) -> float | None:
    if _done(chunk) or chunk.started_at is None:
        return chunk.seconds
    return (at - chunk.started_at).total_seconds()


def _rows(chunks: Iterable[ChunkRecord]) -> int:
    return sum(chunk.rows or 0 for chunk in chunks if _done(chunk))


def _busy(chunks: Iterable[ChunkRecord]) -> float:
    return sum(chunk.seconds or 0.0 for chunk in chunks if _done(chunk))


def _group(chunks: Sequence[ChunkRecord]) -> ChunkGroup:
    counted = counters(chunks)
    return ChunkGroup(
        first=chunks[0].index,
        last=chunks[-1].index,
        **{str(state): getattr(counted, str(state)) for state in ChunkState},
        rows=counted.rows_loaded,
        seconds=counted.busy_seconds,
        longest_seconds=max((chunk.seconds or 0.0 for chunk in chunks if _done(chunk)), default=0.0),
    )


def _most(lanes: dict[_Lane, list[ChunkRecord]], limit: int) -> list[_Lane]:
    return sorted(lanes, key=lambda lane: (-_rows(lanes[lane]), lane))[:limit]


def _totals(lane: _Lane, chunks: Sequence[ChunkRecord], at: datetime) -> LaneTotals:
    return LaneTotals(
        run_id=lane[0],
        lane=lane[1],
        host=min(chunk.worker.host for chunk in chunks if chunk.worker),
        chunks=sum(map(_done, chunks)),
        rows=_rows(chunks),
        busy_seconds=_busy(chunks),
        started_at=min(chunk.started_at or at for chunk in chunks),
        ended_at=max(chunk.finished_at or at for chunk in chunks),
    )


def _span(lane: _Lane, state: str, chunks: Sequence[ChunkRecord], at: datetime) -> LaneSpan:
    return LaneSpan(
        run_id=lane[0],
        lane=lane[1],
        state=state,
        first=min(chunk.index for chunk in chunks),
        last=max(chunk.index for chunk in chunks),
        chunks=len(chunks),
        rows=_rows(chunks),
        started_at=min(chunk.started_at or at for chunk in chunks),
        ended_at=max(_ended(chunk, at) for chunk in chunks),
    )


def _shown(chunk: ChunkRecord) -> str:
    return str(ChunkState.RUNNING if chunk.state is ChunkState.LEASE_EXPIRED else chunk.state)


def _ended(chunk: ChunkRecord, at: datetime) -> datetime:
    return at if _runs(chunk) else chunk.finished_at or at


def _slice(moment: datetime, slices: Slices) -> int:
    return math.floor((moment - slices.start) / timedelta(milliseconds=slices.milliseconds))


def _spread(values: Sequence[float]) -> Spread:
    """Samples where a value's place in the order crosses one of the equal steps; of few values each is one."""
    ordered, count = sorted(values), len(values)
    samples = SPREAD_SAMPLES
    places = [p for p in range(1, count + 1) if p == 1 or p * samples // count != (p - 1) * samples // count]
    return Spread(count, float(sum(ordered)), tuple((place, float(ordered[place - 1])) for place in places))
