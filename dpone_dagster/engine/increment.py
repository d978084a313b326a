"""Increment: what changed in the source since the checkpoint, applied in one transaction with the new checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.deletion import DeleteMark, delete_mark
from dpone_dagster.campaign.errors import (
    CampaignActive,
    DponeError,
    GenerationStale,
    HandoffMissing,
    PlanDrift,
    UniqueConflict,
)
from dpone_dagster.campaign.identity import sha256_of
from dpone_dagster.campaign.ledger import CampaignRecord, Phase
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec
from dpone_dagster.campaign.watermark import Anchor, Checkpoint, anchor_facts
from dpone_dagster.engine.advice import advice_for_increments
from dpone_dagster.engine.apply import Applied, Compare, Steps, apply
from dpone_dagster.engine.audit import audited
from dpone_dagster.engine.generation import is_generation
from dpone_dagster.engine.neighbours import prove_no_campaign
from dpone_dagster.engine.outcome import Step, settled
from dpone_dagster.engine.prepare import prove_handoff_owner
from dpone_dagster.engine.reconcile import Sides
from dpone_dagster.engine.sessions import hold_target, target_session, xmin_session
from dpone_dagster.faultpoints import reach
from dpone_dagster.ports.changes import ChangeTarget
from dpone_dagster.ports.source import ChangeRead, XminSource
from dpone_dagster.ports.target import Connector, Target


@dataclass(frozen=True)
class IncrementResult:
    """What one increment did.

    Attributes:
        rows_read: Changed rows read from the source.
        inserted: Rows new in the target.
        updated: Rows replaced in the target.
        deleted: Rows whose key had vanished from the source; marked ones with `delete_mode: soft`.
        compared: What was compared: `keys`, `rows`, or None for nothing but the rows that changed.
        differing: Buckets of keys that the comparison found different, of 1,024; only these were read key by key.
        nulled: Values that `on_bad_value: null` set to NULL in the rows that were read, a column.
        anchor_from: Where it started.
        anchor_to: Where the next one starts.
        seconds: Duration.
    """

    rows_read: int
    inserted: int
    updated: int
    deleted: int
    compared: str | None
    differing: int
    nulled: Mapping[str, int]
    anchor_from: Anchor
    anchor_to: Anchor
    seconds: float

    @property
    def reconciled(self) -> bool:
        """Whether deletes were settled."""
        return self.compared is not None

    @property
    def lag_transactions(self) -> int:
        """Transactions of the source since the increment before, committed or not: what this one caught up."""
        return self.anchor_to.transactions_since(self.anchor_from)

    @property
    def lag_seconds(self) -> float:
        """Seconds since the increment before, by the source's clock."""
        return self.anchor_to.seconds_since(self.anchor_from)


_ANEW = "Start a new campaign with a new `backfill_id`; its handoff is where increments start then."
_UNDO = "Undo the change; or start a new campaign with a new `backfill_id`."
_NAME_IT = "Name the live generation's handoff as `handoff_id`, if this manifest is of its source and target."
_SWAP_FIRST = "Increments start from a campaign with `publication.mode: shadow_swap` and `xmin_execution`."
_ASK_FOR_ONE = "Set `source.options.xmin_execution`, and start a new campaign with a new `backfill_id`."


@dataclass(frozen=True)
class _Gate:
    """What an increment starts from; `reason` says why it may not, `advice` what to do, where that is not to resume."""

    reason: str
    record: CampaignRecord | None = None
    checkpoint: Checkpoint | None = None
    advice: str | None = None


def increment_gate(spec: RouteSpec, connector: Connector) -> str | None:
    """Why no increment may run now, or None if one may. Changes nothing.

    Args:
        spec: The campaign.
        connector: Opens the connection.
    """
    try:
        prove_gate(spec, connector)
    except (HandoffMissing, CampaignActive) as error:
        return error.message
    return None


def prove_gate(spec: RouteSpec, connector: Connector) -> None:
    """An increment may run now. Changes nothing.

    Args:
        spec: The campaign.
        connector: Opens the connection.

    Raises:
        HandoffMissing: No handoff is committed for the live generation.
        CampaignActive: A campaign of the same target is at work.
    """
    with target_session(connector, "increment gate") as target:
        _open_gate(spec, target)


def live_checkpoint(spec: RouteSpec, target: Target) -> tuple[CampaignRecord, Checkpoint]:
    """The checkpoint of the live generation, and the campaign that published it. Changes nothing.

    Raises:
        HandoffMissing: There is none that increments may start from.
    """
    gate = _gate(spec, target)
    if gate.record is None or gate.checkpoint is None:
        raise HandoffMissing(gate.reason, next_step=gate.advice)
    return gate.record, gate.checkpoint


def _open_gate(spec: RouteSpec, target: Target) -> tuple[CampaignRecord, Checkpoint]:
    found = live_checkpoint(spec, target)
    prove_no_campaign(target, spec.target)
    return found


def run_increment(
    spec: RouteSpec, connector: Connector, run_id: str, *, compare: Compare = "policy"
) -> IncrementResult:
    """Read what changed since the checkpoint and apply it: stage, delete, update, insert, checkpoint, one transaction.

    Args:
        spec: The campaign.
        connector: Opens the connections.
        run_id: The run on whose behalf, for the audit rows.
        compare: `keys` reconciles whatever the manifest's policy is; `rows` compares every row, which also settles a
            new timeline of the source.

    Raises:
        HandoffMissing: No handoff is committed for the live generation.
        HandoffRefused: The handoff is of another source or target.
        PlanDrift: The campaign has another key.
        CampaignActive: A campaign of the same target is at work, or another increment is.
        IncrementRefused: The watermark is too old or ahead of the source, or too many rows would be deleted.
        CatalogDrift: The source changed since the campaign was prepared.
        SourceChanged: The source is another server or timeline.
        UniqueConflict: Another unique index of the target holds what the source does not.
    """
    started = time.monotonic()
    with (
        advice_for_increments(),
        target_session(connector, "increment") as target,
        xmin_session(connector, "increment") as source,
    ):
        record, checkpoint = _open_gate(spec, target)
        contract = ColumnContract.from_dict(record.contract)
        _prove_route(spec, source, target, contract)
        into = ChangeTarget(spec.target, contract, _mark(spec, target, contract))
        read = ChangeRead(
            table=spec.source,
            contract=contract,
            source_digest=record.source_digest,
            since=checkpoint.anchor,
            digest_key=record.digest_key,
            wire=target.wire,
            label=f"{record.run_key[:12]} increment",
            in_full=compare == "rows",
        )
        step = Step(run_id, "increment", "increment")
        sent: list[tuple[Applied, Anchor]] = []

        def commit() -> None:
            audit = audited(spec, target, step.run_id, step.kind, step.name)
            with audit as facts, source.read_changes(read) as snapshot:
                sides = Sides(spec, target, into, snapshot)
                steps = Steps.of(compare, spec.increment, checkpoint)
                applied = _apply(sides, steps, checkpoint, lambda applied: sent.append((applied, snapshot.anchor)))
                facts.update(applied.as_dict(), **anchor_facts(checkpoint.generation, snapshot.anchor))

        def look(again: Target) -> object:
            return _advanced(spec, again, checkpoint, sent[-1][1]) if sent else None

        settled(spec, connector, step, commit, look)
        return _result(*sent[-1], checkpoint, time.monotonic() - started)


def _result(applied: Applied, anchor: Anchor, checkpoint: Checkpoint, seconds: float) -> IncrementResult:
    return IncrementResult(
        rows_read=applied.rows_read,
        inserted=applied.counts.inserted,
        updated=applied.counts.updated,
        deleted=applied.counts.deleted,
        compared=applied.steps.comparison,
        differing=applied.differing,
        nulled=applied.nulled,
        anchor_from=checkpoint.anchor,
        anchor_to=anchor,
        seconds=seconds,
    )


def _advanced(spec: RouteSpec, target: Target, checkpoint: Checkpoint, to: Anchor) -> Checkpoint | None:
    """The checkpoint, if this very increment has moved it."""
    now = target.publications.checkpoint(spec.target, checkpoint.generation)
    moved = now is not None and (now.revision, now.anchor) == (checkpoint.revision + 1, to)
    return now if moved else None


def _prove_route(spec: RouteSpec, source: XminSource, target: Target, contract: ColumnContract) -> None:
    """The manifest is of the handoff's own source, target and key.

    Raises:
        HandoffRefused: The handoff is of another source or target.
        PlanDrift: The campaign has another key.
    """
    prove_handoff_owner(spec, source, target)
    if spec.unique_key != contract.key:
        raise PlanDrift(
            f"unique_key is [{', '.join(spec.unique_key)}], the campaign's [{', '.join(contract.key)}]",
            next_step="Write the campaign's `unique_key`, or start a new campaign.",
        )


def _mark(spec: RouteSpec, target: Target, contract: ColumnContract) -> DeleteMark | None:
    if spec.increment.soft_delete_column is None:
        return None
    live = target.tables.describe(spec.target)
    return delete_mark(spec.increment.soft_delete_column, live.columns if live else (), contract)


def _apply(sides: Sides, steps: Steps, checkpoint: Checkpoint, sent: Callable[[Applied], None]) -> Applied:
    """Try once more where another unique index is in the way: with keys reconciled and changed rows inserted anew."""
    try:
        return _apply_once(sides, steps, checkpoint, sent)
    except UniqueConflict:
        sides.nulled.clear()
        return _apply_once(sides, steps.after_conflict(), checkpoint, sent)


def _apply_once(sides: Sides, steps: Steps, checkpoint: Checkpoint, sent: Callable[[Applied], None]) -> Applied:
    spec, target = sides.spec, sides.target
    with target.transaction():
        hold_target(target, spec.target)
        again = _gate(spec, target)
        if again.checkpoint != checkpoint:
            raise GenerationStale(
                again.reason or "another increment or publication came first", next_step="Run the increment again."
            )
        applied = apply(sides, steps)
        reconciled = steps.comparison is not None or checkpoint.reconciled
        if not target.publications.advance_checkpoint(checkpoint, sides.snapshot.anchor, reconciled=reconciled):
            raise DponeError("the checkpoint was moved by somebody else under the target's lock")
        sent(applied)  # COMMIT is next, and its answer may be lost
        reach("before_increment_commit")
    reach("after_increment_commit")
    return applied


def _gate(spec: RouteSpec, target: Target) -> _Gate:
    if spec.handoff_id is None:
        return _no_handoff(spec)
    if not target.ledger.provisioned():
        return _Gate("no campaign was started yet", advice=_start(spec))
    head = target.publications.head(spec.target)
    if head is None:
        unfinished = any(each.phase != Phase.CANCELLED for each in target.ledger.neighbours(spec.target))
        advice = None if unfinished else _start(spec)
        return _Gate(f"{spec.target} was not published by a campaign yet", advice=advice)
    if head.head == "pending":
        return _Gate(f"publication {head.receipt_id} waits for its handoff")
    live = target.tables.describe(spec.target)
    if live is None or not is_generation(live, head.live_object_id, head.generation, target.tables):
        return _Gate(f"{spec.target} was replaced by hand since publication {head.receipt_id}", advice=_ANEW)
    checkpoint = target.publications.checkpoint(spec.target, head.generation)
    record = None if checkpoint is None else _campaign_of(checkpoint, target)
    if checkpoint is None and head.kind == "rollback":
        return _Gate(f"{spec.target} was rolled back to a generation that has no checkpoint", advice=_ANEW)
    if checkpoint is None or record is None:
        return _Gate(f"generation {head.generation} of {spec.target} has no checkpoint", advice=_ANEW)
    # The contract's casts and guards are those of prepare: another type would round in silence.
    if sha256_of(live.contract.get("columns")) != sha256_of(record.object_contract.get("columns")):
        return _Gate(f"the columns of {spec.target} were altered since the campaign was prepared", advice=_UNDO)
    if checkpoint.handoff_id != spec.handoff_id:
        return _Gate(f"the live generation belongs to handoff `{checkpoint.handoff_id}`", advice=_NAME_IT)
    return _Gate("", record, checkpoint)


def _no_handoff(spec: RouteSpec) -> _Gate:
    if isinstance(spec, CampaignSpec) and spec.direct:
        return _Gate("a direct campaign hands nothing over to increments", advice=_SWAP_FIRST)
    return _Gate("the manifest asks for no xmin handoff", advice=_ASK_FOR_ONE)


def _start(spec: RouteSpec) -> str:
    manifest = "MANIFEST" if isinstance(spec, CampaignSpec) else "CAMPAIGN_MANIFEST"
    return f"Start the campaign: `dpone backfill run {manifest} --execute`."


def _campaign_of(checkpoint: Checkpoint, target: Target) -> CampaignRecord | None:
    """The campaign that published the generation; after a rollback that is not the head's."""
    receipt = target.publications.receipt(checkpoint.publication_receipt)
    return None if receipt is None else target.ledger.campaign(receipt.run_key)
