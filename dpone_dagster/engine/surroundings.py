"""What surrounds a campaign and stops none: rows out of scope, clocks, room on disks, stages that nobody owns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from dpone_dagster.campaign.errors import DponeError, Finding
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.ports.source import Source
from dpone_dagster.ports.target import ServerRoom, Target

# Clocks that are kept by NTP differ by milliseconds; a busy host may take a second to ask.
_SKEW = timedelta(seconds=10)
_LOG_LOW_BYTES = 1 << 30
_SHOWN_STAGES = 20
_Answer = TypeVar("_Answer")


def now() -> datetime:
    """This host's clock."""
    return datetime.now(UTC)


def around_target(spec: CampaignSpec, target: Target) -> tuple[str, list[Finding]]:
    """How much room the target's server says that it has, and what is worth mending there and refuses nothing.

    Args:
        spec: The campaign.
        target: The connection.
    """
    room, off = _asked(lambda: target.room(spec.target), lambda room: room.now)
    note = f"room on the target: {_size(room.free_bytes)} for data, {_size(room.log_free_bytes)} for its log"
    return note, [*_skewed("the target's server", off), *_short(spec, room), *_orphaned(spec, target)]


def around_source(source: Source) -> list[Finding]:
    """What is worth mending at the source and refuses nothing.

    Args:
        source: The connection.
    """
    with contextlib.suppress(DponeError):  # a source that does not answer is found elsewhere
        _, off = _asked(source.clock, lambda clock: clock)
        return list(_skewed("the source's server", off))
    return []


def outside(spec: CampaignSpec, source: Source) -> Iterator[str]:
    """Rows that no chunk loads, which a window leaves out by its author's word.

    Args:
        spec: The campaign.
        source: The connection.
    """
    if outside := source.count_outside(spec.source, spec.chunk.column, spec.plan):
        later = "they come with the increments" if spec.handoff_id else "widen the window if they belong to the load"
        where = f"{outside} rows of {spec.source} have no {spec.chunk.column} within the window"
        yield f"{where}: no chunk loads them; {later}"


def _asked(ask: Callable[[], _Answer], clock: Callable[[_Answer], datetime]) -> tuple[_Answer, timedelta]:
    """An answer, and by how much its clock is off at least: it was read at some time between question and answer."""
    before = now()
    answer = ask()
    after = now()
    there = clock(answer)
    return answer, max(before - there, there - after, timedelta(0))


def _skewed(place: str, off: timedelta) -> Iterator[Finding]:
    if off > _SKEW:
        yield Finding(
            place,
            f"its clock and this host's are {off.total_seconds():.0f} s apart or more; leases go by the target's clock "
            "alone, but times of alerts, intervals and logs do not fit together",
            "let NTP keep both clocks",
        )


def _short(spec: CampaignSpec, room: ServerRoom) -> Iterator[Finding]:
    needed = 0 if spec.direct else room.table_bytes or 0
    if room.free_bytes is not None and room.free_bytes < needed:
        yield Finding(
            str(spec.target),
            f"its server has room for {_size(room.free_bytes)}, and the live table takes {_size(needed)}: the shadow "
            "will stand beside it",
            "make room, or let the files grow",
        )
    if room.log_free_bytes is not None and room.log_free_bytes < _LOG_LOW_BYTES:
        yield Finding(
            "transaction log",
            f"{_size(room.log_free_bytes)} of it are free",
            "back the log up, or let it grow: every chunk goes through it",
        )


def _orphaned(spec: CampaignSpec, target: Target) -> Iterator[Finding]:
    # A file knows one campaign, and not whose the others' stages are.
    if not spec.state.in_file and target.ledger.provisioned():
        for stage in target.tables.orphaned_stages(spec.target)[:_SHOWN_STAGES]:
            yield Finding(
                stage, "a stage table of no campaign that is unfinished", "look whether it is in use; then drop it"
            )


def _size(number: int | None) -> str:
    """A number of bytes for people."""
    if number is None:
        return "not known"
    value, unit = float(number), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
