"""The plan: deterministic, adjacent, gapless chunks over one column, computed lazily."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from dpone_dagster.campaign.errors import Finding, ManifestInvalid, TooManyChunks
from dpone_dagster.campaign.identity import sha256_of
from dpone_dagster.campaign.ranges import (
    INT8_MAX,
    INT8_MIN,
    CalendarRanges,
    IntegerRanges,
    Ranges,
    Step,
    UuidRanges,
)
from dpone_dagster.campaign.wording import shown

ChunkKind = Literal["date", "timestamp", "integer", "uuid"]
CHUNK_PATH = "sink.strategy.backfill.chunk"

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_INSTANT = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}(:?\d{2})?)?", re.ASCII | re.IGNORECASE
)
_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
_STEP = re.compile(r"([1-9]\d{0,5})(h|d|w|mo|y)", re.ASCII)
_UNIT: dict[str, Step] = {
    "h": Step(length=timedelta(hours=1)),
    "d": Step(length=timedelta(days=1)),
    "w": Step(length=timedelta(weeks=1)),
    "mo": Step(months=1),
    "y": Step(months=12),
}
_STEP_FORMS = {
    "date": "Nd, Nw, Nmo or Ny, such as 7d",
    "timestamp": "Nh, Nd, Nw, Nmo or Ny, such as 6h",
    "integer": "a whole number of at least 1, such as 100000",
}
_BOUND_FORMS = {
    "date": "a date such as 2024-01-31",
    "timestamp": "an ISO timestamp such as 2024-01-31T00:00:00+00:00 (no zone means UTC), with 6 decimals at most",
    "integer": f"a whole number from {INT8_MIN} to {INT8_MAX}",
}


@dataclass(frozen=True)
class Chunk:
    """One range of the chunk column.

    Attributes:
        index: Position in the plan, from 0.
        kind: How the bounds are to be read.
        lower: Inclusive lower bound as canonical text (ISO date, ISO timestamp with zone, integer, 36-character uuid).
        upper: Upper bound likewise.
        upper_inclusive: True for every integer chunk and the last uuid chunk, else False.
    """

    index: int
    kind: ChunkKind
    lower: str
    upper: str
    upper_inclusive: bool

    def __str__(self) -> str:
        return f"[{self.lower}, {self.upper}{']' if self.upper_inclusive else ')'}"

    @property
    def binding(self) -> str:
        """SHA-256 over the range: two chunks that read the same rows have the same one."""
        return sha256_of(
            {"kind": self.kind, "lower": self.lower, "upper": self.upper, "upper_inclusive": self.upper_inclusive}
        )


@dataclass(frozen=True)
class ChunkSpec:
    """What the chunks are made from. Always valid: a wrong one cannot be made.

    Attributes:
        kind: Of the chunk column.
        column: The chunk column.
        lower: Where the first chunk starts, as the manifest has it; None for uuid.
        upper: Where the last chunk ends: inclusive for date and integer, exclusive for timestamp; None for uuid.
        step: Length of a chunk; None for uuid.
        buckets: Number of chunks for uuid, else None.
        immutable: The author's word that the column of a row never changes.

    Raises:
        ManifestInvalid: All that is wrong with it.
    """

    kind: ChunkKind
    column: str
    lower: str | None = None
    upper: str | None = None
    step: str | None = None
    buckets: int | None = None
    immutable: bool = False

    def __post_init__(self) -> None:
        if findings := _findings(self):
            raise ManifestInvalid("the chunk window cannot be planned", findings=findings)

    def as_dict(self) -> dict[str, object]:
        """Canonical plain data: the same for every spelling of the same chunks.

        `immutable` is left out: it changes no chunk.
        """
        if self.kind == "uuid":
            return {"kind": self.kind, "column": self.column, "buckets": self.buckets}
        lower, upper, step = _window(self)
        return {
            "kind": self.kind,
            "column": self.column,
            "from": _canonical(lower, keep_offset=isinstance(step, Step) and step.months > 0),
            "to": _canonical(upper, keep_offset=False),
            "step": str(step),
        }


class Plan:
    """The chunks of a specification: nothing is stored, any chunk is found at once.

    Args:
        spec: What they are made from.
    """

    def __init__(self, spec: ChunkSpec) -> None:
        self.spec = spec
        self._ranges = _ranges(spec)
        self.count = self._ranges.count

    def __repr__(self) -> str:
        return f"Plan({self.spec!r})"

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Chunk]:
        return map(self._chunk, range(self.count))

    def chunk(self, index: int) -> Chunk:
        """The chunk at an index.

        Raises:
            IndexError: It is not in the plan.
        """
        if not 0 <= index < self.count:
            raise IndexError(f"chunk {index} is not one of the plan's {self.count}")
        return self._chunk(index)

    def whole(self) -> Chunk:
        """The range of all chunks as one."""
        first, last = self.chunk(0), self.chunk(self.count - 1)
        return Chunk(0, first.kind, first.lower, last.upper, last.upper_inclusive)

    def require_at_most(self, max_chunks: int) -> None:
        """Refuse a plan with too many chunks; they are counted, not enumerated.

        Raises:
            TooManyChunks: There are more.
        """
        if self.count <= max_chunks:
            return
        message = f"backfill would produce {self.count} chunks, above max_chunks {max_chunks}"
        field = "buckets" if self.spec.kind == "uuid" else "step"
        advice = "Lower `chunk.buckets` or increase `max_chunks`." if field == "buckets" else TooManyChunks.next_step
        finding = Finding(f"{CHUNK_PATH}.{field}", f"{self.count} chunks", advice)
        raise TooManyChunks(message, findings=[finding], next_step=advice)

    def _chunk(self, index: int) -> Chunk:
        bounds = self._ranges.bounds(index)
        return Chunk(index, self.spec.kind, bounds.lower, bounds.upper, bounds.upper_inclusive)


def infer_kind(lower: str | None, buckets: int | None) -> ChunkKind | None:
    """The kind of a chunk column by the look of its lower bound; None if it cannot be told."""
    if lower is None:
        return "uuid" if buckets is not None else None
    if _INTEGER.fullmatch(lower):
        return "integer"
    if not _DATE.match(lower):
        return None
    return "date" if _DATE.fullmatch(lower) else "timestamp"


# ---------------------------------------------------------------- reading the specification

_Bound = int | date | datetime


def _date(text: str) -> date:
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def read_instant(text: str) -> datetime:
    """A time with its zone, UTC if it names none; a date is its first instant.

    Raises:
        ValueError, OverflowError: It is no such time.
    """
    if _DATE.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    if not _INSTANT.fullmatch(text):
        raise ValueError(text)
    moment = datetime.fromisoformat(text.upper())
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    moment.astimezone(UTC)  # an OverflowError here is one less in the middle of a plan
    return moment


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text) or not INT8_MIN <= int(text) <= INT8_MAX:
        raise ValueError(text)
    return int(text)


def _calendar_step(text: str) -> Step:
    match = _STEP.fullmatch(text)
    if match is None:
        raise ValueError(text)
    unit = _UNIT[match[2]]
    return Step(unit.months * int(match[1]), unit.length * int(match[1]))


def _date_step(text: str) -> Step:
    if text.endswith("h"):
        raise ValueError(text)
    return _calendar_step(text)


def _integer_step(text: str) -> int:
    step = _integer(text)
    if step < 1:
        raise ValueError(text)
    return step


_READ_BOUND: dict[str, Callable[[str], _Bound]] = {"date": _date, "timestamp": read_instant, "integer": _integer}
_READ_STEP: dict[str, Callable[[str], Step | int]] = {
    "date": _date_step,
    "timestamp": _calendar_step,
    "integer": _integer_step,
}


def _window(spec: ChunkSpec) -> tuple[_Bound, _Bound, Step | int]:
    read = _READ_BOUND[spec.kind]
    return read(spec.lower or ""), read(spec.upper or ""), _READ_STEP[spec.kind](spec.step or "")


def _ranges(spec: ChunkSpec) -> Ranges:
    if spec.kind == "uuid":
        return UuidRanges(spec.buckets or 0)
    match _window(spec):
        case (int() as first, int() as last, int() as step):
            return IntegerRanges(first, last, step)
        case (datetime() as start, datetime() as end, Step() as step):
            return CalendarRanges.of_instants(start, end, step)
        case (date() as first, date() as last, Step() as step):
            return CalendarRanges.of_dates(first, last, step)
    raise AssertionError(spec)  # pragma: no cover  # the readers above return nothing else


def _canonical(bound: _Bound, *, keep_offset: bool) -> str:
    if isinstance(bound, datetime):
        return (bound if keep_offset else bound.astimezone(UTC)).isoformat()
    return str(bound)


# ---------------------------------------------------------------- refusing it


def _findings(spec: ChunkSpec) -> list[Finding]:
    if spec.kind == "uuid":
        return _uuid_findings(spec)
    findings = [
        finding
        for field, text in (("from", spec.lower), ("to", spec.upper))
        if (finding := _unreadable(field, text, _READ_BOUND[spec.kind], _BOUND_FORMS[spec.kind]))
    ]
    if not findings:
        findings += _empty_window(spec)
    if finding := _unreadable("step", spec.step, _READ_STEP[spec.kind], _STEP_FORMS[spec.kind]):
        findings.append(finding)
    if spec.buckets is not None:
        findings.append(Finding(f"{CHUNK_PATH}.buckets", f"does not go with kind {spec.kind}", "use `step`"))
    return findings


def _unreadable(field: str, text: str | None, read: Callable[[str], object], form: str) -> Finding | None:
    path = f"{CHUNK_PATH}.{field}"
    if text is None:
        return Finding(path, "is missing", f"write {form}")
    try:
        read(text)
    except (ValueError, OverflowError):
        return Finding(path, f"found {shown(text)}", f"write {form}")
    return None


def _empty_window(spec: ChunkSpec) -> list[Finding]:
    read = _READ_BOUND[spec.kind]
    lower, upper = read(spec.lower or ""), read(spec.upper or "")
    exclusive = spec.kind == "timestamp"
    if lower < upper or (lower == upper and not exclusive):  # type: ignore[operator]  # one kind, one type
        return []
    relation = "after" if exclusive else "at or after"
    return [
        Finding(f"{CHUNK_PATH}.to", f"found {shown(spec.upper)}", f"write a value {relation} `from` ({spec.lower})")
    ]


def _uuid_findings(spec: ChunkSpec) -> list[Finding]:
    findings = [
        Finding(f"{CHUNK_PATH}.{field}", "does not go with kind uuid", "leave it out: buckets cover the whole space")
        for field, value in (("from", spec.lower), ("to", spec.upper), ("step", spec.step))
        if value is not None
    ]
    if spec.buckets is None or spec.buckets < 1:
        problem = "is missing" if spec.buckets is None else f"found {spec.buckets}"
        findings.append(Finding(f"{CHUNK_PATH}.buckets", problem, "write the number of chunks, at least 1"))
    return findings
