"""Release: end, on the server, the session that holds a lock whose process is stopped or cut off."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from dpone_dagster.campaign.errors import ReleaseRefused
from dpone_dagster.campaign.ledger import CampaignRecord, Holder
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.audit import audited
from dpone_dagster.engine.sessions import existing_campaign, target_session
from dpone_dagster.ports.target import Connector, Target

# A server that rolls a long transaction back keeps its locks until it has; nobody waits for that here.
_END_SECONDS = 30.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Release:
    """Sessions that hold what should be released, and what became of them.

    Attributes:
        record: The campaign.
        chunk_index: The chunk, None for the whole campaign and its target.
        holders: Sessions as they were found, one entry a lock.
        left: Those that still hold a lock: the server is rolling back.
    """

    record: CampaignRecord
    chunk_index: int | None
    holders: tuple[Holder, ...]
    left: tuple[Holder, ...] = ()

    @property
    def what(self) -> str:
        """What is released, in words."""
        return self.record.dataset if self.chunk_index is None else f"chunk {self.chunk_index} of {self.record.dataset}"

    def as_dict(self) -> Mapping[str, object]:
        """The public JSON."""
        return {
            "dataset": self.record.dataset,
            "chunk": self.chunk_index,
            "sessions": [str(holder) for holder in self.holders],
            "still_held_by": [str(holder) for holder in self.left],
        }


def preview_release(spec: CampaignSpec, connector: Connector, chunk_index: int | None = None) -> Release:
    """Whose sessions `release` would end now. Changes nothing.

    Args:
        spec: The campaign.
        connector: Opens the connection.
        chunk_index: The chunk whose holder is meant; None for every holder of the campaign or the target.

    Raises:
        ReleaseRefused: Nobody holds it.
    """
    with target_session(connector, "release preview") as target:
        return _held(spec, target, chunk_index)


def release(spec: CampaignSpec, connector: Connector, chunk_index: int | None, approved_by: str) -> Release:
    """End the sessions that hold the chunk's lock, or every lock of campaign and target, and record who approved it.

    A session is told by its id and its login time. The server rolls it back and frees its locks. The process behind it
    finds out when it moves again, and leaves as soon as another one has taken over.

    Args:
        spec: The campaign.
        connector: Opens the connection.
        chunk_index: The chunk whose holder is meant; None for every holder of the campaign or the target.
        approved_by: Who answers for it.

    Raises:
        ReleaseRefused: Nobody holds it.
        RightsMissing: The login may not see or end the session.
    """
    with target_session(connector, "release") as target:
        found = _held(spec, target, chunk_index)
        sessions = {(holder.session_id, holder.login_at): holder for holder in found.holders}
        with audited(spec, target, uuid.uuid4().hex, "campaign", "release") as facts:
            facts.update(approved_by=approved_by, sessions=[str(holder) for holder in found.holders])
            for holder in sessions.values():
                target.fence.end_session(spec.run_key, holder)
            left = _left(spec, target, frozenset(sessions))
            facts.update(still_held_by=[str(holder) for holder in left])
        return Release(found.record, chunk_index, found.holders, left)


def _held(spec: CampaignSpec, target: Target, chunk_index: int | None) -> Release:
    record = existing_campaign(spec, target)
    holders = _holders(spec, target)
    if chunk_index is not None:
        holders = [holder for holder in holders if holder.lock == f"chunk {chunk_index}"]
    found = Release(record, chunk_index, tuple(holders))
    if not holders:
        raise ReleaseRefused(f"no session holds {found.what}")
    return found


def _holders(spec: CampaignSpec, target: Target) -> list[Holder]:
    return [*target.fence.holders(spec.run_key), *target.fence.target_holders(spec.target)]


def _left(spec: CampaignSpec, target: Target, ended: frozenset[object]) -> tuple[Holder, ...]:
    """Who of them still holds a lock, once none does or the wait is over."""
    deadline = time.monotonic() + _END_SECONDS
    while True:
        left = tuple(holder for holder in _holders(spec, target) if (holder.session_id, holder.login_at) in ended)
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(_LOOK_SECONDS)
