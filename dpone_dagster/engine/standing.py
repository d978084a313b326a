"""Whether a campaign can still be published: history, live table and source are what they were at its prepare."""

from __future__ import annotations

import json

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.differences import differences
from dpone_dagster.campaign.errors import CatalogDrift, DponeError, GenerationStale, HandoffRefused
from dpone_dagster.campaign.identity import canonical_json
from dpone_dagster.campaign.ledger import LOADABLE, CampaignRecord, Phase
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.generation import is_generation
from dpone_dagster.engine.twoends import prove_two_ends
from dpone_dagster.ports.source import Source, SourceTable
from dpone_dagster.ports.tables import TargetTable
from dpone_dagster.ports.target import Target

_TO_BE_LOADED = LOADABLE | {Phase.CANCELLED}


def prove_standing(spec: CampaignSpec, record: CampaignRecord, source: Source, target: Target) -> None:
    """What is still to be loaded can be published then. Reads catalogs and state only.

    Args:
        spec: The campaign.
        record: Its row; neither finished nor rolled back.
        source: The connection.
        target: The connection.

    Raises:
        GenerationStale: The live table is another generation than at prepare.
        CatalogDrift: Source or live table were altered since; the message names what differs.
        SourceIsTarget: A connection leads elsewhere since, and both ends are one table.
    """
    table = _prove_source(spec, record, source)
    if record.phase not in _TO_BE_LOADED:
        return
    prove_two_ends(spec, source, table, target, record.live_object_id)
    try:
        if record.direct:
            prove_written(record, target)
        else:
            prove_head(record, target)
            prove_live(record, target)
    except DponeError:
        # A run beside this one may have published the campaign in between.
        now = target.ledger.campaign(record.run_key)
        if now is None or now.phase in _TO_BE_LOADED:
            raise


def prove_head(record: CampaignRecord, target: Target) -> int:
    """The target's history is what it was at prepare; returns the next sequence.

    Raises:
        GenerationStale: The target was published or rolled back since.
        HandoffRefused: The publication before still waits for its handoff.
    """
    head = target.publications.head(record.target)
    if head is None:
        if record.predecessor_receipt is not None:
            raise GenerationStale(f"the publication history of {record.target} vanished")
        return 1
    if head.receipt_id != record.predecessor_receipt:
        done = "rolled back" if head.kind == "rollback" else "published"
        raise GenerationStale(f"{record.target} was {done} by campaign {head.run_key[:12]} since the prepare")
    if head.head == "pending":
        raise HandoffRefused(f"publication {head.receipt_id} still waits for its handoff {head.handoff_id}")
    return head.sequence + 1


def prove_live(record: CampaignRecord, target: Target) -> TargetTable:
    """The live table is the one of prepare, and as it was then.

    Raises:
        GenerationStale: It was replaced.
        CatalogDrift: It is gone or was altered, or has gained what a swap would lose.
    """
    live = target.tables.describe(record.target)
    if live is None:
        raise CatalogDrift(f"{record.target} is gone")
    if not is_generation(live, record.live_object_id, record.live_generation, target.tables):
        raise GenerationStale(f"{record.target} was replaced since the campaign was prepared")
    if live.sha256 != record.object_contract_sha256:
        found = differences(_plain(record.object_contract), _plain(live.contract))
        raise CatalogDrift(f"{record.target} was altered since the campaign was prepared: {', '.join(found)}")
    if live.findings:
        raise CatalogDrift(f"{record.target} gained something that a swap would lose", findings=live.findings)
    return live


def prove_written(record: CampaignRecord, target: Target) -> None:
    """The live table takes rows as it did at the prepare of a `direct` campaign; its indexes may change.

    Raises:
        CatalogDrift: It is another table, or was altered.
    """
    found = target.tables.loadable(record.target)
    if found is None or found.object_id != record.shadow_object_id:
        raise CatalogDrift(f"{record.target} was replaced since the campaign was prepared")
    if found.digest != record.shadow_digest:
        raise CatalogDrift(f"{record.target} was altered since the campaign was prepared")


def _prove_source(spec: CampaignSpec, record: CampaignRecord, source: Source) -> SourceTable:
    table = source.describe(spec.source, spec.source_columns)
    if table.digest == record.source_digest:
        return table
    found = _altered(table, ColumnContract.from_dict(record.contract), whole=spec.source_columns is None)
    raise CatalogDrift(f"{spec.source} no longer looks as it did when the campaign was prepared: {found}")


def _altered(table: SourceTable, contract: ColumnContract, *, whole: bool) -> str:
    """What the digest was taken over and does not tell; the campaign has names and types of the columns only."""
    then = {column.source: column.source_type for column in contract.columns}
    now = {column.name: str(column.type) for column in table.columns}
    found = [f"column {name} is gone" for name in then if name not in now]
    found += [f"column {n} was {t} and is {now[n]}" for n, t in then.items() if n in now and now[n] != t]
    found += [f"column {name} is new" for name in now if whole and name not in then]
    return "; ".join(found) or "another table, partition, NOT NULL, collation or order of columns"


def _plain(contract: object) -> object:
    """As it is stored."""
    return json.loads(canonical_json(contract))
