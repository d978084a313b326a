"""The port `Tables` on SQL Server: one object that hands each call to the module whose job it is."""

from __future__ import annotations

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.ledger import Claim
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.receipts import ChunkReceipt
from dpone_dagster.mssql import shadow as shadows
from dpone_dagster.mssql import swap
from dpone_dagster.mssql.catalog import CatalogReader
from dpone_dagster.mssql.chunkwrite import ChunkWriter
from dpone_dagster.mssql.digests import content_digest, types_without_digest
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import quoted, quoted_table
from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.mssql.stages import drop_dead_stages, orphaned_stages, stage_prefix, stages_of
from dpone_dagster.ports.source import RowStream
from dpone_dagster.ports.tables import ChunkWrite, IndexViolation, KeyQuality, ShadowHandle, TargetTable

_FILE = "tables.sql"


class MssqlTables:
    """The target's user tables, on one session. The port's docstrings say what each method guarantees.

    Args:
        session: The connection that also holds the locks.
        state_schema: Where the state tables are, for the receipts.
    """

    marks_generations = True

    def __init__(self, session: Session, state_schema: str) -> None:
        self._session = session
        self._state_schema = state_schema
        self._reader = CatalogReader(session)
        self._writer = ChunkWriter(session, self._reader, state_schema)

    def describe(self, table: TableRef) -> TargetTable | None:
        """Read the exact catalog in one go; None if the table is not there."""
        return self._reader.describe(table)

    def create_shadow(self, live: TargetTable, shadow: TableRef, run_key: str) -> ShadowHandle:
        """Create the loadable shadow from the live catalog, marked as owned by `run_key`."""
        return shadows.create_shadow(self._session, self._reader, live, shadow, run_key)

    def shadow_owner(self, shadow: TableRef) -> str | None:
        """The run key that owns the table of this name; None if there is no table; "" if it is nobody's shadow."""
        return shadows.shadow_owner(self._reader, shadow)

    def loadable(self, table: TableRef) -> ShadowHandle | None:
        """The live table as a `direct` campaign's chunks will find it; None if it is not there."""
        found = self._reader.loadable_digest(table)
        return None if found is None else ShadowHandle(*found)

    def write_chunk(self, claim: Claim, write: ChunkWrite, stream: RowStream) -> ChunkReceipt:
        """Write the chunk and its receipt in one transaction of this session."""
        return self._writer.write(claim, write, stream)

    def count(self, table: TableRef) -> int:
        """Exact number of rows."""
        return int(self._session.value(filled(load(_FILE)["count"], table=quoted_table(table)), seconds=UNBOUNDED))

    def key_quality(self, table: TableRef, key: tuple[str, ...]) -> KeyQuality:
        """NULL keys, and rows that are one too many of their key."""
        names = [quoted(name) for name in key]
        query = filled(
            load(_FILE)["key_quality"],
            table=quoted_table(table),
            any_null=" OR ".join(f"{name} IS NULL" for name in names),
            none_null=" AND ".join(f"{name} IS NOT NULL" for name in names),
            key=", ".join(names),
        )
        null_keys, duplicate_keys = self._session.rows(query, seconds=UNBOUNDED)[0]
        return KeyQuality(int(null_keys), int(duplicate_keys))

    def build_indexes(self, shadow: TableRef, live: TargetTable) -> list[IndexViolation]:
        """Build every index of the live table that the shadow lacks; names those that its rows forbid."""
        return shadows.build_indexes(self._session, self._reader, shadow, live)

    def drop_dead_stages(self, shadow: TableRef, run_key: str, chunk_index: int | None = None) -> None:
        """Drop what dead tries of a chunk left, its lock held; or of all chunks, the campaign held."""
        drop_dead_stages(self._session, shadow.schema, run_key, chunk_index)

    def stages(self, shadow: TableRef, run_key: str) -> list[str]:
        """Names of the campaign's stages that are there, dead or in use."""
        return stages_of(self._session, shadow.schema, stage_prefix(run_key))

    def orphaned_stages(self, table: TableRef) -> list[str]:
        """Stage tables beside this table that belong to no unfinished campaign; the state tables are there."""
        return orphaned_stages(self._session, self._state_schema, table.schema)

    def seal(self, shadow: TableRef) -> int | None:
        """Nothing is loaded any more: bring a columnstore into its final form.

        No horizon is needed: a reader of row versions that is older than the swap gets an error (3961), not half the
        rows. UNVERIFIED on SQL Server.
        """
        shadows.seal_rows(self._session, self._reader, shadow)
        return None

    def settle_horizon(self, shadow: TableRef, horizon: int | None) -> list[str]:  # noqa: ARG002 - see `seal`
        """Nobody can be older than a horizon that is not needed."""
        return []

    def lock_table(self, table: TableRef, wait_seconds: float) -> None:
        """Inside a transaction: lock one table against everybody, until its end."""
        swap.lock_table(self._session, self._reader, table, wait_seconds)

    def swap(self, live: TargetTable, shadow: TargetTable, backup: TableRef, generation: str) -> None:
        """Inside a transaction, both locked: live → backup, shadow → live, proven equal and marked."""
        swap.swap(self._session, self._reader, live, shadow, backup)
        swap.mark_generation(self._session, self._reader, live.table, generation)

    def drop(self, table: TableRef) -> None:
        """Inside a transaction, the table locked: drop it."""
        swap.drop(self._session, table)

    def types_without_digest(self) -> frozenset[str]:
        """Types whose values this server does not write as the source does."""
        return types_without_digest(self._session)

    def content_digest(self, table: TableRef, contract: ColumnContract) -> str:
        """`<rows>:<sum>`, as `Source.content_digest`."""
        return content_digest(self._session, table, contract)
