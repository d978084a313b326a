"""What to do about an increment or a command that failed: it is given again, where a campaign would be resumed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from dpone_dagster.campaign.errors import (
    CatalogDrift,
    ConnectionLost,
    CountMismatch,
    DponeError,
    Interrupted,
    OutcomeUnknown,
    PublicationBlocked,
    ServerFull,
    TransientFailure,
    UniqueConflict,
    ValidationBlocked,
    ValueNotRepresentable,
)

AGAIN = "run the increment again: `dpone increment run MANIFEST`, or wait for its schedule"
_ADVICE: Mapping[type[DponeError], str] = {
    CatalogDrift: f"Undo the change, then {AGAIN}; or start a new campaign with a new `backfill_id`.",
    ConnectionLost: f"Check server and network, then {AGAIN}.",
    CountMismatch: f"Nothing of it was kept; {AGAIN}.",
    Interrupted: f"Nothing of it was kept; {AGAIN}.",
    OutcomeUnknown: f"The checkpoint tells whether it was applied, and twice is harmless; {AGAIN}.",
    PublicationBlocked: f"Wait for the named session, then {AGAIN}.",
    ServerFull: f"Make room (docs/runbook.md says how), then {AGAIN}.",
    TransientFailure: f"Nothing of it was kept; {AGAIN}.",
    UniqueConflict: (
        "Make the same columns unique in the source, or drop the target's index (with `delete_mode: soft`, leave "
        f"marked rows out of it); then {AGAIN}. While the index is missing a rollback is refused: create it again as "
        "it was before one."
    ),
    ValidationBlocked: f"Mend the cause, then {AGAIN}.",
    ValueNotRepresentable: f"Correct the source row, then {AGAIN}; or start a new campaign with another contract.",
}

_SAME_COMMAND = "give the same command again; if it was done already, that says so."
_ADVICE_ON_COMMANDS: Mapping[type[DponeError], str] = {
    ConnectionLost: f"Check server and network, then {_SAME_COMMAND}",
    OutcomeUnknown: f"Only the receipt tells: {_SAME_COMMAND}",
    PublicationBlocked: f"End the named blocker, or wait for it; then {_SAME_COMMAND}",
    TransientFailure: f"Nothing of it was kept: {_SAME_COMMAND}",
}


def advice_for_increments() -> contextlib.AbstractContextManager[None]:
    """Let an error say what to do about an increment, unless it knows better than its kind."""
    return _advice_of(_ADVICE)


def advice_for_commands() -> contextlib.AbstractContextManager[None]:
    """Likewise about a rollback, or a backup that is dropped: a published campaign is not resumed."""
    return _advice_of(_ADVICE_ON_COMMANDS)


@contextlib.contextmanager
def _advice_of(advice: Mapping[type[DponeError], str]) -> Iterator[None]:
    try:
        yield
    except DponeError as error:
        if error.advice == error.next_step:
            error.advice = advice.get(type(error), error.advice)
        raise
