"""The campaign's card as metadata of the `shadow` asset: small, and the same size for any campaign."""

from collections.abc import Sequence

from dagster import AssetExecutionContext, AssetObservation, MetadataValue, TableColumn, TableRecord, TableSchema

from dpone_dagster.assets.names import asset_key
from dpone_dagster.campaign.ledger import ChunkRecord
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.engine.card import CampaignCard

_STATES = ("committed", "running", "pending", "failed", "lease_expired")
_SLOWEST = TableSchema(
    columns=[
        TableColumn("chunk", "int"),
        TableColumn("state", "string"),
        TableColumn("seconds", "float"),
        TableColumn("rows", "int"),
        TableColumn("lane", "string"),
    ]
)
_MOST_CHARACTERS = 120


def card_metadata(card: CampaignCard) -> dict[str, MetadataValue]:
    """The card as two entries: `campaign`, a text with a table, and `slowest_chunks`, a table.

    They hold no numbers of their own: Dagster would draw those as if each partition had measured them.

    Args:
        card: As it was read.
    """
    records = [_record(chunk) for chunk in card.slowest]
    return {
        "campaign": MetadataValue.md(_text(card)),
        "slowest_chunks": MetadataValue.table(records, _SLOWEST),
    }


def observe_card(context: AssetExecutionContext, spec: CampaignSpec, cards: Sequence[CampaignCard]) -> None:
    """Show on the shadow what became of the campaign since.

    Args:
        context: Of the step.
        spec: The campaign.
        cards: What the step was told, which may be nothing.
    """
    for card in cards:
        context.log_event(AssetObservation(asset_key(spec, "shadow"), metadata=card_metadata(card)))


def _text(card: CampaignCard) -> str:
    progress = card.progress
    counts = ", ".join(
        f"{getattr(progress, state):,} {state.replace('_', ' ')}" for state in _STATES if getattr(progress, state)
    )
    rows = [
        ("chunks", f"{counts} (of {progress.total:,})"),
        ("rows", f"{progress.rows_loaded:,}"),
        ("rows/s", f"{progress.rows_per_second:,.0f}"),
        ("to go", _to_go(progress)),
        ("validation", card.validation),
        ("publication", card.publication),
    ]
    if card.stop_reason:
        rows.append(("stopped", _plain(card.stop_reason)))
    head = f"**{str(card.phase).replace('_', ' ')}** as of {card.as_of:%Y-%m-%d %H:%M:%S} UTC"
    lines = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    return "\n".join([head, "", *lines])


def _to_go(progress: Progress) -> str:
    if progress.eta_seconds is None:
        return "not known yet"
    minutes, seconds = divmod(round(progress.eta_seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _plain(text: str) -> str:
    """Text of somebody else within a Markdown table: on one line, short, and nothing in it is markup."""
    short = " ".join(text.split())[:_MOST_CHARACTERS]
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]()<>#+-!|&~" else letter for letter in short)


def _record(chunk: ChunkRecord) -> TableRecord:
    return TableRecord(
        {
            "chunk": chunk.index,
            "state": str(chunk.effective_state).replace("_", " "),
            "seconds": round(chunk.seconds or 0.0, 3),
            "rows": chunk.rows or 0,
            "lane": f"{chunk.worker.run_id[:8]} lane {chunk.worker.lane}" if chunk.worker else "",
        }
    )
