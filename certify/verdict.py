"""From measurements to a verdict: a pure function. What was not measured can never count as held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from certify.measurements import (
    CHUNKS,
    CRASHES,
    FAILED,
    LANES,
    LARGE_CHUNK_ROWS,
    LARGE_CHUNK_SECONDS,
    LOOKS,
    TIMED_CHUNKS,
    Facts,
    Measurements,
    Server,
    State,
)

_DONE = "handoff_committed"


class Result(StrEnum):
    """What became of one criterion."""

    HELD = "held"
    FAILED = "failed"
    UNVERIFIED = "unverified"  # measured on a server that only stands in for the one that is meant
    MISSING = "missing"


class Verdict(StrEnum):
    """What became of all of them."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNVERIFIED = "UNVERIFIED"
    INCOMPLETE = "INCOMPLETE"


# The first result that a criterion has decides.
_ORDER = (
    (Result.FAILED, Verdict.FAIL),
    (Result.UNVERIFIED, Verdict.UNVERIFIED),
    (Result.MISSING, Verdict.INCOMPLETE),
)


class Criterion(Facts):
    """One thing that is asked for, and what was found."""

    name: str
    wanted: str
    found: str
    result: Result


_Finding = tuple[Result, str]
_NOT_MEASURED: _Finding = (Result.MISSING, "not measured")


@dataclass(frozen=True)
class _Rule:
    name: str
    wanted: str
    look: Callable[[Measurements], _Finding]


def verdict_of(criteria: Sequence[Criterion]) -> Verdict:
    """The verdict: PASS only if each criterion has held.

    Args:
        criteria: Of `judge`; none at all is INCOMPLETE.
    """
    results = {criterion.result for criterion in criteria} or {Result.MISSING}
    return next((verdict for result, verdict in _ORDER if result in results), Verdict.PASS)


def judge(measured: Measurements) -> tuple[Criterion, ...]:
    """Each criterion with what was found.

    Args:
        measured: What there is to judge by.
    """
    found = [(rule, *rule.look(measured)) for rule in _RULES]
    return tuple(
        Criterion(name=rule.name, wanted=rule.wanted, found=text, result=result) for rule, result, text in found
    )


def _told(held: bool, text: str) -> _Finding:
    return (Result.HELD if held else Result.FAILED), text


def _server(server: Server | None) -> _Finding:
    if server is None:
        return _NOT_MEASURED
    return (Result.HELD if server.genuine else Result.UNVERIFIED), server.version


def _chunks(measured: Measurements) -> _Finding:
    planned, committed = measured.chunks, measured.committed_chunks
    if planned is None or committed is None:
        return _NOT_MEASURED
    text = f"{committed} of {planned} committed"
    if committed == planned < CHUNKS:
        return Result.MISSING, text
    return _told(committed == planned, text)


def _lanes(measured: Measurements) -> _Finding:
    if measured.lanes is None:
        return _NOT_MEASURED
    return (Result.HELD if measured.lanes >= LANES else Result.MISSING), f"{measured.lanes} at once"


def _crash(point: str) -> Callable[[Measurements], _Finding]:
    def look(measured: Measurements) -> _Finding:
        crash = next((crash for crash in measured.crashes if crash.point == point and crash.killed), None)
        if crash is None:
            return Result.MISSING, "did not happen"
        return Result.HELD, "killed" if crash.chunk is None else f"killed with chunk {crash.chunk} in hand"

    return look


def _recovery(measured: Measurements) -> _Finding:
    steps = measured.operator_steps
    if not steps or steps[-1].killed_at is not None:
        return _NOT_MEASURED
    crashes = sum(step.killed_at is not None for step in steps)
    taken_up = all(step.killed_at is not None or step.exit_code in (0, FAILED) for step in steps)
    text = f"{crashes} crashes, {len(steps) - 1} further commands, the last exited {steps[-1].exit_code}"
    return _told(taken_up and steps[-1].exit_code == 0, text)


def _failures(measured: Measurements) -> _Finding:
    if not measured.operator_steps:
        return _NOT_MEASURED
    failed = [step for step in measured.operator_steps if step.killed_at is None and step.exit_code != 0]
    if not failed:
        return Result.HELD, "none"
    text = f"{len(failed)} failed: {'; '.join(step.failure or f'exit code {step.exit_code}' for step in failed)}"
    stand_in = measured.target is not None and not measured.target.genuine
    # A server that only speaks like the other one may well be what failed.
    return (Result.UNVERIFIED if stand_in else Result.FAILED), text


def _rows(measured: Measurements) -> _Finding:
    numbers = (measured.source_rows, measured.target_rows, measured.receipt_rows)
    if None in numbers or not measured.source_rows:
        return _NOT_MEASURED
    source, target, receipts = numbers
    return _told(
        source == target == receipts, f"{source:,} in the source, {target:,} in the target, {receipts:,} by receipts"
    )


def _keys(measured: Measurements) -> _Finding:
    rows, keys = measured.target_rows, measured.target_keys
    if rows is None or keys is None:
        return _NOT_MEASURED
    return _told(rows == keys, f"{rows - keys:,} rows too many among {rows:,}")


def _digest(measured: Measurements) -> _Finding:
    source, target = measured.source_digest, measured.target_digest
    if source is None or target is None:
        return _NOT_MEASURED
    return _told(source == target, source if source == target else f"source {source}, target {target}")


def _receipts(measured: Measurements) -> _Finding:
    numbers = (measured.chunks, measured.receipts, measured.chunks_with_receipt, measured.foreign_receipts)
    if None in numbers:
        return _NOT_MEASURED
    chunks, receipts, named, foreign = numbers
    text = f"{receipts} receipts, named by {named} of {chunks} chunks, {foreign} of another plan"
    return _told((receipts, named, foreign) == (chunks, chunks, 0), text)


def _publication(measured: Measurements) -> _Finding:
    found = measured.publication
    if found is None:
        return _NOT_MEASURED
    held = (found.phase, found.publications, found.handoff_closed) == (_DONE, 1, True)
    return _told(held, f"{found.publications}, the campaign is {found.phase}")


def _backup(measured: Measurements) -> _Finding:
    if measured.old_rows is None or measured.backup_rows is None:
        return _NOT_MEASURED
    return _told(measured.old_rows == measured.backup_rows, f"{measured.backup_rows:,} of {measured.old_rows:,} rows")


def _reader(measured: Measurements) -> _Finding:
    seen = measured.reader
    if seen is None or measured.old_rows is None or measured.source_rows is None:
        return _NOT_MEASURED
    whole = (State(old_rows=measured.old_rows, new_rows=0), State(old_rows=0, new_rows=measured.source_rows))
    text = f"{' → '.join(f'{s.old_rows:,} old + {s.new_rows:,} new' for s in seen.states)} in {seen.looks:,} looks"
    if seen.errors:
        return Result.FAILED, f"{text}; {'; '.join(seen.errors)}"
    if seen.states == whole and seen.looks < LOOKS:
        return Result.MISSING, text
    if len(seen.states) < len(whole) and set(seen.states) <= set(whole):
        return Result.MISSING, text
    return _told(seen.states == whole, text)


def _times(measured: Measurements) -> _Finding:
    times = measured.chunk_times
    if times is None or measured.rows_per_second is None:
        return _NOT_MEASURED
    text = f"p95 {times.p95_seconds:.3f} s, median {times.median_seconds:.3f} s, slowest {times.max_seconds:.3f} s"
    result = Result.HELD if times.chunks >= TIMED_CHUNKS else Result.MISSING
    return result, f"{text}, of {times.chunks}; {measured.rows_per_second:,.0f} rows/s with everything around it"


def _large(measured: Measurements) -> _Finding:
    times = measured.large_chunk_times
    if times is None or times.fewest_rows < LARGE_CHUNK_ROWS:
        return Result.MISSING, f"no chunk had {LARGE_CHUNK_ROWS:,} rows or more"
    if times.chunks < LANES:
        return Result.MISSING, f"only {times.chunks} chunks had {LARGE_CHUNK_ROWS:,} rows or more"
    text = f"p95 {times.p95_seconds:.1f} s, slowest {times.max_seconds:.1f} s, of {times.chunks}"
    return _told(times.p95_seconds <= LARGE_CHUNK_SECONDS, text)


_RULES = (
    _Rule("source", "a PostgreSQL", lambda measured: _server(measured.source)),
    _Rule("target", "the server that is meant, no stand-in", lambda measured: _server(measured.target)),
    _Rule("chunks", f"at least {CHUNKS} uuid chunks, all of them committed", _chunks),
    _Rule("lanes", f"at least {LANES} lanes at work at once", _lanes),
    *(_Rule(f"crash {where}", "every process of the run killed", _crash(point)) for point, where in CRASHES.items()),
    _Rule("recovery", "one resume takes up what a crash has left, and the last one ends it", _recovery),
    _Rule("failures", "no run that fails by itself", _failures),
    _Rule("rows", "as many in the target as in the source, by count and by receipts", _rows),
    _Rule("keys", "no key twice", _keys),
    _Rule("content", "one digest over every column of every row", _digest),
    _Rule("receipts", "one a chunk", _receipts),
    _Rule("publication", "one, its handoff closed", _publication),
    _Rule("backup", "the old table retained whole", _backup),
    _Rule("readers", f"in {LOOKS} looks or more the old rows, then the new ones, never a part or an error", _reader),
    _Rule("chunk times", f"of {TIMED_CHUNKS} chunks or more", _times),
    _Rule(
        "large chunks",
        f"p95 of at most {LARGE_CHUNK_SECONDS:.0f} s, of {LANES} or more of about a million rows",
        _large,
    ),
)
