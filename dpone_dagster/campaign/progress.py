"""Progress of a campaign: counters, rate and time to go. Derived, never stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Counters over the chunks of a campaign, aggregated by the database.

    Attributes:
        pending: Not yet claimed.
        running: Claimed, lease alive.
        committed: Receipt written.
        failed: Ended in an error.
        lease_expired: Claimed by a worker that has not been heard of for 90 s.
        rows_extracted: Rows read from the source by committed chunks.
        rows_loaded: Rows inserted into the shadow by committed chunks.
        busy_seconds: Sum of the committed chunks' durations.
        wall_seconds: From the first claim to the last commit, or to now while chunks run.
    """

    pending: int
    running: int
    committed: int
    failed: int
    lease_expired: int
    rows_extracted: int
    rows_loaded: int
    busy_seconds: float
    wall_seconds: float

    @property
    def total(self) -> int:
        """Chunks of the plan."""
        return self.pending + self.running + self.committed + self.failed + self.lease_expired

    @property
    def remaining(self) -> int:
        """Chunks without a receipt."""
        return self.total - self.committed

    @property
    def rows_per_second(self) -> float:
        """Rows committed per second of wall time."""
        return self.rows_loaded / self.wall_seconds if self.wall_seconds > 0 else 0.0

    @property
    def eta_seconds(self) -> float | None:
        """Seconds until the last chunk commits at the rate so far; None before the first commit."""
        if self.remaining == 0:
            return 0.0
        if self.committed == 0 or self.wall_seconds <= 0:
            return None
        return self.remaining * self.wall_seconds / self.committed

    def as_dict(self) -> dict[str, object]:
        """The `backfill.progress` object of the public JSON."""
        eta = self.eta_seconds
        return {
            "pending": self.pending,
            "running": self.running,
            "committed": self.committed,
            "failed": self.failed,
            "lease_expired": self.lease_expired,
            "rows_extracted": self.rows_extracted,
            "rows_loaded": self.rows_loaded,
            "rows_per_second": round(self.rows_per_second),
            "eta_seconds": None if eta is None else round(eta, 1),
        }
