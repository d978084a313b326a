"""Prepare: prove that the campaign can be done, then create it in one transaction; or re-check the one there is."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Literal

from dpone_dagster.campaign.contract import ColumnContract, type_word
from dpone_dagster.campaign.deletion import delete_mark
from dpone_dagster.campaign.errors import (
    CatalogDrift,
    CatalogRefused,
    ColumnContractRefused,
    Finding,
    GenerationStale,
    HandoffRefused,
    RightsMissing,
    ShadowForeign,
    SourceUnsuitable,
    StateDomainSplit,
    StateNotProvisioned,
    StateVersionOlder,
    TargetNotProvisioned,
)
from dpone_dagster.campaign.ledger import FINISHED, CampaignRecord, Phase
from dpone_dagster.campaign.matching import match_columns
from dpone_dagster.campaign.receipts import PublicationReceipt
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec
from dpone_dagster.campaign.staterows import SLICES
from dpone_dagster.campaign.typetables import type_table
from dpone_dagster.campaign.watermark import prove_handoff_pair
from dpone_dagster.engine.generation import generation_of
from dpone_dagster.engine.keys import prove_keys
from dpone_dagster.engine.neighbours import prove_alone
from dpone_dagster.engine.sessions import (
    by_xmin,
    campaign_active,
    existing_campaign,
    hold_campaign,
    hold_target,
    opened,
    prove_manifest,
    prove_not_cancelled,
    prove_not_rolled_back,
    source_session,
    target_session,
)
from dpone_dagster.engine.standing import prove_standing
from dpone_dagster.engine.twoends import prove_two_ends
from dpone_dagster.ports.fence import EXCLUSIVE_WAIT_SECONDS
from dpone_dagster.ports.source import Source, SourceTable, XminSource
from dpone_dagster.ports.tables import ShadowHandle, TargetTable
from dpone_dagster.ports.target import Connector, Target

Intent = Literal["run", "resume", "join"]
_JOIN_PATIENCE_SECONDS = 60.0
_READABLE_BY_XMIN = frozenset({"table", "partitioned"})


def prepare(spec: CampaignSpec, connector: Connector, *, intent: Intent, run_id: str) -> CampaignRecord:
    """Make the campaign ready to load, or find out that it is, or say why it cannot be.

    Every refusal comes before anything is created. Preparing what is prepared changes nothing.

    Args:
        spec: The campaign.
        connector: Opens the connections.
        intent: `run` starts or continues; `resume` also takes up a cancelled one; `join` is one of several runs of a
            partition backfill, which may work side by side.
        run_id: The run on whose behalf; recorded where a cancelled campaign is taken up again.

    Raises:
        Refused: One of its kinds; nothing was created.
        CampaignActive: `run` or `resume` while another session holds the campaign; any while another campaign of the
            same target is at work.
        GenerationStale: The live table is another generation than when the campaign was prepared.
        CatalogDrift: Source or live table were altered since.
    """
    with (
        target_session(connector, "prepare") as target,
        target_session(connector, "prepare witness") as witness,
        source_session(connector, "prepare") as source,
    ):
        target.fence.prove_session_locks(witness.fence)
        prove_one_domain(spec, connector, target)
        prove_rights(spec, target)  # before any look into the state tables, which may be forbidden
        record = _recorded(spec, target)
        if record is None:
            record, made = _create_or_wait(spec, source, target, intent)
            if made:
                prove_alone(target, spec)  # of two that are made at the same time, the later one sees the other
                return record
        prove_unchanged(spec, source, target, record, intent)
        return _take_up(spec, target, record, intent, run_id)


def prove_one_domain(spec: CampaignSpec, connector: Connector, target: Target) -> None:
    """State and target are one server and database.

    Raises:
        StateDomainSplit: They are not, as the server says.
    """
    if spec.state.connection_ref == spec.sink_ref:
        return
    state = opened(connector.state, "prepare state")
    try:
        if state.domain() != target.domain():
            raise StateDomainSplit(
                f"state.connection_ref `{spec.state.connection_ref}` and the sink's `{spec.sink_ref}` are not the "
                "same server and database"
            )
    finally:
        state.close()


def prove_rights(spec: CampaignSpec, target: Target) -> None:
    """The target's login may do what a campaign does.

    Raises:
        RightsMissing: It may not; each right is named.
    """
    if missing := target.missing_rights(spec.target, "write" if spec.direct else "publish"):
        raise RightsMissing(f"the login of `{spec.sink_ref}` may not do what a campaign does", findings=missing)


def _recorded(spec: CampaignSpec, target: Target) -> CampaignRecord | None:
    if _provisioned(spec, target):
        return target.ledger.campaign(spec.run_key)
    prove_state_may_be_made(spec)
    return None


def prove_state_may_be_made(spec: CampaignSpec) -> None:
    """State tables that are not there are made by the campaign, not by people.

    Raises:
        StateNotProvisioned: By people.
    """
    if spec.state.provisioning == "external":
        raise StateNotProvisioned(f"schema {spec.state.schema} has no state tables")


def _provisioned(spec: CampaignSpec, target: Target) -> bool:
    """Whether the state tables are there; those of an older program are upgraded."""
    try:
        return target.ledger.provisioned()
    except StateVersionOlder:
        if spec.state.provisioning == "external":
            raise
        target.ledger.provision()
        return True


# ---------------------------------------------------------------- a new campaign


@dataclass(frozen=True)
class Proven:
    """What the checks of a new campaign found out."""

    source: SourceTable
    live: TargetTable
    contract: ColumnContract
    head: PublicationReceipt | None


def _create_or_wait(spec: CampaignSpec, source: Source, target: Target, intent: Intent) -> tuple[CampaignRecord, bool]:
    """Create the campaign under its exclusive lock; a joining run waits for whoever is creating it.

    Returns:
        The campaign, and whether it was made here.
    """
    proven = prove_campaign(spec, source, target)
    deadline = time.monotonic() + (_JOIN_PATIENCE_SECONDS if intent == "join" else 0)
    while not target.fence.lock_campaign(spec.run_key, "exclusive", EXCLUSIVE_WAIT_SECONDS):
        record = _recorded(spec, target)
        if record is not None and intent == "join":
            return record, False
        if time.monotonic() >= deadline:
            raise campaign_active(spec, target)
    try:
        if not target.ledger.provisioned():
            target.ledger.provision()
        record = target.ledger.campaign(spec.run_key)
        return (record, False) if record else (_create(spec, source, target, proven), True)
    finally:
        target.fence.unlock_campaign(spec.run_key, "exclusive")


def prove_campaign(spec: CampaignSpec, source: Source, target: Target) -> Proven:
    """All checks of a new campaign; reads no row, creates nothing."""
    prove_alone(target, spec)
    table = source.describe(spec.source, spec.source_columns)
    if spec.handoff_id is not None and table.kind not in _READABLE_BY_XMIN:
        raise SourceUnsuitable(f"{spec.source} is a {table.kind}, which has no xmin to read increments by")
    live = target.tables.describe(spec.target)
    if live is None:
        raise TargetNotProvisioned(f"the target table {spec.target} does not exist")
    prove_two_ends(spec, source, table, target, live.object_id)
    _prove_table(spec, live)
    types = type_table(spec.source_type, spec.sink_type)
    prove_keys(spec, table.columns, live, types)
    contract = match_columns(
        table.columns,
        live.columns,
        options=spec.column_options,
        wanted=spec.source_columns,
        key=spec.unique_key,
        find_home=types.home,
    )
    delete_mark(spec.increment.soft_delete_column, live.columns, contract)
    _prove_digestible(spec, source, target, contract)
    if spec.direct:  # no other name is taken, and the history of publications goes on as it is
        return Proven(table, live, contract, None)
    _prove_names_free(spec, target)
    return Proven(table, live, contract, _prove_head(spec, source, target))


def _prove_table(spec: CampaignSpec, live: TargetTable) -> None:
    if spec.direct and live.unwritable:
        raise CatalogRefused(f"{spec.target} cannot be written to exactly", findings=live.unwritable)
    if not spec.direct and live.findings:
        raise CatalogRefused(f"{spec.target} cannot be swapped without loss", findings=live.findings)


def _prove_digestible(spec: CampaignSpec, source: Source, target: Target, contract: ColumnContract) -> None:
    if not spec.digested:
        return
    here, there = source.types_without_digest(), target.tables.types_without_digest()
    findings = [
        *(_no_digest("source", c.source, c.source_type) for c in contract.columns if type_word(c.source_type) in here),
        *(_no_digest("target", c.target, c.target_type) for c in contract.columns if type_word(c.target_type) in there),
    ]
    if findings:
        raise ColumnContractRefused(
            f"{spec.target} cannot be compared by digests",
            findings=findings,
            next_step="Write `verification: row_count`, or leave the named columns out by `source.columns`.",
        )


def _no_digest(side: str, column: str, kind: str) -> Finding:
    return Finding(
        f"{side}.{column}",
        f"this server does not write a {kind} as the other one does, so it has no digest",
        "leave the column out by `source.columns`, or write `verification: row_count`",
    )


def _prove_names_free(spec: CampaignSpec, target: Target) -> None:
    for table, role in ((spec.shadow, "shadow"), (spec.backup, "backup")):
        owner = target.tables.shadow_owner(table)
        # Our own, where another run of this campaign has been faster.
        if owner is not None and owner != spec.run_key:
            raise ShadowForeign.taken(table, owner, role)


def _prove_head(spec: CampaignSpec, source: Source, target: Target) -> PublicationReceipt | None:
    if not target.ledger.provisioned():
        return None
    head = target.publications.head(spec.target)
    if head is not None and head.head == "pending":
        raise HandoffRefused(
            f"publication {head.receipt_id} of {spec.target} still waits for its handoff {head.handoff_id}",
            next_step="Finish that campaign first: `dpone backfill resume` with its manifest.",
        )
    if spec.handoff_id is not None:
        prove_handoff_owner(spec, by_xmin(source), target)
    return head


def source_name(spec: RouteSpec, source: XminSource) -> str:
    """The source of a handoff: cluster, database and table, so that a copy of the server is another source."""
    identity = source.identity()
    return f"{identity.system_identifier}/{identity.database_oid}/{spec.source}"


def prove_handoff_owner(spec: RouteSpec, source: XminSource, target: Target) -> None:
    """A handoff id names one source and one target for good.

    Raises:
        HandoffRefused: It was used for another pair.
    """
    if spec.handoff_id is None:
        return
    owner = target.publications.handoff_owner(spec.handoff_id)
    if owner is not None:
        prove_handoff_pair(spec.handoff_id, owner, (source_name(spec, source), str(spec.target)))


def _create(spec: CampaignSpec, source: Source, target: Target, proven: Proven) -> CampaignRecord:
    # Before the first chunk is read, and durable with the campaign's row.
    anchor = by_xmin(source).capture_anchor() if spec.handoff_id is not None else None
    contract = proven.contract
    plan = spec.plan
    with target.transaction():
        written = _written(spec, target, proven)
        record = CampaignRecord(
            run_key=spec.run_key,
            dataset=spec.dataset,
            backfill_id=spec.backfill_id,
            target=spec.target,
            shadow=spec.written,
            backup=spec.backup,
            chunk_count=plan.count,
            plan_hash=spec.plan_hash(contract),
            config_hash=spec.config_hash(contract),
            contract=contract.as_dict(),
            contract_hash=contract.sha256,
            source_digest=proven.source.digest,
            shadow_digest=written.digest,
            object_contract=proven.live.contract,
            object_contract_sha256=proven.live.sha256,
            live_object_id=proven.live.object_id,
            live_generation=generation_of(proven.live, proven.head, target.tables),
            predecessor_receipt=proven.head.receipt_id if proven.head else None,
            shadow_object_id=written.object_id,
            digest_key=secrets.token_hex(16),
            anchor=anchor,
            diagnostics={SLICES: spec.slices} if spec.direct else {},
        )
        target.ledger.create(record, plan)
    return record


def _written(spec: CampaignSpec, target: Target, proven: Proven) -> ShadowHandle:
    """The table that chunks are written to: the live one, or a shadow that is made now."""
    if not spec.direct:
        hold_target(target, spec.target)
        if target.publications.head(spec.target) != proven.head:
            advice = "Run it again: the campaign is made against the table that is live now."
            raise GenerationStale(f"{spec.target} was published or rolled back meanwhile", next_step=advice)
        return target.tables.create_shadow(proven.live, spec.shadow, spec.run_key)
    found = target.tables.loadable(spec.target)
    if found is None or found.object_id != proven.live.object_id:
        raise CatalogDrift(f"{spec.target} was replaced since it was described")
    return found


# ---------------------------------------------------------------- a campaign that is there


def prove_unchanged(spec: CampaignSpec, source: Source, target: Target, record: CampaignRecord, intent: Intent) -> None:
    """All checks of a campaign that is there; reads no row, changes nothing."""
    prove_not_rolled_back(record)
    prove_manifest(spec, record)
    if record.phase in FINISHED:
        return
    if intent != "resume":
        prove_not_cancelled(record)
    prove_alone(target, spec)
    prove_standing(spec, record, source, target)


def _take_up(spec: CampaignSpec, target: Target, record: CampaignRecord, intent: Intent, run_id: str) -> CampaignRecord:
    if record.phase in FINISHED:
        # Nothing is claimed any more, so a stage that was in use at the publication is dead by now.
        target.tables.drop_dead_stages(record.shadow, record.run_key)
        return record
    if not _hold_for(spec, target, intent):
        return record  # other runs of the same backfill are at work: join them as they are
    try:
        return _reopen(spec, target, run_id)
    finally:
        target.fence.unlock_campaign(spec.run_key, "exclusive")


def _hold_for(spec: CampaignSpec, target: Target, intent: Intent) -> bool:
    if intent == "join":
        return target.fence.lock_campaign(spec.run_key, "exclusive", 0)
    hold_campaign(spec, target)
    return True


def _reopen(spec: CampaignSpec, target: Target, run_id: str) -> CampaignRecord:
    """Nobody is at work: clear the stop token, and the cancel if it comes to that."""
    record = existing_campaign(spec, target)
    if record.phase is Phase.CANCELLED:
        taken_up = {"by": run_id, "cancelled_by": record.cancel_requested_by, "reason": record.cancel_reason}
        target.ledger.move(
            spec.run_key,
            frozenset({Phase.CANCELLED}),
            Phase.RECOVERABLE,
            cancel_reason=None,
            cancel_requested_by=None,
            diagnostics={**record.diagnostics, "taken_up": taken_up},
        )
    if record.stop_reason is not None:
        target.ledger.set_stop(spec.run_key, None)
    if record.phase is not Phase.PREPARED:  # else nothing is committed yet
        target.ledger.recount(spec.run_key)
    return existing_campaign(spec, target)
