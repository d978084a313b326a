"""The port `Tables` on PostgreSQL: one object that hands each call to the module whose job it is."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.ledger import Claim
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.ports.source import RowStream
from dpone_dagster.ports.tables import ChunkWrite, IndexViolation, KeyQuality, ShadowHandle, TargetTable
from dpone_dagster.postgres import catalog, swap
from dpone_dagster.postgres import horizon as horizons
from dpone_dagster.postgres import shadow as shadows
from dpone_dagster.postgres.catalog import identifier
from dpone_dagster.postgres.chunkwrite import write_chunk
from dpone_dagster.postgres.digests import content_digest
from dpone_dagster.postgres.queries import load
from dpone_dagster.postgres.session import Session, translated


class PostgresTables:
    """The target's user tables, on one session. The port's docstrings say what each method guarantees.

    Args:
        session: The connection that also holds the locks.
        state_schema: Where the state tables are, for the receipts.
    """

    # There is no place for a mark that would not alter a live table: a comment is its owner's.
    marks_generations = False

    def __init__(self, session: Session, state_schema: str) -> None:
        self._session = session
        self._state_schema = state_schema

    def describe(self, table: TableRef) -> TargetTable | None:
        """Read the exact catalog in one go; None if the table is not there."""
        return catalog.describe(self._session, table)

    def create_shadow(self, live: TargetTable, shadow: TableRef, run_key: str) -> ShadowHandle:
        """Create the loadable shadow from the live catalog, marked as owned by `run_key`."""
        return shadows.create_shadow(self._session, live, shadow, run_key)

    def shadow_owner(self, shadow: TableRef) -> str | None:
        """The run key that owns the table of this name; None if there is no table; "" if it is nobody's shadow."""
        return shadows.shadow_owner(self._session, shadow)

    def loadable(self, table: TableRef) -> ShadowHandle | None:
        """The live table as a `direct` campaign's chunks will find it; None if it is not there."""
        found = catalog.loadable_digest(self._session, table)
        return None if found is None else ShadowHandle(*found)

    def write_chunk(self, claim: Claim, write: ChunkWrite, stream: RowStream) -> ChunkReceipt:
        """Write the chunk and its receipt in one transaction of this session."""
        return write_chunk(self._session, self._state_schema, claim, write, stream)

    def count(self, table: TableRef) -> int:
        """Exact number of rows."""
        return int(self._one(sql.SQL("SELECT /* dpone:count */ count(*) FROM {}").format(identifier(table)))[0])

    def key_quality(self, table: TableRef, key: tuple[str, ...]) -> KeyQuality:
        """NULL keys, and rows that are one too many of their key."""
        names = [sql.Identifier(name) for name in key]
        query = sql.SQL(load("tables.sql")["key_quality"]).format(
            table=identifier(table),
            any_null=sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(name) for name in names),
            key=sql.SQL(", ").join(names),
        )
        null_keys, duplicate_keys = self._one(query)
        return KeyQuality(int(null_keys), int(duplicate_keys))

    def build_indexes(self, shadow: TableRef, live: TargetTable) -> list[IndexViolation]:
        """Build every index and key of the live table that the shadow lacks; names those that its rows forbid."""
        return shadows.build_indexes(self._session, shadow, live)

    def drop_dead_stages(self, shadow: TableRef, run_key: str, chunk_index: int | None = None) -> None:
        """Rows go into the shadow without a stage, so no try leaves one."""

    def stages(self, shadow: TableRef, run_key: str) -> list[str]:  # noqa: ARG002 - see `drop_dead_stages`
        """There are none."""
        return []

    def orphaned_stages(self, table: TableRef) -> list[str]:  # noqa: ARG002 - see `drop_dead_stages`
        """There are none."""
        return []

    def seal(self, shadow: TableRef) -> int | None:  # noqa: ARG002 - the snapshot is the database's, not the table's
        """Take the horizon that readers may not be older than at the swap."""
        return horizons.seal(self._session)

    def settle_horizon(self, shadow: TableRef, horizon: int | None) -> list[str]:
        """Freeze the shadow and name what is still older than the horizon; empty = may be swapped."""
        return [] if horizon is None else horizons.settle_horizon(self._session, shadow, horizon)

    def lock_table(self, table: TableRef, wait_seconds: float) -> None:
        """Inside a transaction: lock one table against everybody, until its end."""
        swap.lock_table(self._session, table, wait_seconds)

    def swap(
        self,
        live: TargetTable,
        shadow: TargetTable,
        backup: TableRef,
        generation: str,  # noqa: ARG002 - see `marks_generations`
    ) -> None:
        """Inside a transaction, both locked: live → backup, shadow → live, proven equal."""
        swap.swap(self._session, live, shadow, backup)

    def drop(self, table: TableRef) -> None:
        """Inside a transaction, the table locked: drop it."""
        swap.drop(self._session, table)

    def types_without_digest(self) -> frozenset[str]:
        """None: both servers are PostgreSQL, and write every value of a contract alike."""
        return frozenset()

    def content_digest(self, table: TableRef, contract: ColumnContract) -> str:
        """`<rows>:<sum>`, as `Source.content_digest`."""
        return content_digest(self._session, table, contract)

    def _one(self, query: sql.Composed) -> tuple[Any, ...]:
        with translated():
            row = self._session.connection.execute(query).fetchone()
        if row is None:
            raise DponeError("the server answered with no row")
        return tuple(row)
