"""The figures of a report as shapes: what is drawn where, in units of a drawing 1,000 wide. No markup here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpone_dagster.campaign.history import ChunkGroup, LaneSpan, LaneTotals, Slices, Spread, rows_over_time
from dpone_dagster.campaign.ledger import ChunkState
from dpone_dagster.engine.report import Timeline
from dpone_dagster.report.words import duration, rounded, short

WIDTH = 1_000
_LEFT = 132
_RIGHT = 152
_STRETCHES = 80
_PLOT_HEIGHT = 168
_LANE_HEIGHT = 22
_CELL_SIZES = (20, 40)
_GAP = 3
# A committed chunk's shade: its duration as a multiple of the median.
SHADES = ((0.75, "d0"), (1.25, "d1"), (2.0, "d2"), (4.0, "d3"), (math.inf, "d4"))


@dataclass(frozen=True)
class Shape:
    """A rectangle.

    Attributes:
        kind: Its class, which colours it.
        title: What it says when pointed at.
    """

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str = ""


@dataclass(frozen=True)
class Tick:
    """A mark of an axis at a place, with its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Plot:
    """A figure with axes.

    Attributes:
        height: Of the drawing.
        left: Where the field begins.
        right: Where it ends.
        bottom: Where its floor is.
        shapes: What is in it.
        x_ticks: Of the horizontal axis.
        y_ticks: Of the vertical axis.
        labels: At the left of each row of shapes.
        notes: At the right of each.
        line: Height of the average; None without one.
    """

    height: float
    left: float
    right: float
    bottom: float
    shapes: tuple[Shape, ...]
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()
    labels: tuple[Tick, ...] = ()
    notes: tuple[Tick, ...] = ()
    line: float | None = None


def throughput(timeline: Timeline) -> Plot:
    """Rows a second over the time of the campaign."""
    slices = timeline.slices
    whole = slices.seconds * slices.count
    count = min(_STRETCHES, slices.count)
    rates = [rows * count / whole for rows in rows_over_time(timeline.committed, slices, count)]
    top = _ceiling(max(rates, default=0.0))
    field, floor = WIDTH - _LEFT - _RIGHT, _PLOT_HEIGHT + 12.0
    step = field / count
    shapes = tuple(
        Shape(
            _LEFT + place * step + 0.5,
            floor - rate / top * _PLOT_HEIGHT,
            max(step - 1, 0.5),
            rate / top * _PLOT_HEIGHT,
            "bar",
            f"{rounded(rate)} rows/s, {duration(place * whole / count)} after the start",
        )
        for place, rate in enumerate(rates)
        if rate > 0
    )
    y_ticks = tuple(Tick(floor - part / 4 * _PLOT_HEIGHT, short(top * part / 4)) for part in range(5))
    average = sum(part.rows for part in timeline.committed) / whole
    return Plot(
        floor + 26,
        _LEFT,
        WIDTH - _RIGHT,
        floor,
        shapes,
        _time_ticks(whole),
        y_ticks,
        notes=(Tick(floor - average / top * _PLOT_HEIGHT, f"{short(average)} on average"),),
        line=floor - average / top * _PLOT_HEIGHT,
    )


def lanes(timeline: Timeline) -> Plot:
    """Who loaded which chunk when."""
    rows = {(lane.run_id, lane.lane): place for place, lane in enumerate(timeline.lanes)}
    whole = timeline.slices.seconds * timeline.slices.count
    floor = len(rows) * _LANE_HEIGHT + 6.0
    shapes = tuple(
        _span_shape(span, rows[span.run_id, span.lane], timeline.slices)
        for span in timeline.spans
        if (span.run_id, span.lane) in rows
    )
    middles = [6 + place * _LANE_HEIGHT + (_LANE_HEIGHT - 4) / 2 for place in range(len(rows))]
    return Plot(
        floor + 26,
        _LEFT,
        WIDTH - _RIGHT,
        floor,
        shapes,
        _time_ticks(whole),
        labels=tuple(map(Tick, middles, map(_lane_name, timeline.lanes))),
        notes=tuple(
            Tick(middle, f"{lane.chunks:,} chunks, {short(lane.rows)} rows")
            for middle, lane in zip(middles, timeline.lanes, strict=True)
        ),
    )


def _lane_name(lane: LaneTotals) -> str:
    return f"{lane.run_id[:8]} lane {lane.lane}"


def _span_shape(span: LaneSpan, row: int, slices: Slices) -> Shape:
    field = WIDTH - _LEFT - _RIGHT
    whole = slices.seconds * slices.count
    start = max((span.started_at - slices.start).total_seconds() / whole, 0.0)
    end = min((span.ended_at - slices.start).total_seconds() / whole, 1.0)
    which = f"chunk {span.first}" if span.chunks == 1 else f"{span.chunks:,} chunks, {span.first} to {span.last}"
    took = duration((span.ended_at - span.started_at).total_seconds())
    return Shape(
        _LEFT + start * field,
        6 + row * _LANE_HEIGHT,
        max((end - start) * field, 0.8),
        _LANE_HEIGHT - 4,
        span.state,
        f"{which}: {span.state}, {span.rows:,} rows in {took}",
    )


@dataclass(frozen=True)
class Grid:
    """The chunks as cells.

    Attributes:
        height: Of the drawing.
        size: Of a cell.
        cells: One a chunk, or a group of them; a group that is committed in part is two shapes.
        chunks_a_cell: How many.
    """

    height: float
    size: float
    cells: tuple[Shape, ...]
    chunks_a_cell: int


def grid(groups: Sequence[ChunkGroup], seconds: Spread) -> Grid:
    """The chunks in the order of the plan, by state and duration."""
    smallest, largest = _CELL_SIZES
    cell = min(max(WIDTH / max(len(groups), 1), smallest), largest)
    columns = int(WIDTH // cell)
    shapes: list[Shape] = []
    for place, group in enumerate(groups):
        row, column = divmod(place, columns)
        shapes.extend(_cell(group, column * cell, row * cell, cell - _GAP, seconds.at(0.5)))
    rows = -(-len(groups) // columns)
    return Grid(rows * cell, cell - _GAP, tuple(shapes), groups[0].total if groups else 1)


def _cell(group: ChunkGroup, x: float, y: float, size: float, median: float) -> Iterator[Shape]:
    title = _cell_title(group)
    if group.state is ChunkState.COMMITTED:
        yield Shape(x, y, size, size, _shade(group, median), title)
        return
    yield Shape(x, y, size, size, str(group.state), title)
    if group.state is ChunkState.PENDING and group.committed:  # so far; trouble is never covered
        part = size * group.committed / group.total
        yield Shape(x, y + size - part, size, part, _shade(group, median), title)


def _shade(group: ChunkGroup, median: float) -> str:
    times = group.seconds / group.committed / median if median and group.committed else 1.0
    return next(kind for bound, kind in SHADES if times <= bound)


def _cell_title(group: ChunkGroup) -> str:
    if group.total == 1:
        took = f", {group.rows:,} rows in {duration(group.seconds)}" if group.committed else ""
        return f"chunk {group.first}: {str(group.state).replace('_', ' ')}{took}"
    states = ("pending", "running", "committed", "failed", "lease_expired")
    counts = [f"{getattr(group, s):,} {s.replace('_', ' ')}" for s in states if getattr(group, s)]
    longest = f", the longest {duration(group.longest_seconds)}" if group.committed else ""
    return f"chunks {group.first} to {group.last}: {', '.join(counts)}; {group.rows:,} rows{longest}"


def spread(rows: Spread) -> Plot:
    """Rows a chunk, from the smallest chunk to the largest."""
    top = _ceiling(rows.at(1.0))
    field, floor, height = WIDTH - _LEFT - _RIGHT, 132.0, 120.0
    shapes: list[Shape] = []
    before = 0
    for place, value in rows.samples:
        x, width = before / rows.count * field, (place - before) / rows.count * field
        before = place
        title = f"{place / rows.count:.0%} of the chunks have at most {rounded(value)} rows"
        tall = value / top * height
        shapes.append(Shape(_LEFT + x + 0.5, floor - tall, max(width - 1, 0.5), tall, "bar", title))
    ticks = tuple(Tick(_LEFT + share * field, f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1))
    y_ticks = tuple(Tick(floor - part / 2 * height, short(top * part / 2)) for part in range(3))
    line = floor - rows.mean / top * height
    return Plot(
        floor + 26,
        _LEFT,
        WIDTH - _RIGHT,
        floor,
        tuple(shapes),
        ticks,
        y_ticks,
        notes=(Tick(line, f"{short(rows.mean)} on average"),),
        line=line,
    )


def _ceiling(value: float) -> float:
    """The next round number, for an axis."""
    if value <= 0:
        return 1.0
    power = 10 ** math.floor(math.log10(value))
    return next(float(step * power) for step in (1, 2, 4, 6, 8, 10) if value <= step * power)


def _time_ticks(seconds: float) -> tuple[Tick, ...]:
    """Five to ten marks at round times after the start."""
    field = WIDTH - _LEFT - _RIGHT
    steps = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
    step = next((step for step in steps if seconds / step <= 10), math.ceil(seconds / 864_000) * 86_400.0)
    return tuple(
        Tick(_LEFT + place * step / seconds * field, _axis_time(place * step))
        for place in range(int(seconds / step) + 1)
    )


def _axis_time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:g} s"
    whole = round(seconds)
    if whole % 86_400 == 0 and whole > 86_400:
        return f"{whole // 86_400} d"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02} h" if hours else f"{minutes}:{whole % 60:02}"
