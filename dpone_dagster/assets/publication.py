"""`validated_shadow`, `published_target`, `xmin_handoff`: each proves its precondition in the database by itself."""

from dagster import AssetCheckResult, AssetExecutionContext, AssetsDefinition, MaterializeResult

from dpone_dagster.assets.campaign_asset import Events, campaign_asset, refused_check
from dpone_dagster.assets.card import observe_card
from dpone_dagster.assets.failures import failure_of, shown_to_dagster
from dpone_dagster.assets.names import asset_key, plain_metadata
from dpone_dagster.assets.watchdog import end_with_run
from dpone_dagster.campaign.errors import (
    CampaignActive,
    DponeError,
    Finding,
    HandoffMissing,
    PublicationBlocked,
    ValidationBlocked,
)
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.card import CampaignCard
from dpone_dagster.engine.handoff import commit_handoff
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.validate import DIGEST_CHECK, Check, ValidationEvidence, check_names, validate
from dpone_dagster.resources.connections import DponeConnections

_CHECKS = {
    "receipts_complete": "Every chunk of the plan is committed and has a receipt of this plan.",
    "row_count": "The shadow's exact row count is the sum of the receipts.",
    DIGEST_CHECK: "The digest of the shadow's rows is the sum of those that the source had in the chunks' snapshots.",
    "unique_key": "No NULL and no duplicate in the unique key, as the target compares it.",
    "catalog": "The live table is the one that the shadow was made from.",
    "unique_indexes": "The shadow has every index of the live table; no unique one finds duplicates.",
    "not_empty": "An empty source does not replace a table that has rows.",
}
_RECEIPT_CHECK = "publication_receipt"
_HANDOFF_CHECK = "handoff_bound"


def build_validated_shadow(spec: CampaignSpec) -> AssetsDefinition:
    """The shadow, sealed and proven equal to what was read.

    Args:
        spec: The campaign.
    """

    @campaign_asset(
        spec,
        "validated_shadow",
        after=asset_key(spec, "shadow"),
        checks={name: _CHECKS[name] for name in check_names(spec)},
        description=f"`{spec.shadow}`, sealed and proven equal to what was read.",
    )
    def validated_shadow(context: AssetExecutionContext, dpone_connections: DponeConnections) -> Events:
        # A backfill starts this with the last chunk's event, while its lanes may still be closing their sessions.
        cards: list[CampaignCard] = []
        with shown_to_dagster(CampaignActive):
            evidence = validate(spec, dpone_connections.connector(spec), context.run.run_id, cards.append)
        observe_card(context, spec, cards)
        for check in evidence.checks:
            yield _result(check)
        if not evidence.passed:
            raise failure_of(_blocked(spec, evidence))
        yield MaterializeResult(metadata=plain_metadata(evidence.numbers))

    return validated_shadow


def _result(check: Check) -> AssetCheckResult:
    steps = {} if check.passed else {"next_step": check.next_step}
    description = None if check.passed else f"{check.problem} → {check.next_step}"
    return AssetCheckResult(
        passed=check.passed,
        check_name=check.name,
        description=description,
        metadata=plain_metadata({**check.numbers, **steps}),
    )


def _blocked(spec: CampaignSpec, evidence: ValidationEvidence) -> ValidationBlocked:
    return ValidationBlocked(
        f"the shadow of {spec.dataset} is not proven; the live table is untouched",
        findings=[Finding(check.name, check.problem, check.next_step) for check in evidence.red],
        next_step=evidence.red[0].next_step,
    )


def build_published_target(spec: CampaignSpec) -> AssetsDefinition:
    """The live table after the swap.

    Args:
        spec: The campaign.
    """

    @campaign_asset(
        spec,
        "published_target",
        after=asset_key(spec, "validated_shadow"),
        checks={_RECEIPT_CHECK: "The swap's receipt was written in the transaction that swapped the tables."},
        description=f"`{spec.target}`, swapped in by one transaction; the table before stays as `{spec.backup}`.",
    )
    def published_target(context: AssetExecutionContext, dpone_connections: DponeConnections) -> Events:
        end_with_run()
        cards: list[CampaignCard] = []
        try:
            receipt = publish(spec, dpone_connections.connector(spec), context.run.run_id, cards.append)
        except DponeError as error:
            yield from refused_check(_RECEIPT_CHECK, error)
            raise failure_of(error, retry=error.retryable) from None
        observe_card(context, spec, cards)
        facts = plain_metadata(
            {
                "receipt_id": receipt.receipt_id,
                "expected_rows": receipt.expected_rows,
                "actual_rows": receipt.actual_rows,
                "sequence": receipt.sequence,
                "generation": receipt.generation,
                "backup": receipt.backup,
                "published_at": receipt.published_at,
            }
        )
        yield AssetCheckResult(passed=True, check_name=_RECEIPT_CHECK, metadata=facts)
        yield MaterializeResult(metadata={**facts, "dagster/row_count": receipt.actual_rows})

    return published_target


def build_xmin_handoff(spec: CampaignSpec) -> AssetsDefinition:
    """The anchor from before the first chunk, bound to the publication.

    Args:
        spec: The campaign; its `handoff_id` is set.
    """

    @campaign_asset(
        spec,
        "xmin_handoff",
        after=asset_key(spec, "published_target"),
        checks={_HANDOFF_CHECK: "The anchor from before the first chunk is bound to the publication that is live."},
        description=f"Handoff `{spec.handoff_id}`: where the increments of `{spec.target}` start.",
    )
    def xmin_handoff(context: AssetExecutionContext, dpone_connections: DponeConnections) -> Events:
        end_with_run()
        try:
            checkpoint = commit_handoff(spec, dpone_connections.connector(spec), context.run.run_id)
            if checkpoint is None:
                raise HandoffMissing(f"the checkpoint of {spec.target} is not there")
        except DponeError as error:
            yield from refused_check(_HANDOFF_CHECK, error)
            # Another session's short hold of the target's lock is no reason to stop the campaign here.
            retry = error.retryable or isinstance(error, PublicationBlocked)
            raise failure_of(error, retry=retry) from None
        facts = plain_metadata(
            {
                "handoff_id": checkpoint.handoff_id,
                "publication_receipt": checkpoint.publication_receipt,
                "generation": checkpoint.generation,
                "anchor_xid": str(checkpoint.anchor.xid),
                "anchor_taken_at": checkpoint.anchor.taken_at,
            }
        )
        yield AssetCheckResult(passed=True, check_name=_HANDOFF_CHECK, metadata=facts)
        yield MaterializeResult(metadata=facts)

    return xmin_handoff
