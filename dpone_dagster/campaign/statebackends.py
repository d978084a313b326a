"""Where a campaign's state lives, and what that place can do: the facts that results carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dpone_dagster.campaign.spec import CampaignSpec


@dataclass(frozen=True)
class StateCapabilities:
    """What a state backend can do.

    Attributes:
        backend: As the manifest names it.
        dialect: Of the server that it is on.
        durable_read: Whether state is read by a process that did not write it.
        durable_write: Whether state outlives the process that wrote it.
        lock_scope: What a campaign's lock is.
        distributed_lock: Whether that lock keeps workers on other hosts out.
        continuous_campaign_session_fence: Whether one database session's lock is proven from claim to commit.
    """

    backend: str
    dialect: str
    durable_read: bool
    durable_write: bool
    lock_scope: str
    distributed_lock: bool
    continuous_campaign_session_fence: bool


# By backend and, of the state tables, by the sink's type; docs/state.md has the same table, made from this one.
CAPABILITIES: Mapping[str, StateCapabilities] = {
    "local_file": StateCapabilities("local_file", "file", True, True, "process", False, False),
    "postgres": StateCapabilities("audit_schema", "postgres", True, True, "postgres_advisory_campaign", True, True),
    "mssql": StateCapabilities("audit_schema", "mssql", True, True, "mssql_application_campaign", True, True),
}


def state_file(spec: CampaignSpec) -> Path | None:
    """The campaign's state file; None where the database has the ledger, or the folder is not known.

    Args:
        spec: The campaign.
    """
    if not spec.state.in_file or spec.state.folder is None:
        return None
    return spec.state.folder / f"{spec.run_key}.json"


def state_facts(spec: CampaignSpec, *, there: bool) -> dict[str, object]:
    """The `state_*` keys of the public JSON: no credential, and no file where the database has the ledger.

    Args:
        spec: The campaign.
        there: Whether it has any state yet.
    """
    in_file = spec.state.in_file
    capabilities = CAPABILITIES["local_file" if in_file else spec.sink_type]
    path = state_file(spec)
    return {
        "state_backend": capabilities.backend,
        "state_path": str(path) if path and there else None,
        "state_cache_status": "authoritative" if in_file and there else "unavailable",
        "state_authority": {
            "dialect": capabilities.dialect,
            "schema": None if in_file else spec.state.schema,
            "campaigns_table": None if in_file else "__dpone__backfill_campaigns",
            "chunks_table": None if in_file else "__dpone__backfill_chunks",
            "run_key": spec.run_key,
        },
        "state_capabilities": asdict(capabilities),
    }
