"""What follows an error whose advice names no command: decided by its class, here alone."""

from __future__ import annotations

from typing import Literal

from dpone_dagster.campaign import errors
from dpone_dagster.campaign.errors import DponeError

# The command's help; a look at the campaign, its increments or a target's checkpoint; the same command again.
Following = Literal["help", "campaign", "increments", "checkpoint", "again"]

_OTHER_WORDS = (errors.UsageInvalid, errors.IntervalInvalid, errors.EvidenceInvalid, errors.TargetUnknown)
# What the command is about is over, or there never was any: the same command is refused for good.
_OVER = (
    errors.BackupRefused,
    errors.CampaignRolledBack,
    errors.CancelRefused,
    errors.ReceiptMismatch,
    errors.ReleaseRefused,
    errors.RollbackRefused,
)
# Over, unless an error of the kind knows what makes the same command succeed.
_NO_MORE = (errors.GenerationStale, errors.IncrementRefused)
_OF_INCREMENTS = (errors.HandoffMissing, errors.IncrementRefused)


def following(error: DponeError) -> Following:
    """What to type next; the same command only where following the advice makes it succeed.

    Args:
        error: Its advice names no command.
    """
    if isinstance(error, _OTHER_WORDS):
        return "help"
    if isinstance(error, errors.RewindRefused):
        return "checkpoint"
    over = isinstance(error, _OVER) or (isinstance(error, _NO_MORE) and error.advice == error.next_step)
    if isinstance(error, errors.HandoffMissing) or (over and isinstance(error, _OF_INCREMENTS)):
        return "increments"
    return "campaign" if over else "again"
