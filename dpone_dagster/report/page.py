"""Renders a report into its page. Jinja escapes whatever comes from a catalog, a manifest or a server."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.ledger import CampaignRecord, Phase
from dpone_dagster.engine.report import CampaignReport
from dpone_dagster.engine.validate import CHECK_NAMES, Check
from dpone_dagster.report import charts, words
from dpone_dagster.report.verdict import verdict_of

Fact = tuple[str, object]
_MORE_THAN_ENOUGH = 200


@dataclass(frozen=True)
class Advice:
    """What the reader can type next.

    Attributes:
        manifest: The manifest's file.
        version: Of the program.
        say: Puts the manifest's name into a command.
        of_code: The next step of an error code.
    """

    manifest: str
    version: str
    say: Callable[[str], str]
    of_code: Callable[[str], str]


def render(report: CampaignReport, advice: Advice) -> str:
    """The page as text.

    Args:
        report: What was read.
        advice: What the reader can type next.
    """
    status, chunks, timeline = report.status, report.chunks, report.timeline
    return (
        _environment()
        .get_template("page.html")
        .render(
            report=report,
            status=status,
            spec=status.spec,
            advice=advice,
            verdict=verdict_of(status),
            finished=status.recommended_action.startswith("nothing"),
            identity=list(_identity(report, advice)),
            numbers=list(_numbers(report)),
            checks=_checks(report),
            publication=list(_publication(report)),
            receipts=list(_receipts(report)),
            undo=list(_undo(report)),
            handoff=list(_handoff(report)),
            hashes=list(_hashes(status.record)),
            columns=_columns(status.record),
            throughput=charts.throughput(timeline) if timeline and timeline.committed else None,
            lanes=charts.lanes(timeline) if timeline else None,
            grid=charts.grid(chunks.groups, chunks.seconds) if chunks else None,
            spread=charts.spread(chunks.rows) if chunks and chunks.rows.count and chunks.rows.total else None,
            sums=status.progress,
        )
    )


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        number=words.number,
        rounded=words.rounded,
        short=words.short,
        size=words.size,
        duration=words.duration,
        moment=words.moment,
        clock=words.clock,
    )
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    made.globals.update(style=Markup(style), tick=_tick)  # noqa: S704  # our own file
    return made


def _tick(value: float) -> str:
    """A place in a drawing: to a tenth of a unit, which is a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def _identity(report: CampaignReport, advice: Advice) -> Iterator[Fact]:
    spec, record = report.status.spec, report.status.record
    yield "Source", f"{spec.source} ({spec.source_type}, connection {spec.source_ref})"
    yield "Target", f"{spec.target} ({spec.sink_type}, connection {spec.sink_ref})"
    yield "Campaign", spec.backfill_id or "not pinned"
    yield "Run key", spec.run_key
    yield "Plan", f"{spec.plan.count:,} {spec.chunk.kind} chunks of {spec.chunk.column}"
    yield "Publication", f"direct, {spec.inner_mode}" if spec.direct else "shadow, swapped in by one transaction"
    yield "Unique key", ", ".join(spec.unique_key) or "none"
    yield "Lanes", spec.lanes
    yield "Phase", str(report.status.phase).replace("_", " ")
    yield "Prepared", record.created_at if record else None
    yield "Manifest", advice.manifest


def _numbers(report: CampaignReport) -> Iterator[tuple[str, str]]:
    """The four numbers that stand at the top, and what they are."""
    progress, chunks = report.status.progress, report.chunks
    yield words.number(progress.rows_loaded), "rows loaded, each proven by a receipt"
    yield f"{progress.committed:,} of {progress.total:,}", "chunks committed"
    yield words.duration(progress.wall_seconds), "from the first claim to the last commit"
    moved = f"; {words.size(chunks.receipts.bytes)} in all" if chunks and chunks.receipts.bytes else ""
    yield f"{progress.rows_per_second:,.0f} rows/s", f"on average{moved}"


def _checks(report: CampaignReport) -> list[tuple[Check, list[Fact]]]:
    evidence = report.evidence
    order = {name: place for place, name in enumerate(CHECK_NAMES)}
    found = sorted(evidence.checks, key=lambda check: order.get(check.name, len(order))) if evidence else []
    return [(check, [(name.replace("_", " "), value) for name, value in check.numbers.items()]) for check in found]


def _receipts(report: CampaignReport) -> Iterator[Fact]:
    if report.chunks is None:
        return
    sums = report.chunks.receipts
    yield "Receipts", f"{sums.receipts:,} for {report.status.progress.total:,} chunks"
    yield "Rows proven", sums.rows
    yield "Bytes moved", words.size(sums.bytes)
    yield "Of another plan or contract", report.chunks.foreign_receipts
    yield "First and last", f"{words.moment(sums.first_at)} to {words.moment(sums.last_at)}" if sums.receipts else None
    nulled = ", ".join(f"{name}: {count:,}" for name, count in sums.nulled.items())
    yield "Values set to NULL (on_bad_value: null)", nulled or "none"


def _publication(report: CampaignReport) -> Iterator[Fact]:
    receipt = report.status.publication
    if receipt is None:
        return
    yield "Receipt", receipt.receipt_id
    yield "Published", receipt.published_at
    yield "Rows expected", receipt.expected_rows
    yield "Rows counted", receipt.actual_rows
    yield "Position in the target's history", receipt.sequence
    yield "Generation", receipt.generation
    yield "Publication before", receipt.predecessor_receipt or "none"
    yield "Catalog contract", receipt.object_contract_sha256


def _undo(report: CampaignReport) -> Iterator[Fact]:
    status = report.status
    receipt, rollback = status.publication, status.rollback
    if status.spec.direct:
        yield "Live table", "written to chunk by chunk; nothing from before is retained"
        return
    if receipt is None:
        yield "Live table", f"untouched; it would be kept as {status.spec.backup}"
        return
    latest = rollback or receipt
    if latest.backup_dropped_at is not None:
        dropped = f"{latest.backup} was dropped by {latest.backup_dropped_by}, {words.moment(latest.backup_dropped_at)}"
        yield "Backup", dropped
    else:
        yield "Retained", latest.backup
    if rollback is not None:
        yield "Rolled back", rollback.published_at
        yield "By", rollback.approved_by
        yield "Reason", rollback.reason
        yield "Rollback receipt", rollback.receipt_id
    elif latest.backup_dropped_at is None:
        yield "To undo", "dpone backfill rollback MANIFEST"


def _handoff(report: CampaignReport) -> Iterator[Fact]:
    spec, record, at = report.status.spec, report.status.record, report.checkpoint
    yield "Handoff", spec.handoff_id or "none: the manifest asks for no increments"
    if record is not None and record.anchor is not None:
        anchor = record.anchor
        yield (
            "Anchor",
            f"transaction {anchor.xid}, taken {words.moment(anchor.taken_at)} before the first chunk was read",
        )
        identity = anchor.identity
        yield "Source server", f"cluster {identity.system_identifier}, timeline {identity.timeline}"
    if spec.handoff_id is None:
        return
    if at is None:
        yield "Checkpoint", "not committed yet" if report.status.phase is not Phase.ROLLED_BACK else "none"
        return
    yield "Checkpoint", f"transaction {at.anchor.xid}, taken {words.moment(at.anchor.taken_at)}, revision {at.revision}"
    yield "Keys reconciled since handoff or rewind", at.reconciled
    yield "Increments applied", report.increments.total


def _hashes(record: CampaignRecord | None) -> Iterator[Fact]:
    if record is None:
        return
    yield "Plan", record.plan_hash
    yield "Configuration", record.config_hash
    yield "Column contract", record.contract_hash
    yield "Source catalog", record.source_digest
    yield "Live table's catalog", record.object_contract_sha256


def _columns(record: CampaignRecord | None) -> tuple[ColumnContract, int] | None:
    """The contract and how many of its columns are shown."""
    if record is None:
        return None
    contract = ColumnContract.from_dict(record.contract)
    return contract, min(len(contract.columns), _MORE_THAN_ENOUGH)
