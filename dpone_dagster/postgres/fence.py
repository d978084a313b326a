"""The port `Fence` on PostgreSQL: advisory locks, whose every answer is read."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import psycopg
from psycopg import errors as pg
from psycopg import pq

from dpone_dagster.campaign.errors import DponeError, LeaseLost, LockNotDistributed, PublicationBlocked
from dpone_dagster.campaign.ledger import Holder, Neighbour
from dpone_dagster.campaign.names import TableRef, campaign_lock, chunk_lock, publication_lock, target_lock
from dpone_dagster.ports.fence import EXCLUSIVE_WAIT_SECONDS, Fence
from dpone_dagster.postgres.queries import in_schema
from dpone_dagster.postgres.rights import lacking
from dpone_dagster.postgres.session import Session, translate, translated

Mode = Literal["shared", "exclusive"]


def lock_key(name: str) -> int:
    """The first 64 bits of a SHA-256 over a lock's full name: two names can only ever wait for each other.

    Args:
        name: From `campaign/names.py`.
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


class PostgresFence:
    """Advisory locks of one session.

    Args:
        session: Its end frees every lock.
        state_schema: Where the ledger is, which names the chunks that are running.
    """

    def __init__(self, session: Session, state_schema: str) -> None:
        self._session = session
        self._schema = state_schema
        self._queries = in_schema("fence.sql", state_schema)

    def lock_campaign(self, run_key: str, mode: Mode, wait_seconds: float) -> bool:
        """Take the campaign's session lock, or return False after the wait."""
        if mode == "exclusive":
            wait_seconds = min(wait_seconds, EXCLUSIVE_WAIT_SECONDS)
        return self._lock(campaign_lock(self._schema, run_key), mode, wait_seconds)

    def share_target(self, target: TableRef, wait_seconds: float) -> bool:
        """Take the target's lock shared, for the session's life, or return False after the wait."""
        return self._lock(target_lock(target), "shared", wait_seconds)

    def hold_target(self, target: TableRef, wait_seconds: float) -> bool:
        """Take the target's lock alone, for the session's life, or return False after the wait."""
        return self._lock(target_lock(target), "exclusive", wait_seconds)

    def _lock(self, name: str, mode: Mode, wait_seconds: float) -> bool:
        key = lock_key(name)
        return self._ask(f"try_{mode}", key) or (wait_seconds > 0 and self._wait(f"lock_{mode}", key, wait_seconds))

    def _wait(self, query: str, key: int, wait_seconds: float) -> bool:
        # The time-out ends with the short transaction; a session lock outlives it.
        with self._session.transaction():
            self._execute("set_lock_timeout", value=_milliseconds(wait_seconds))
            try:
                self._execute(query, key=key)
            except pg.LockNotAvailable:
                return False  # the server turns the COMMIT of a failed transaction into a ROLLBACK
            return True

    def unlock_campaign(self, run_key: str, mode: Mode) -> None:
        """Release the campaign's lock.

        Raises:
            LeaseLost: It was not held.
        """
        if not self._ask(f"unlock_{mode}", lock_key(campaign_lock(self._schema, run_key))):
            raise LeaseLost(f"the lock of campaign {run_key[:12]} ({mode}) was not held by this session")

    def try_lock_chunk(self, run_key: str, chunk_index: int) -> bool:
        """Take the chunk's session lock now, or return False."""
        return self._ask("try_exclusive", lock_key(chunk_lock(self._schema, run_key, chunk_index)))

    def unlock_chunk(self, run_key: str, chunk_index: int) -> None:
        """Release the chunk's lock.

        Raises:
            LeaseLost: It was not held.
        """
        if not self._ask("unlock_exclusive", lock_key(chunk_lock(self._schema, run_key, chunk_index))):
            raise LeaseLost(f"the lock of chunk {chunk_index} was not held by this session")

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

    def _lock_transaction(self, name: str, words: str, wait_seconds: float) -> None:
        key = lock_key(name)
        connection = self._session.connection
        with translated():
            if connection.info.transaction_status != pq.TransactionStatus.INTRANS:
                raise DponeError(f"{words} lives as long as a transaction, and there is none")
            before = str(self._value("lock_timeout"))
            # The failed statement must not end the transaction, or nobody could be named.
            connection.execute("SAVEPOINT dpone_lock")
            self._execute("set_lock_timeout", value=_milliseconds(wait_seconds))
            try:
                self._execute("lock_transaction", key=key)
            except pg.LockNotAvailable:
                connection.execute("ROLLBACK TO SAVEPOINT dpone_lock")
                named = "; ".join(self._named(key)) or "a session that has just let go"
                raise PublicationBlocked(f"{words} was not free within {wait_seconds:g} s: {named}") from None
            self._execute("set_lock_timeout", value=before)
            connection.execute("RELEASE SAVEPOINT dpone_lock")

    def _named(self, key: int) -> list[str]:
        rows = self._execute("holders", keys=[key]).fetchall()
        return [str(Holder(pid, login_at, name, "holds it")) for _, _, pid, login_at, name in rows]

    def held(self, campaigns: Sequence[Neighbour]) -> list[Neighbour]:
        """Those of them whose lock another session holds."""
        if not campaigns:
            return []
        with translated():
            taken = {key for (key,) in self._execute("held")}
        return [each for each in campaigns if lock_key(self._lock_of(each)) in taken]

    def _lock_of(self, campaign: Neighbour) -> str:
        return campaign_lock(campaign.elsewhere or self._schema, campaign.run_key)

    def holders(self, run_key: str) -> list[Holder]:
        """Sessions that hold the campaign's lock or, by the ledger's running chunks, a chunk's lock."""
        with translated():
            chunks = self._running(run_key)
            locks = {lock_key(chunk_lock(self._schema, run_key, index)): f"chunk {index}" for index, _, _ in chunks}
            campaign = lock_key(campaign_lock(self._schema, run_key))
            rows = self._execute("holders", keys=[campaign, *locks]).fetchall()
        claimed: dict[int, datetime] = {session_id: login_at for _, session_id, login_at in chunks}
        return [
            Holder(
                session_id=pid,
                login_at=login_at or claimed.get(pid),
                name=name,
                lock=locks.get(key) or f"campaign ({'shared' if shared else 'exclusive'})",
            )
            for key, shared, pid, login_at, name in rows
        ]

    def target_holders(self, target: TableRef) -> list[Holder]:
        """Sessions that hold the target's lock."""
        with translated():
            rows = self._execute("holders", keys=[lock_key(target_lock(target))]).fetchall()
        return [Holder(pid, login_at, name, f"the lock of {target}") for _, _, pid, login_at, name in rows]

    def end_session(self, run_key: str, holder: Holder) -> bool:  # noqa: ARG002 - the rows go over the session itself
        """End the session of this id and login time on the server.

        Raises:
            RightsMissing: This login may not see or end it.
        """
        values = {"session_id": holder.session_id, "login_at": holder.login_at}
        try:
            row = self._session.connection.execute(self._queries["end_session"], values).fetchone()
        except pg.InsufficientPrivilege as error:
            raise lacking("pg_signal_backend", f"session {holder.session_id} may not be ended: {error}") from None
        except psycopg.Error as error:
            raise translate(error) from error
        if row is None:
            return False
        seen, ended = row
        if not seen:
            raise lacking("pg_read_all_stats", f"the login time of session {holder.session_id} may not be seen")
        return bool(ended)

    def _running(self, run_key: str) -> list[tuple[int, int, datetime]]:
        row = self._execute("has_chunks", schema=self._schema).fetchone()
        return self._execute("running", run_key=run_key).fetchall() if row and row[0] else []

    def prove_session_locks(self, other: Fence) -> None:
        """Prove by trying that a lock of this session keeps another session out, across transactions.

        Raises:
            LockNotDistributed: It does not (a transaction pooler, a shared session).
        """
        if not isinstance(other, PostgresFence):
            raise LockNotDistributed("the witness is not a session of the same server")
        key = lock_key(f"dpone/proof/{secrets.token_hex(16)}")
        with self._session.transaction():
            mine = self._value("backend_pid")
            locked = self._ask("try_exclusive", key)
        if not locked:
            raise LockNotDistributed("a lock that nobody can hold was not free")
        with other._session.transaction():
            theirs = other._value("backend_pid")
            kept_out = not other._ask("try_exclusive", key)
        with self._session.transaction():
            same = self._value("backend_pid") == mine
            released = self._ask("unlock_exclusive", key)
        if mine == theirs or not (kept_out and same and released):
            raise LockNotDistributed("a lock of one session did not keep another session out across transactions")
        if not other._ask("try_exclusive", key):
            raise LockNotDistributed("a lock that was let go is still held")
        other._ask("unlock_exclusive", key)

    def _ask(self, query: str, key: int) -> bool:
        """The answer of a lock function; anything but true is no lock."""
        with translated():
            row = self._execute(query, key=key).fetchone()
        return row is not None and row[0] is True

    def _value(self, query: str) -> object:
        with translated():
            row = self._execute(query).fetchone()
        return row[0] if row else None

    def _execute(self, query: str, **values: object) -> Any:
        return self._session.connection.execute(self._queries[query], values)


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"
