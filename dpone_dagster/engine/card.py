"""A campaign on one card: where it stands, how fast it goes, what takes long. For displays that are refreshed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from dpone_dagster.campaign.errors import CampaignMissing, DponeError
from dpone_dagster.campaign.ledger import FINISHED, CampaignRecord, ChunkRecord, Phase
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.ports.target import Target

_log = logging.getLogger(__name__)
SLOWEST_SHOWN = 5
REFRESH_SECONDS = 15.0
# Counting a million chunk rows takes its time: all lanes together may keep the server a tenth of the time busy with it.
_SHARE_OF_TIME = 10


@dataclass(frozen=True)
class CampaignCard:
    """What a display shows of a campaign; its size does not depend on the campaign's.

    Attributes:
        phase: Of the campaign.
        progress: Its counters.
        validation: `pending`, `passed` or `blocked`.
        publication: `pending`, `published` or `rolled back`.
        stop_reason: Why lanes claim no more; None while they may.
        slowest: The chunks that took, or take, longest.
        as_of: When it was read, by this machine's clock.
    """

    phase: Phase
    progress: Progress
    validation: str
    publication: str
    stop_reason: str | None
    slowest: tuple[ChunkRecord, ...]
    as_of: datetime


def read_card(spec: CampaignSpec, target: Target) -> CampaignCard:
    """Read a campaign's card: a few statements, whatever the number of chunks.

    Args:
        spec: The campaign.
        target: The connection.

    Raises:
        CampaignMissing: There is none.
    """
    record = target.ledger.campaign(spec.run_key)
    if record is None:
        raise CampaignMissing(f"there is no campaign for {spec.dataset} ({spec.run_key[:12]}) yet")
    return CampaignCard(
        phase=record.phase,
        progress=target.ledger.progress(spec.run_key),
        validation=validation_word(record),
        publication=_publication_word(record.phase),
        stop_reason=record.stop_reason,
        slowest=tuple(target.history.slowest(spec.run_key, SLOWEST_SHOWN)),
        as_of=datetime.now(UTC),
    )


def show_card(spec: CampaignSpec, target: Target, show: Callable[[CampaignCard], None] | None) -> None:
    """Read a campaign's card over the session of a step that is done, which never fails by its display.

    Args:
        spec: The campaign.
        target: The session.
        show: Called with the card; None where nobody asks for one.
    """
    if show is None:
        return
    try:
        show(read_card(spec, target))
    except DponeError as error:
        _log.warning("the campaign's card could not be read: %s", error)


class CardFeed:
    """Reads the card every now and then, and hands it on.

    Args:
        spec: The campaign.
        show: Called with each card.
    """

    def __init__(self, spec: CampaignSpec, show: Callable[[CampaignCard], None]) -> None:
        self._spec = spec
        self._show = show
        # Nothing has happened yet when a lane begins, and its first chunk should not wait for a look at nothing.
        self._due = time.monotonic() + REFRESH_SECONDS

    @property
    def due(self) -> bool:
        """Whether the next card is due."""
        return time.monotonic() >= self._due

    def look(self, target: Target) -> None:
        """Read and show a card if one is due.

        Args:
            target: The connection.
        """
        if not self.due:
            return
        started = time.monotonic()
        self._due = started + REFRESH_SECONDS  # also where this look fails
        card = read_card(self._spec, target)
        took = time.monotonic() - started
        self._due = started + max(REFRESH_SECONDS, _SHARE_OF_TIME * self._spec.lanes * took)
        self._show(card)


def validation_word(record: CampaignRecord | None) -> str:
    """What the last validation came to: `pending`, `passed` or `blocked`."""
    if record is None or record.validation is None:
        return "pending"
    return "passed" if record.validation.get("passed") else "blocked"


def _publication_word(phase: Phase) -> str:
    if phase is Phase.ROLLED_BACK:
        return "rolled back"
    return "published" if phase in FINISHED else "pending"
