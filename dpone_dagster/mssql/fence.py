"""The port `Fence` on SQL Server: application locks, whose every return code is read.

Verified on Babelfish 4.3. UNVERIFIED on SQL Server: naming holders by testing their witnesses, which is a courtesy to
people; no decision rests on it.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from dpone_dagster.campaign.errors import DponeError, LeaseLost, LockNotDistributed, PublicationBlocked
from dpone_dagster.campaign.ledger import Holder, Neighbour
from dpone_dagster.campaign.names import TableRef, campaign_lock, chunk_lock, publication_lock, target_lock
from dpone_dagster.mssql.faults import ServerError
from dpone_dagster.mssql.locks import granted, lock_resource, witness_resource
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.rights import lacking
from dpone_dagster.mssql.session import CONTROL_SECONDS, Row, Session
from dpone_dagster.mssql.stages import label_of
from dpone_dagster.mssql.statevalues import stored
from dpone_dagster.ports.fence import EXCLUSIVE_WAIT_SECONDS, Fence

_log = logging.getLogger(__name__)
Mode = Literal["shared", "exclusive"]
_LOCK_MODE = {"shared": "Shared", "exclusive": "Exclusive"}
# Session numbers that are tried where the login may not see sessions; the server gives the lowest free one.
_GUESSED_SESSIONS = 2_000

# KILL of a session that has just ended; KILL without the right to (Microsoft's list of system error messages).
_NOT_ALIVE, _KILL_REFUSED = 6106, 6102
_SEE_SESSIONS = "VIEW SERVER STATE (VIEW SERVER PERFORMANCE STATE from 2022 on)"
_END_SESSIONS = "ALTER ANY CONNECTION"


class MssqlFence:
    """Application locks of one session.

    Args:
        session: Its end frees every lock.
        state_schema: Where the ledger is, which names the chunks that are running.
    """

    def __init__(self, session: Session, state_schema: str) -> None:
        self._session = session
        self._schema = state_schema
        self._queries = load("fence.sql", state_schema)

    def lock_campaign(self, run_key: str, mode: Mode, wait_seconds: float) -> bool:
        """Take the campaign's session lock, or return False after the wait."""
        if mode == "exclusive":
            wait_seconds = min(wait_seconds, EXCLUSIVE_WAIT_SECONDS)
        return self._lock(campaign_lock(self._schema, run_key), mode, wait_seconds)

    def unlock_campaign(self, run_key: str, mode: Mode) -> None:
        """Release the campaign's lock.

        Raises:
            LeaseLost: It was not held.
        """
        self._unlock(campaign_lock(self._schema, run_key), mode, f"the lock of campaign {run_key[:12]} ({mode})")

    def try_lock_chunk(self, run_key: str, chunk_index: int) -> bool:
        """Take the chunk's session lock now, or return False."""
        return self._lock(chunk_lock(self._schema, run_key, chunk_index), "exclusive", 0)

    def unlock_chunk(self, run_key: str, chunk_index: int) -> None:
        """Release the chunk's lock.

        Raises:
            LeaseLost: It was not held.
        """
        self._unlock(chunk_lock(self._schema, run_key, chunk_index), "exclusive", f"the lock of chunk {chunk_index}")

    def share_target(self, target: TableRef, wait_seconds: float) -> bool:
        """Take the target's lock shared, for the session's life, or return False after the wait."""
        return self._lock(target_lock(target), "shared", wait_seconds)

    def hold_target(self, target: TableRef, wait_seconds: float) -> bool:
        """Take the target's lock alone, for the session's life, or return False after the wait."""
        return self._lock(target_lock(target), "exclusive", wait_seconds)

    def lock_target(self, target: TableRef, wait_seconds: float) -> None:
        """Inside a transaction: the target's lock, until its end.

        Raises:
            PublicationBlocked: Not free within the wait; names the holder.
        """
        self._lock_transaction(target_lock(target), f"the lock of {target}", wait_seconds)

    def lock_publication(self, target: TableRef, wait_seconds: float) -> None:
        """Inside a transaction, after `lock_target`: the publication lock, until its end.

        Raises:
            PublicationBlocked: Not free within the wait; names the holder.
        """
        self._lock_transaction(publication_lock(target), f"the publication lock of {target}", wait_seconds)

    def held(self, campaigns: Sequence[Neighbour]) -> list[Neighbour]:
        """Those of them whose lock another session holds; whatever is not known to be free counts as held."""
        if not campaigns:
            return []
        locks = [campaign_lock(each.elsewhere or self._schema, each.run_key) for each in campaigns]
        asked = json.dumps([[place, self._resource(lock)] for place, lock in enumerate(locks)])
        free = {place for place, answer in self._session.rows(self._queries["held"], asked) if answer == 1}
        return [each for place, each in enumerate(campaigns) if place not in free]

    def holders(self, run_key: str) -> list[Holder]:
        """Sessions that hold the campaign's lock or, by the ledger's running chunks, a chunk's lock."""
        campaign = self._resource(campaign_lock(self._schema, run_key))
        return [*self._holders_of(campaign, "campaign ({mode})"), *self._chunk_holders(run_key)]

    def target_holders(self, target: TableRef) -> list[Holder]:
        """Sessions that hold the target's lock."""
        return self._holders_of(self._resource(target_lock(target)), f"the lock of {target}")

    def end_session(self, run_key: str, holder: Holder) -> bool:
        """End the session of this id and login time on the server, and the bulk sessions of its claims.

        Raises:
            RightsMissing: This login may not see or end it.
        """
        if holder.login_at is None or not self._session.value(self._queries["sees_sessions"]):
            raise lacking(_SEE_SESSIONS, f"the login time of session {holder.session_id} may not be seen")
        labels = {label.encode() for label in self._labels(run_key, holder)}
        for session_id, context, login_at in self._session.rows(self._queries["copying"]):
            if bytes(context or b"").rstrip(b"\0") in labels:
                self._end(session_id, login_at.replace(tzinfo=UTC))
        return self._end(holder.session_id, holder.login_at)

    def _labels(self, run_key: str, holder: Holder) -> list[str]:
        """What the bulk session of this session says of itself."""
        if holder.login_at is None or not self._session.value(self._queries["has_chunks"], self._schema):
            return []
        login_at = stored(holder.login_at)
        rows = self._session.rows(self._queries["claims"], run_key, holder.session_id, login_at)
        return [label_of(run_key, index, epoch) for index, epoch in rows]

    def _end(self, session_id: int, login_at: datetime) -> bool:
        query = filled(self._queries["end_session"], session=str(int(session_id)))
        try:
            return bool(self._session.value(query, stored(login_at)))
        except ServerError as error:
            if error.number == _NOT_ALIVE:
                return False
            if error.number == _KILL_REFUSED:
                raise lacking(_END_SESSIONS, f"session {session_id} may not be ended: {error.message}") from None
            raise

    def prove_session_locks(self, other: Fence) -> None:
        """Prove by trying that a lock of this session keeps another session out, across transactions, until its end.

        Each try is one batch and so a transaction of its own, which tells in whose session the server did it.

        Raises:
            LockNotDistributed: It does not (a proxy that shares sessions, a pool that keeps closed ones).
        """
        if not isinstance(other, MssqlFence):
            raise LockNotDistributed("the witness is not a session of the same server")
        name = f"dpone/proof/{secrets.token_hex(16)}"
        mine, locked = self._asked(name, "exclusive", 0)
        if not locked:
            raise LockNotDistributed("a lock that nobody can hold was not free")
        theirs, let_in = other._asked(name, "exclusive", 0)
        still_mine, released = self._let_go(name, "exclusive")
        if let_in or not released or still_mine != mine or mine == theirs:
            raise LockNotDistributed("a lock of one session did not keep another session out across transactions")
        if not other._lock(name, "exclusive", 0):
            raise LockNotDistributed("a lock that was let go is still held")
        other._session.close()
        if not self._lock(name, "exclusive", CONTROL_SECONDS):
            raise LockNotDistributed(
                "a session that was closed keeps its locks: the ODBC driver manager pools connections",
                next_step="Set `Pooling = No` in the section [ODBC] of odbcinst.ini, wherever a lane may run.",
            )
        self._release(name, "exclusive")

    # ------------------------------------------------------------ one lock

    def _resource(self, name: str) -> str:
        return lock_resource(self._session.database, name)

    def _lock(self, name: str, mode: Mode, wait_seconds: float) -> bool:
        return self._asked(name, mode, wait_seconds)[1]

    def _asked(self, name: str, mode: Mode, wait_seconds: float) -> tuple[int | None, bool]:
        """The session that the server did it in, and whether it has the lock."""
        resource, lock_mode = self._resource(name), _LOCK_MODE[mode]
        codes = self._session.row(
            self._queries["lock_session"],
            resource,
            lock_mode,
            _milliseconds(wait_seconds),
            witness_resource(resource, self._session.session_id),
            lock_mode,
            seconds=_bound(wait_seconds),
        )
        code, witness, session_id = codes or (None, None, None)
        return session_id, _granted((code, witness), name)

    def _unlock(self, name: str, mode: Mode, words: str) -> None:
        if not self._release(name, mode):
            raise LeaseLost(f"{words} was not held by this session")

    def _release(self, name: str, mode: Mode) -> bool:
        """Release lock and witness; False if the lock is not held in this mode."""
        return self._let_go(name, mode)[1]

    def _let_go(self, name: str, mode: Mode) -> tuple[int, bool]:
        """The session that the server did it in, and whether it had the lock."""
        resource = self._resource(name)
        witness = witness_resource(resource, self._session.session_id)
        code, session_id = self._session.one(self._queries["release"], resource, witness, _LOCK_MODE[mode])
        return session_id, code == 0

    def _lock_transaction(self, name: str, words: str, wait_seconds: float) -> None:
        if not self._session.in_transaction:
            raise DponeError(f"{words} lives as long as a transaction, and there is none")
        resource = self._resource(name)
        codes = self._session.row(
            self._queries["lock_transaction"],
            resource,
            _milliseconds(wait_seconds),
            witness_resource(resource, self._session.session_id),
            seconds=_bound(wait_seconds),
        )
        if not _granted(codes, words):
            named = "; ".join(str(holder) for holder in self._holders_of(resource, "holds it"))
            raise PublicationBlocked(
                f"{words} was not free within {wait_seconds:g} s: {named or 'a session that has just let go'}"
            )

    # ------------------------------------------------------------ who holds it

    def _holders_of(self, resource: str, lock: str) -> list[Holder]:
        try:
            guessed = 0 if self._session.value(self._queries["sees_sessions"]) else _GUESSED_SESSIONS
            rows = self._session.rows(self._queries["holders"], resource, resource, guessed)
        except ServerError as error:
            _log.warning("holders of %s cannot be named: %s", resource, error.message)
            return []
        return [
            Holder(session_id, _utc(login_at), name or "no name", lock.format(mode=mode))
            for session_id, mode, name, login_at in rows
        ]

    def _chunk_holders(self, run_key: str) -> list[Holder]:
        if not self._session.value(self._queries["has_chunks"], self._schema):
            return []
        held = []
        for index, session_id, login_at, name in self._session.rows(self._queries["running"], run_key):
            resource = self._resource(chunk_lock(self._schema, run_key, index))
            # The claimer's own witness: a session that has only just locked the chunk has not claimed it.
            if self._session.value(self._queries["test"], witness_resource(resource, session_id)) == 0:
                held.append(Holder(session_id, _utc(login_at), name, f"chunk {index}"))
        return held


def _granted(codes: Row | None, words: str) -> bool:
    """Whether the lock was given. Without its witness it holds all the same; only its holder has no name."""
    code, witness = codes or (None, None)
    given = granted(code, words)
    if given and witness not in (0, 1):
        _log.warning("%s: its witness was refused with %s, so its holder cannot be named", words, witness)
    return given


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _bound(wait_seconds: float) -> int:
    return CONTROL_SECONDS + round(wait_seconds + 0.5)
