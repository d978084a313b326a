"""Connections of a use case: opened for it, closed with it, whatever happens."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import (
    CampaignActive,
    CampaignCancelled,
    CampaignMissing,
    CampaignRolledBack,
    PlanDrift,
    PublicationBlocked,
    ServerUnreachable,
    SourceUnsuitable,
)
from dpone_dagster.campaign.ledger import CampaignRecord, Phase
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.stopping import cut_when_told
from dpone_dagster.ports.fence import EXCLUSIVE_WAIT_SECONDS
from dpone_dagster.ports.source import Source, XminSource
from dpone_dagster.ports.target import Connector, Target

_CONNECT_WAITS = (0.5, 1.5)
# A server that lets every try run into its time-out is not worth three of them.
_CONNECT_PATIENCE_SECONDS = 5.0
_Opened = TypeVar("_Opened")


def opened(connect: Callable[[str], _Opened], purpose: str) -> _Opened:
    """Connect; up to three tries within seconds where the server does not answer or takes no connection now.

    Args:
        connect: One of a connector's methods.
        purpose: Goes into the application name.

    Raises:
        ServerUnreachable: It stayed so.
        LoginRefused: At once.
    """
    started = time.monotonic()
    for wait in _CONNECT_WAITS:
        try:
            return connect(purpose)
        except ServerUnreachable:
            if time.monotonic() - started > _CONNECT_PATIENCE_SECONDS:
                raise
            time.sleep(wait)
    return connect(purpose)


@contextlib.contextmanager
def target_session(connector: Connector, purpose: str) -> Iterator[Target]:
    """One target connection for the length of a block; cut if this process is told to stop.

    Raises:
        Interrupted: It was.
    """
    with contextlib.closing(opened(connector.target, purpose)) as target, cut_when_told(target):
        yield target


@contextlib.contextmanager
def source_session(connector: Connector, purpose: str) -> Iterator[Source]:
    """As `target_session`, one source connection."""
    with contextlib.closing(opened(connector.source, purpose)) as source, cut_when_told(source):
        yield source


@contextlib.contextmanager
def xmin_session(connector: Connector, purpose: str) -> Iterator[XminSource]:
    """As `source_session`, to a source whose rows tell when they were written.

    Raises:
        SourceUnsuitable: It has no xmin.
    """
    with source_session(connector, purpose) as source:
        yield by_xmin(source)


def by_xmin(source: Source) -> XminSource:
    """The source as one whose rows tell when they were written.

    Raises:
        SourceUnsuitable: It has no xmin.
    """
    if not isinstance(source, XminSource):
        raise SourceUnsuitable(
            "the source's server has no xmin, so there is no handoff and no increment from it",
            next_step="Load it by `publication: {mode: direct}`.",
        )
    return source


def hold_campaign(spec: CampaignSpec, target: Target) -> None:
    """Take the campaign's lock exclusively: from here on no lane is alive anywhere. Closing the session frees it.

    Raises:
        CampaignActive: Another session holds it; the message names it.
    """
    if not target.fence.lock_campaign(spec.run_key, "exclusive", EXCLUSIVE_WAIT_SECONDS):
        raise campaign_active(spec, target)


def campaign_active(spec: CampaignSpec, target: Target) -> CampaignActive:
    """What whoever did not get the campaign's lock is told: who holds it.

    Args:
        spec: The campaign.
        target: The connection that did not get it.
    """
    holders = target.fence.holders(spec.run_key)
    named = "; ".join(str(holder) for holder in holders) or "a session that has just let go"
    return CampaignActive(f"campaign {spec.dataset} is held by {named}")


def hold_target(target: Target, table: TableRef) -> None:
    """Take the target's lock for the rest of the transaction.

    Raises:
        CampaignActive: An increment, a publication or a rollback holds it; the message names it.
    """
    try:
        target.fence.lock_target(table, EXCLUSIVE_WAIT_SECONDS)
    except PublicationBlocked as error:
        raise CampaignActive(error.message) from None


def existing_campaign(spec: CampaignSpec, target: Target) -> CampaignRecord:
    """The campaign's row.

    Raises:
        CampaignMissing: There is none yet.
    """
    record = target.ledger.campaign(spec.run_key) if target.ledger.provisioned() else None
    if record is None:
        raise CampaignMissing(f"there is no campaign for {spec.dataset} ({spec.run_key[:12]}) yet")
    return record


def prepared_campaign(spec: CampaignSpec, target: Target) -> CampaignRecord:
    """The campaign's row, if the manifest is still the one that it was prepared with.

    Raises:
        CampaignMissing: There is none yet.
        CampaignRolledBack: It was rolled back.
        PlanDrift: The manifest was edited since.
    """
    record = existing_campaign(spec, target)
    prove_not_rolled_back(record)
    prove_manifest(spec, record)
    return record


def prove_not_rolled_back(record: CampaignRecord) -> None:
    """The campaign may still come to something.

    Raises:
        CampaignRolledBack: It was rolled back.
    """
    if record.phase is Phase.ROLLED_BACK:
        raise CampaignRolledBack(f"campaign {record.dataset} ({record.backfill_id}) was {record.stop_reason}")


def prove_not_cancelled(record: CampaignRecord) -> None:
    """Nobody has told the campaign to stop.

    Raises:
        CampaignCancelled: Somebody has; the message names who, and why.
    """
    if record.phase is Phase.CANCELLED:
        raise CampaignCancelled(
            f"campaign {record.dataset} was cancelled by {record.cancel_requested_by}: {record.cancel_reason}"
        )


def prove_manifest(spec: CampaignSpec, record: CampaignRecord) -> None:
    """The manifest is the one that the campaign was prepared with.

    Raises:
        PlanDrift: It was edited since.
    """
    contract = ColumnContract.from_dict(record.contract)
    if (record.plan_hash, record.config_hash) != (spec.plan_hash(contract), spec.config_hash(contract)):
        raise PlanDrift(
            f"campaign {spec.dataset} ({spec.backfill_id or spec.run_key[:12]}) was prepared differently"
            + ("" if spec.plan.count == record.chunk_count else _other_count(spec, record))
        )


def _other_count(spec: CampaignSpec, record: CampaignRecord) -> str:
    return f": in {record.chunk_count:,} chunks, and this plan has {spec.plan.count:,}"
