"""Fences: the application locks of one target session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from dpone_dagster.campaign.ledger import Holder, Neighbour
from dpone_dagster.campaign.names import TableRef

# A queued exclusive request keeps new shared holders out, so none queues longer than this.
EXCLUSIVE_WAIT_SECONDS = 5.0


class Fence(Protocol):
    """Application locks. Every return code is read; a lock that is not held is never assumed."""

    def lock_campaign(self, run_key: str, mode: Literal["shared", "exclusive"], wait_seconds: float) -> bool:
        """Take the campaign's session lock, or return False after the wait (at most 5 s for exclusive)."""
        ...

    def unlock_campaign(self, run_key: str, mode: Literal["shared", "exclusive"]) -> None:
        """Release it.

        Raises:
            LeaseLost: It was not held.
        """
        ...

    def try_lock_chunk(self, run_key: str, chunk_index: int) -> bool:
        """Take the chunk's session lock now, or return False."""
        ...

    def unlock_chunk(self, run_key: str, chunk_index: int) -> None:
        """Release it.

        Raises:
            LeaseLost: It was not held.
        """
        ...

    def share_target(self, target: TableRef, wait_seconds: float) -> bool:
        """Take the target's lock shared, for the session's life, or return False after the wait.

        Whoever writes to the live table by chunks shares it; increments, publications and rollbacks take it alone.
        """
        ...

    def hold_target(self, target: TableRef, wait_seconds: float) -> bool:
        """Take the target's lock alone, for the session's life, or return False after the wait.

        For the one lane of a campaign that others cannot see, because its state is a file.
        """
        ...

    def lock_target(self, target: TableRef, wait_seconds: float) -> None:
        """Inside a transaction: the target's lock, until its end.

        Raises:
            PublicationBlocked: Not free within the wait; names the holder.
        """
        ...

    def lock_publication(self, target: TableRef, wait_seconds: float) -> None:
        """Inside a transaction, after `lock_target`: the publication lock, until its end."""
        ...

    def held(self, campaigns: Sequence[Neighbour]) -> list[Neighbour]:
        """Those of them whose lock another session holds, in one statement that takes no right.

        An answer that is missing or unclear counts as held, and a failure is an error.
        """
        ...

    def holders(self, run_key: str) -> list[Holder]:
        """Sessions that hold the campaign's lock or, by the ledger's running chunks, a chunk's lock.

        For people to know them by: a server may not show all of them, so `held` decides.
        """
        ...

    def target_holders(self, target: TableRef) -> list[Holder]:
        """Sessions that hold the target's lock: a publication, a handoff, an increment, a rollback, or a drop."""
        ...

    def end_session(self, run_key: str, holder: Holder) -> bool:
        """End the session of this id and login time on the server, and what copies rows on its behalf.

        The server rolls back and frees the locks; until it has, the session is still among the holders.

        Returns:
            False if there is no such session any more, whoever may have its id now.

        Raises:
            RightsMissing: This login may not see or end it; the right is named.
        """
        ...

    def prove_session_locks(self, other: Fence) -> None:
        """Prove by trying that a lock of this session keeps another session out, across transactions.

        Args:
            other: Of a session that is there for this alone, and may be closed by it.

        Raises:
            LockNotDistributed: It does not (a transaction pooler, a shared session).
        """
        ...
