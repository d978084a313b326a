"""The xmin watermark: a 64-bit transaction id bound to one cluster and timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dpone_dagster.campaign.errors import Finding, HandoffRefused, RewindRefused

LOW32 = 0xFFFF_FFFF
# Half the 32-bit space is what a modular comparison can tell apart; a tenth of it is kept as margin.
MAX_DISTANCE = 2**31 - 2**31 // 10
# A rewind leaves as much again, for it cannot be taken back and the increments after it need time.
MAX_REWIND = MAX_DISTANCE - 2**31 // 10
_SHOWN = 20


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

    def transactions_since(self, earlier: Anchor) -> int:
        """Transactions of the server between two of its anchors, committed or not."""
        return self.xid - earlier.xid

    def seconds_since(self, earlier: Anchor) -> float:
        """Seconds between them, by the server's clock."""
        return (self.taken_at - earlier.taken_at).total_seconds()


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


@dataclass(frozen=True, order=True)
class RecordedAnchor:
    """Where increments of a generation have started once: a place that a date can be mapped to.

    Attributes:
        xid: 64 bits.
        taken_at: By the source's clock.
    """

    xid: int
    taken_at: datetime

    @classmethod
    def of(cls, anchor: Anchor) -> RecordedAnchor:
        """An anchor without its server."""
        return cls(anchor.xid, anchor.taken_at)

    @classmethod
    def from_facts(cls, facts: Mapping[str, str]) -> RecordedAnchor:
        """What `anchor_facts` wrote."""
        return cls(int(facts["anchor_xid"]), datetime.fromisoformat(facts["anchor_taken_at"]))

    def as_dict(self) -> dict[str, str]:
        """As plain data; a 64-bit number would lose digits in readers that take every number for a double."""
        return {"xid": str(self.xid), "taken_at": self.taken_at.isoformat()}

    def __str__(self) -> str:
        return f"{self.xid} of {self.taken_at:%Y-%m-%d %H:%M:%S%z}"


def anchor_facts(generation: str, anchor: Anchor) -> dict[str, str]:
    """The facts of an audit row that tell where a checkpoint was put."""
    return {
        "generation": generation,
        "anchor_xid": str(anchor.xid),
        "anchor_taken_at": anchor.taken_at.isoformat(),
    }


def rewind_places(checkpoint: Checkpoint, first: Anchor, recorded: Sequence[RecordedAnchor]) -> list[RecordedAnchor]:
    """Where the checkpoint may go back to by date, oldest first; the campaign's own anchor is the oldest.

    Args:
        checkpoint: Where it is.
        first: The campaign's anchor.
        recorded: Of earlier increments, in any order.
    """
    known = {RecordedAnchor.of(first), *recorded}
    return sorted(place for place in known if first.xid <= place.xid < checkpoint.anchor.xid)


def rewind_anchor(wanted: str, checkpoint: Checkpoint, places: Sequence[RecordedAnchor], now: Anchor) -> Anchor:
    """The anchor that a checkpoint is to be rewound to, on its own server.

    Any transaction id below the checkpoint is safe: the next increment reads more, never less.

    Args:
        wanted: `anchor` for the campaign's own, a 64-bit transaction id, or a date or time (UTC if it names no zone).
        checkpoint: Where it is.
        places: `rewind_places`.
        now: The source's anchor at this moment.

    Raises:
        RewindRefused: It would go forward, below the campaign's anchor, to another cluster, or too far back for xmin.
    """
    _prove_same_counter(checkpoint.anchor, now)
    if not places:
        raise RewindRefused(f"the checkpoint is at the campaign's own anchor {checkpoint.anchor.xid}, its first place")
    place = _place(wanted, checkpoint, places)
    if now.xid - place.xid > MAX_REWIND:
        raise RewindRefused(
            f"the source is {now.xid - place.xid} transactions past {place.xid}; {MAX_REWIND} are allowed",
            next_step="Start a new initial campaign with a new `backfill_id`.",
        )
    return Anchor(place.xid, checkpoint.anchor.identity, place.taken_at)


def _prove_same_counter(stored: Anchor, now: Anchor) -> None:
    there, here = stored.identity, now.identity
    if (there.system_identifier, there.database_oid) != (here.system_identifier, here.database_oid):
        raise RewindRefused(
            f"the source is database {here.database_oid} of cluster {here.system_identifier}, the checkpoint is of "
            f"{there.database_oid} of {there.system_identifier}: their transaction ids have no order"
        )
    if now.xid < stored.xid:
        raise RewindRefused(f"the source is at transaction {now.xid}, behind the checkpoint {stored.xid}")


def _place(wanted: str, checkpoint: Checkpoint, places: Sequence[RecordedAnchor]) -> RecordedAnchor:
    oldest, at = places[0], checkpoint.anchor.xid
    if wanted == "anchor":
        return oldest
    if wanted.isdecimal():
        xid = int(wanted)
        if xid >= at:
            raise RewindRefused(f"{xid} is not behind the checkpoint {at}; a checkpoint is never moved forward")
        if xid < oldest.xid:
            raise RewindRefused(
                f"{xid} is below the campaign's own anchor {oldest.xid}; what was there before, the campaign has loaded"
            )
        return RecordedAnchor(xid, max(place.taken_at for place in places if place.xid <= xid))
    moment = _moment(wanted)
    before = [place for place in places if place.taken_at <= moment]
    if not before:
        findings = [Finding("recorded", str(place)) for place in places[:_SHOWN]]
        raise RewindRefused(f"no checkpoint was recorded at or before {moment:%Y-%m-%d %H:%M:%S%z}", findings=findings)
    return before[-1]


def _moment(wanted: str) -> datetime:
    try:
        moment = datetime.fromisoformat(wanted)
    except ValueError:
        raise RewindRefused(
            f"`{wanted}` is no place to rewind to",
            next_step="Write `anchor`, a 64-bit transaction id, or a date or time such as 2025-01-01T05:30:00+00:00.",
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def prove_handoff_pair(handoff_id: str, owner: tuple[str, str] | None, pair: tuple[str, str]) -> None:
    """A handoff id names one source and one target for good.

    Args:
        handoff_id: The id.
        owner: (source, target) that it was first used for.
        pair: (source, target) that want it now.

    Raises:
        HandoffRefused: They are not the same.
    """
    if owner != pair:
        named = " → ".join(owner) if owner else "nobody"
        raise HandoffRefused(f"handoff_id `{handoff_id}` belongs to {named}")
