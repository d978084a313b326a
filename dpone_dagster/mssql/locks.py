"""Names of application locks on SQL Server, and what `sp_getapplock` answers."""

from __future__ import annotations

from collections.abc import Mapping

from dpone_dagster.campaign.errors import DponeError, Interrupted, TransientFailure
from dpone_dagster.campaign.names import digest_of

REFUSED = -1
_MEANING: Mapping[int | None, str] = {
    -2: "the request was cancelled",
    -3: "the request was chosen as a deadlock victim",
    -999: "a parameter was wrong, or the call failed otherwise",
}


def lock_resource(database: str, name: str) -> str:
    """The lock's resource: the kind that people read, and a digest over the database's name and the full name.

    A resource holds 255 characters and is cut without a word, which names of schemas alone can reach. Its first 32
    characters are what sys.dm_tran_locks shows, so they tell locks apart already.

    Args:
        database: As the server has it; locks of two databases never meet.
        name: From `campaign/names.py`.
    """
    kind = "/".join(name.split("/")[:2])
    return f"{kind}/{digest_of(database, name, digits=64)}"


def witness_resource(resource: str, session_id: int) -> str:
    """A second lock that names who holds the first one: anybody may test for it, without any right to see sessions.

    Args:
        resource: The lock.
        session_id: Of its holder; unique among live sessions, and the witness ends with its session.
    """
    return f"{resource}/by/{session_id}"


def granted(code: int | None, words: str) -> bool:
    """Whether a code of `sp_getapplock` is a lock.

    Args:
        code: What it returned; None for no answer.
        words: What was asked for, for the message.

    Returns:
        True for 0 and 1, False for -1 (not free within the wait).

    Raises:
        Interrupted: The request was cancelled.
        TransientFailure: It was chosen as a deadlock victim.
        DponeError: Any other code: there is no lock.
    """
    if code in (0, 1):
        return True
    if code == REFUSED:
        return False
    message = f"{words}: sp_getapplock returned {code}: {_MEANING.get(code, 'a code that is not documented')}"
    if code == -2:
        raise Interrupted(message)
    raise TransientFailure(message) if code == -3 else DponeError(message)
