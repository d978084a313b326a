"""The vital signs of what is watched: what the state tables say at one moment, before anybody judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.progress import Progress


@dataclass(frozen=True)
class Watched:
    """One manifest's campaign and target.

    Attributes:
        target: The live table.
        run_key: The campaign; None for increments with a manifest of their own.
    """

    target: TableRef
    run_key: str | None = None


@dataclass(frozen=True)
class Loading:
    """A campaign whose chunks may still move.

    Attributes:
        progress: Its counters.
        started_at: When the first chunk was claimed; None before.
        moved_at: When a chunk was last claimed, committed or failed; None before the first claim.
        lapsed_at: When the lease ran out that has been over for longest; None while all are alive.
    """

    progress: Progress
    started_at: datetime | None
    moved_at: datetime | None
    lapsed_at: datetime | None


@dataclass(frozen=True)
class Owed:
    """A publication that is live and whose handoff is not committed."""

    receipt_id: str
    handoff_id: str
    published_at: datetime


@dataclass(frozen=True)
class Refusal:
    """A publication that was tried and not made: since when, and the last try's error code."""

    since: datetime
    code: str


@dataclass(frozen=True)
class Vitals:
    """What the state tables say of one `Watched`. All times are the target server's.

    Attributes:
        now: That server's clock.
        phase: The campaign's; None if it was never prepared.
        phase_at: When its row was last changed.
        loading: Its chunks; None unless the phase lets them be claimed.
        validation: Evidence of its last validation; None unless that blocks it.
        refused: Its publication, if that was tried without success since it was validated.
        owed: The target's latest publication, while its handoff is pending.
        loaded_at: When the last increment of the live generation, or its handoff, was committed; None before.
    """

    now: datetime
    phase: Phase | None = None
    phase_at: datetime | None = None
    loading: Loading | None = None
    validation: Mapping[str, Any] | None = None
    refused: Refusal | None = None
    owed: Owed | None = None
    loaded_at: datetime | None = None


def vitals_of(row: Mapping[str, Any]) -> Vitals:
    """The vitals of a row whose columns the adapters' statements name alike.

    Args:
        row: Plain values; times carry their zone.
    """
    pending = row["head"] == "pending"
    return Vitals(
        now=row["now_at"],
        phase=None if row["phase"] is None else Phase(row["phase"]),
        phase_at=row["phase_at"],
        loading=_loading(row) if row["counted"] else None,
        validation=row["validation"],
        refused=None if row["refused_at"] is None else Refusal(row["refused_at"], row["refused_code"] or ""),
        owed=Owed(row["receipt_id"], row["handoff_id"], row["published_at"]) if pending else None,
        loaded_at=row["loaded_at"],
    )


def _loading(row: Mapping[str, Any]) -> Loading:
    started, rows = row["started_at"], int(row["rows_loaded"])
    until = row["now_at"] if row["running"] else row["committed_at"]
    wall = (until - started).total_seconds() if until is not None and started is not None else 0.0
    progress = Progress(
        **{name: row[name] for name in ("pending", "running", "committed", "failed", "lease_expired")},
        rows_extracted=rows,
        rows_loaded=rows,
        busy_seconds=float(row["busy_seconds"]),
        wall_seconds=max(wall, 0.0),
    )
    moves = [at for at in (row["claimed_at"], row["finished_at"]) if at is not None]
    return Loading(progress, started, max(moves, default=None), row["lapsed_at"])
