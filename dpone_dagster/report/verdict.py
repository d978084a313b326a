"""What a campaign came to, in a few words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpone_dagster.campaign.ledger import CampaignRecord, Phase
from dpone_dagster.engine.inspect import CampaignStatus

Tone = Literal["good", "work", "warn", "bad"]


@dataclass(frozen=True)
class Verdict:
    """The first thing that a reader sees.

    Attributes:
        tone: How it is coloured.
        word: Two or three words.
        sentence: What they mean here.
    """

    tone: Tone
    word: str
    sentence: str


def verdict_of(status: CampaignStatus) -> Verdict:
    """Judge where a campaign stands.

    Args:
        status: As it was read.
    """
    if status.record is None:
        return Verdict("work", "Not prepared", "The campaign is in its manifest only; no table was touched.")
    ended = _ended(status, status.record)
    return ended or _under_way(status, status.record)


def _ended(status: CampaignStatus, record: CampaignRecord) -> Verdict | None:
    target, receipt = status.spec.target, status.publication
    rows = f"{receipt.actual_rows:,} rows" if receipt else "the rows"
    match status.phase:
        case Phase.PUBLISHED if record.direct:
            return Verdict("good", "Loaded", f"{status.progress.rows_loaded:,} rows went straight into {target}.")
        case Phase.HANDOFF_COMMITTED:
            return Verdict("good", "Published, handed over", f"{rows} are live as {target}; increments may run.")
        case Phase.PUBLISHED if status.spec.handoff_id is None:
            return Verdict("good", "Published", f"{rows} are live as {target}.")
        case Phase.PUBLISHED:
            return Verdict("warn", "Published, handoff open", f"{rows} are live as {target}; no increment may run yet.")
        case Phase.ROLLED_BACK:
            return Verdict(
                "warn", "Rolled back", f"The campaign was {record.stop_reason}; {target} is as it was before."
            )
        case Phase.CANCELLED:
            who = f"Cancelled by {record.cancel_requested_by}: {record.cancel_reason}"
            return Verdict("warn", "Cancelled", f"{who}. {_live(status)}")
    return None


def _under_way(status: CampaignStatus, record: CampaignRecord) -> Verdict:
    progress = status.progress
    done = f"{progress.committed:,} of {progress.total:,} chunks are committed; {_live(status)}"
    if status.phase is Phase.BLOCKED:
        red = ", ".join(finding.path for finding in status.blocking)
        return Verdict("bad", "Blocked", f"Validation found {red or 'something'} red; {_live(status)}")
    if status.phase in (Phase.SEALED, Phase.VALIDATED):
        word = "Validated" if status.phase is Phase.VALIDATED else "Sealed"
        return Verdict("work", word, f"All chunks are committed and nothing loads any more; {_live(status)}")
    if progress.failed:
        return Verdict("bad", "Chunks failed", f"{progress.failed:,} failed. {done}")
    if record.stop_reason:
        return Verdict("bad", "Stopped", f"{record.stop_reason}. {done}")
    if status.phase is Phase.PREPARED:
        return Verdict("work", "Prepared", done if status.spec.direct else f"The shadow is there and empty. {done}")
    if progress.remaining == 0:
        return Verdict("work", "Loaded", f"All chunks are committed; {_live(status)}")
    if progress.lease_expired and not progress.running:
        return Verdict(
            "warn", "Not heard of", f"{progress.lease_expired:,} chunks have a worker that is silent. {done}"
        )
    if status.unattended:
        return Verdict("warn", "Interrupted", f"Nobody works on it. {done}")
    return Verdict("work", "Loading", done)


def _live(status: CampaignStatus) -> str:
    """What has become of the live table before the campaign is through."""
    if status.spec.direct:
        return f"{status.spec.target} holds what is committed."
    return f"{status.spec.target} is untouched."
