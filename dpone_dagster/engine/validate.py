"""Validate: no lane is alive, nothing loads any more, and the shadow is proven equal to what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import TargetNotProvisioned, ValidationBlocked
from dpone_dagster.campaign.ledger import FINISHED, LOADABLE, CampaignRecord, Phase
from dpone_dagster.campaign.receipts import digest_sum
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.audit import audited
from dpone_dagster.engine.card import CampaignCard, show_card
from dpone_dagster.engine.generation import is_generation
from dpone_dagster.engine.sessions import hold_campaign, prepared_campaign, prove_not_cancelled, target_session
from dpone_dagster.faultpoints import reach
from dpone_dagster.ports.tables import KeyQuality, TargetTable
from dpone_dagster.ports.target import Connector, Target

CHECK_NAMES = ("receipts_complete", "row_count", "unique_key", "catalog", "not_empty", "unique_indexes")
DIGEST_CHECK = "digest"
_RESUME = "dpone backfill resume MANIFEST"
_ANEW = "start a new campaign with a new `backfill_id`"
SEALABLE = LOADABLE | {Phase.BLOCKED, Phase.VALIDATED, Phase.SEALED}


def check_names(spec: CampaignSpec) -> tuple[str, ...]:
    """The checks of a campaign's validation.

    Args:
        spec: The campaign.
    """
    return (*CHECK_NAMES, DIGEST_CHECK) if spec.digested else CHECK_NAMES


@dataclass(frozen=True)
class Check:
    """One thing that was compared.

    Attributes:
        name: One of `check_names`.
        passed: Whether it held.
        numbers: What was compared.
        problem: What is wrong, in one sentence; empty if it held.
        next_step: What to do about it.
    """

    name: str
    passed: bool
    numbers: Mapping[str, object]
    problem: str = ""
    next_step: str = ""


@dataclass(frozen=True)
class ValidationEvidence:
    """All checks of one validation."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check held."""
        return not self.red

    @property
    def red(self) -> tuple[Check, ...]:
        """The checks that did not hold."""
        return tuple(check for check in self.checks if not check.passed)

    @property
    def numbers(self) -> dict[str, object]:
        """Everything that was compared."""
        return {name: number for check in self.checks for name, number in check.numbers.items()}

    def as_dict(self) -> dict[str, object]:
        """As stored with the campaign."""
        return {
            "passed": self.passed,
            "checks": [
                {
                    "name": c.name,
                    "passed": c.passed,
                    "numbers": dict(c.numbers),
                    "problem": c.problem,
                    "next_step": c.next_step,
                }
                for c in self.checks
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> ValidationEvidence:
        """Read back what `as_dict` wrote."""
        return cls(tuple(Check(**check) for check in data["checks"]))  # type: ignore[attr-defined]


def validate(
    spec: CampaignSpec, connector: Connector, run_id: str, show: Callable[[CampaignCard], None] | None = None
) -> ValidationEvidence:
    """Seal the campaign, compare, build the deferred indexes, and record `validated` or `blocked`.

    A failed check does not raise: the evidence says what was found, and a blocked campaign is validated again as soon
    as its cause is gone. Validating a published campaign returns its evidence again.

    Args:
        spec: The campaign.
        connector: Opens the connection.
        run_id: The run on whose behalf, for the audit rows.
        show: Called with the campaign's card when it is done.

    Raises:
        CampaignActive: A lane or another coordinator is at work.
        CampaignMissing: There is no campaign.
        CampaignCancelled: It was told to stop, before or meanwhile.
        ValidationBlocked: It was moved otherwise.
    """
    with target_session(connector, "validate") as target:
        hold_campaign(spec, target)
        evidence = _validate(spec, target, run_id)
        show_card(spec, target, show)
        return evidence


def _validate(spec: CampaignSpec, target: Target, run_id: str) -> ValidationEvidence:
    record = prepared_campaign(spec, target)
    if record.phase in FINISHED and record.validation is not None:
        return ValidationEvidence.from_dict(record.validation)
    prove_not_cancelled(record)
    complete = receipts_complete(target, record)
    if not complete.passed:
        return ValidationEvidence((complete,))  # still loadable: sealing now would keep the rest out
    if not target.ledger.move(spec.run_key, SEALABLE, Phase.SEALED, validation=None):
        _moved_by_somebody(spec, target)
    with audited(spec, target, run_id, "campaign", "validate") as facts:
        reach("after_seal")
        target.tables.drop_dead_stages(record.shadow, record.run_key)
        evidence = _proven_unique(spec, target, record, [complete, *_compare(spec, target, record)])
        _settle(spec, target, record, evidence)
        facts["passed"] = evidence.passed
    return evidence


def _settle(spec: CampaignSpec, target: Target, record: CampaignRecord, evidence: ValidationEvidence) -> None:
    """Move on, or record what blocks."""
    sealed = frozenset({Phase.SEALED})
    if not evidence.passed:
        if not target.ledger.move(spec.run_key, sealed, Phase.BLOCKED, validation=evidence.as_dict()):
            _moved_by_somebody(spec, target)
        return
    horizon = target.tables.seal(record.shadow)
    reach("before_validated")
    if not target.ledger.move(
        spec.run_key, sealed, Phase.VALIDATED, validation=evidence.as_dict(), seal_horizon=horizon
    ):
        _moved_by_somebody(spec, target)
    reach("after_validated")
    target.tables.settle_horizon(record.shadow, horizon)  # publication looks again; most of the work is done here


def _moved_by_somebody(spec: CampaignSpec, target: Target) -> NoReturn:
    """A cancel takes no lock, so it may come between any two steps."""
    record = prepared_campaign(spec, target)
    prove_not_cancelled(record)
    raise ValidationBlocked(f"the campaign is {record.phase}")


def _live(spec: CampaignSpec, target: Target) -> TargetTable:
    live = target.tables.describe(spec.target)
    if live is None:
        raise TargetNotProvisioned(f"the target table {spec.target} is gone")
    return live


def receipts_complete(target: Target, record: CampaignRecord) -> Check:
    """Every chunk of the plan is committed and has a receipt of this plan."""
    chunks, committed = target.ledger.count_chunks(record.run_key)
    totals = target.ledger.receipt_totals(record)
    numbers = {
        "chunks": record.chunk_count,
        "committed": committed,
        "receipts": totals.receipts,
        "foreign_receipts": totals.foreign,
    }
    planned = record.chunk_count
    if chunks == planned and committed == planned == totals.receipts and totals.foreign == 0:
        return Check("receipts_complete", True, numbers)
    missing = planned - committed
    problem = f"{missing} of {planned} chunks are not committed" if missing else "receipts and chunks do not agree"
    return Check("receipts_complete", False, numbers, problem, _RESUME)


def _compare(spec: CampaignSpec, target: Target, record: CampaignRecord) -> Iterator[Check]:
    expected = target.ledger.receipt_totals(record).rows
    actual = target.tables.count(record.shadow)
    yield Check(
        "row_count",
        actual == expected,
        {"expected_rows": expected, "actual_rows": actual},
        "" if actual == expected else f"the shadow has {actual} rows, its receipts say {expected}",
        f"look for who wrote to the shadow; then {_ANEW}",
    )
    if spec.digested:
        yield _digest(target, record)
    live = _live(spec, target)
    yield _catalog(spec, target, record, live)
    yield _not_empty(spec, live, actual)


def _proven_unique(
    spec: CampaignSpec, target: Target, record: CampaignRecord, compared: list[Check]
) -> ValidationEvidence:
    """Indexes first, where nothing is wrong so far: a unique one on the key spares a sort of all keys."""
    indexes = []
    proven = False
    if all(check.passed for check in compared):
        live = _live(spec, target)
        indexes = [_unique_indexes(spec, target, record, live)]
        reach("after_indexes")
        # The shadow has what the live table has, once nothing is violated.
        proven = indexes[0].passed and _keeps_key_unique(live, spec.unique_key)
    quality = KeyQuality(0, 0) if proven else target.tables.key_quality(record.shadow, spec.unique_key)
    return ValidationEvidence((*compared, _key_check(quality), *indexes))


def _keeps_key_unique(table: TargetTable, key: tuple[str, ...]) -> bool:
    """Whether its columns and a unique index allow neither NULLs nor duplicates of the key."""
    nullable = any(column.nullable for column in table.columns if column.name in key)
    return not nullable and table.keeps_apart(key)


def _digest(target: Target, record: CampaignRecord) -> Check:
    """The shadow's rows are those of the chunks' snapshots, which the source itself may have left behind long ago."""
    totals = target.ledger.digest_totals(record.run_key, 0)
    contract = ColumnContract.from_dict(record.contract)
    actual = digest_sum(target.tables.content_digest(record.shadow, contract))
    numbers = {
        "digested_chunks": totals.receipts,
        "source_digest": str(totals.source),
        "target_digest": actual,
    }
    if totals.receipts != record.chunk_count:
        problem = f"{totals.receipts} of {record.chunk_count} receipts have a digest"
    elif str(totals.source) != actual:
        problem = "the shadow's rows are not those that were read: their digests differ"
    else:
        return Check(DIGEST_CHECK, True, numbers)
    return Check(DIGEST_CHECK, False, numbers, problem, f"look for who wrote to the shadow; then {_ANEW}")


def _key_check(quality: KeyQuality) -> Check:
    wrong = quality.null_keys + quality.duplicate_keys
    return Check(
        "unique_key",
        wrong == 0,
        {"null_keys": quality.null_keys, "duplicate_keys": quality.duplicate_keys},
        "" if wrong == 0 else f"{quality.null_keys} NULL and {quality.duplicate_keys} duplicate keys in the shadow",
        f"mend the source's keys, or the collation of the target's key; then {_ANEW}",
    )


def _catalog(spec: CampaignSpec, target: Target, record: CampaignRecord, live: TargetTable) -> Check:
    numbers: dict[str, object] = {"expected": record.object_contract_sha256, "live": live.sha256}
    problem, advice = "", f"undo the change, then {_RESUME}; or {_ANEW}"
    if not is_generation(live, record.live_object_id, record.live_generation, target.tables):
        problem = f"{spec.target} was replaced since the campaign was prepared"
        advice = _ANEW  # against the table that is live now
    elif live.sha256 != record.object_contract_sha256:
        problem = f"{spec.target} was altered since the campaign was prepared"
    return Check("catalog", not problem, numbers, problem, advice)


def _not_empty(spec: CampaignSpec, live: TargetTable, rows: int) -> Check:
    passed = rows > 0 or not live.rows_exist or spec.allow_empty
    return Check(
        "not_empty",
        passed,
        {"rows": rows, "live_has_rows": live.rows_exist, "allow_empty": spec.allow_empty},
        "" if passed else f"the source was empty and {spec.target} is not",
        f"look why the source was empty; then {_ANEW}, with `allow_empty: true` if it is meant to be empty",
    )


def _unique_indexes(spec: CampaignSpec, target: Target, record: CampaignRecord, live: TargetTable) -> Check:
    """Build what was deferred; a unique index keeps duplicates out for good, or finds them."""
    violated = target.tables.build_indexes(record.shadow, live)
    named = "; ".join(f"{v.index} ({v.surplus_rows} rows too many)" for v in violated)
    return Check(
        "unique_indexes",
        not violated,
        {"violated_indexes": len(violated), "surplus_rows": sum(v.surplus_rows for v in violated)},
        f"the rows loaded violate unique indexes of {spec.target}: {named}" if violated else "",
        f"mend the source's rows and {_ANEW}; or mend the shadow's rows, then {_RESUME}",
    )
