"""Stage tables of chunks: one belongs to one try, is never written twice, and is dropped by whoever finds it dead."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpone_dagster.campaign.errors import ConnectionLost, DponeError
from dpone_dagster.campaign.ledger import Claim
from dpone_dagster.campaign.names import TableRef, digest_of
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import quoted, quoted_table
from dpone_dagster.mssql.session import Session

_log = logging.getLogger(__name__)
_FILE = "chunkwrite.sql"
_STAGE = "__dpone_stage_"


@dataclass(frozen=True)
class Stage:
    """A stage table and what its columns are for.

    Attributes:
        table: Beside the table that is loaded.
        columns: The stage's column for each target column: neutral names, since bulk clients stumble over some.
        label: On whose behalf it is written, for people who look at sessions.
    """

    table: TableRef
    columns: Mapping[str, str]
    label: str

    @property
    def name(self) -> str:
        """Quoted."""
        return quoted_table(self.table)

    def values(self, names: Sequence[str], alias: str) -> str:
        """The stage's columns in the order of these target columns."""
        return ", ".join(f"{alias}.{quoted(self.columns[name])}" for name in names)


def make_stage(session: Session, claim: Claim, loaded: TableRef, names: Sequence[str]) -> Stage:
    """Create the stage of one try, with the types and collations of the table that is loaded.

    Args:
        session: Not in a transaction: the bulk connection has to see the table.
        claim: Whose try.
        loaded: The table.
        names: Target columns that will be loaded.
    """
    columns = {name: f"c{number}" for number, name in enumerate(names)}
    table = f"{stage_prefix(claim.run_key)}c{claim.chunk_index}_e{claim.epoch}_t{secrets.token_hex(4)}"
    stage = Stage(loaded.sibling(table), columns, label_of(claim.run_key, claim.chunk_index, claim.epoch))
    listed = ", ".join(f"t.{quoted(name)} AS {quoted(short)}" for name, short in columns.items())
    session.execute(filled(load(_FILE)["create_stage"], columns=listed, stage=stage.name, table=quoted_table(loaded)))
    return stage


def label_of(run_key: str, chunk_index: int, epoch: int) -> str:
    """Campaign, chunk and epoch; whoever reads the run key's beginning can look up everything else."""
    return f"{run_key[:12]} chunk={chunk_index:d} epoch={epoch:d}"


def drop_stage(session: Session, stage: TableRef) -> None:
    """Drop a stage, waiting at most a second; one that cannot be dropped now is found again later."""
    try:
        session.execute(filled(load(_FILE)["drop_stage"], stage=quoted_table(stage)))
    except ConnectionLost:
        raise
    except DponeError as error:
        _log.info("stage %s stays for now: %s", stage, error.message)
        with contextlib.suppress(DponeError):
            session.execute(load(_FILE)["wait_again"])


def drop_dead_stages(session: Session, schema: str, run_key: str, chunk_index: int | None = None) -> None:
    """Drop what earlier tries left: of one chunk, by whoever holds its lock; or of all, if the campaign is held.

    Args:
        session: The one that holds the lock.
        schema: Of the table that is loaded.
        run_key: The campaign.
        chunk_index: The chunk; None for every chunk.
    """
    prefix = stage_prefix(run_key) + ("" if chunk_index is None else f"c{chunk_index}_")
    for name in stages_of(session, schema, prefix):
        drop_stage(session, TableRef(schema, name))


def stages_of(session: Session, schema: str, prefix: str) -> list[str]:
    """Names of the stages that begin so."""
    return [str(name) for (name,) in session.rows(load(_FILE)["old_stages"], schema, len(prefix), prefix)]


def orphaned_stages(session: Session, state_schema: str, schema: str) -> list[str]:
    """Names of the stages in a schema that belong to no unfinished campaign of any target.

    Args:
        session: The connection.
        state_schema: Where the state tables are.
        schema: Of the tables that are loaded.
    """
    found = stages_of(session, schema, _STAGE)
    unfinished = session.rows(load(_FILE, state_schema)["unfinished_campaigns"]) if found else []
    owned = tuple(stage_prefix(run_key) for (run_key,) in unfinished)
    return [name for name in found if not name.startswith(owned)]


def stage_prefix(run_key: str) -> str:
    """How the names of a campaign's stages begin."""
    return f"{_STAGE}{digest_of(run_key, digits=16)}_"
