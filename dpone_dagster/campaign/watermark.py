"""The xmin watermark: a 64-bit transaction id bound to one cluster and timeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

LOW32 = 0xFFFF_FFFF
# Half the 32-bit space is what a modular comparison can tell apart; a tenth of it is kept as margin.
MAX_DISTANCE = 2**31 - 2**31 // 10


@dataclass(frozen=True)
class SourceIdentity:
    """Which server this is.

    Attributes:
        system_identifier: Of the cluster (`pg_control_system()`), as text since it exceeds 63 bits in principle.
        timeline: Of the cluster's WAL.
        database_oid: Of the database.
    """

    system_identifier: str
    timeline: int
    database_oid: int


@dataclass(frozen=True)
class Anchor:
    """Every transaction below `xid` was finished when it was taken, so a later snapshot sees its rows.

    Attributes:
        xid: `pg_snapshot_xmin(pg_current_snapshot())` as a 64-bit xid8.
        identity: The server it was taken on.
        taken_at: By that server's clock.
    """

    xid: int
    identity: SourceIdentity
    taken_at: datetime

    @property
    def low32(self) -> int:
        """The part that a row's xmin shows."""
        return self.xid & LOW32


@dataclass(frozen=True)
class Checkpoint:
    """Up to where a target generation is loaded from its source.

    Attributes:
        handoff_id: Names one source and one target for good.
        target: `schema.table`.
        generation: Generation of the target it belongs to.
        publication_receipt: The publication it was bound to.
        anchor: Where the next increment starts.
        revision: Raised by every compare-and-set.
        reconciled: Whether a key reconciliation has run since the handoff.
    """

    handoff_id: str
    target: str
    generation: str
    publication_receipt: str
    anchor: Anchor
    revision: int
    reconciled: bool


def in_window(xmin: int, stored_xid: int, xmax_xid: int) -> bool:
    """Whether a row's 32-bit xmin lies in [stored, snapshot xmax), across the 32-bit wrap.

    Without the upper bound, frozen rows with an old raw xmin would match by the half on a wrapped cluster.

    Args:
        xmin: The row's raw 32-bit xmin.
        stored_xid: 64-bit watermark.
        xmax_xid: 64-bit `pg_snapshot_xmax` of the reading snapshot.
    """
    return ((xmin - stored_xid) & LOW32) < xmax_xid - stored_xid
