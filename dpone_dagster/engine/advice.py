"""What to do about an increment that failed: it is run again, where a campaign would be resumed."""

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


@contextlib.contextmanager
def advice_for_increments() -> Iterator[None]:
    """Let an error say what to do about an increment, unless it knows better than its kind."""
    try:
        yield
    except DponeError as error:
        if error.advice == error.next_step:
            error.advice = _ADVICE.get(type(error), error.advice)
        raise
