"""Other campaigns of a target: whether anybody is at work on one is the answer of its lock, whatever its row says."""

from __future__ import annotations

from dpone_dagster.campaign.errors import CampaignActive, StateElsewhere
from dpone_dagster.campaign.ledger import Neighbour, Phase
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.campaign.windows import apart
from dpone_dagster.ports.target import Target


def prove_no_campaign(target: Target, table: TableRef, *, but: CampaignSpec | None = None) -> None:
    """No session works on a campaign of the table: the locks decide, a campaign that only waits is nobody's work.

    Args:
        target: The connection.
        table: The live table.
        but: The one campaign that may be at work; beside it, those whose slices of the live table are others.

    Raises:
        CampaignActive: One does; the message names it.
    """
    _prove_not_at_work(target, table, target.ledger.neighbours(table), but)


def prove_alone(target: Target, spec: CampaignSpec) -> None:
    """No other campaign of the target is at work, and those that are not finished are all in this one's state schema.

    Lanes look at locks, in every schema.

    Args:
        target: The connection.
        spec: The campaign.

    Raises:
        StateElsewhere: One is in another schema; the message names both.
        CampaignActive: As `prove_no_campaign`.
    """
    others = target.ledger.neighbours(spec.target)
    for other in others:
        if other.elsewhere is not None and other.phase != Phase.CANCELLED:
            raise StateElsewhere(
                f"campaign {_named(other)} of {spec.target} is "
                f"{other.phase} in state schema {other.elsewhere}, and this one's is {spec.state.schema}"
            )
    _prove_not_at_work(target, spec.target, others, spec)


def waiting(target: Target, spec: CampaignSpec) -> list[Neighbour]:
    """Unfinished campaigns of the target that are nobody's work, and of which only one can be published.

    Args:
        target: The connection.
        spec: The campaign that is looked at.
    """
    others = [
        each
        for each in target.ledger.neighbours(spec.target)
        if each.phase != Phase.CANCELLED and not _is(spec, each) and not (each.direct and spec.direct)
    ]
    held = target.fence.held(others)
    return [each for each in others if each not in held]


def _prove_not_at_work(target: Target, table: TableRef, all_of_it: list[Neighbour], but: CampaignSpec | None) -> None:
    others = [each for each in all_of_it if but is None or not _may_work_beside(but, each)]
    for other in target.fence.held(others):
        raise CampaignActive(
            f"campaign {_named(other)} of {table} is at work: {_holders(other, target)}",
            next_step="Wait for it, then run this again; or watch it: `dpone backfill status` with the manifest whose "
            f"name is `{other.dataset}`, and the flags that it was started with.",
        )


def _may_work_beside(spec: CampaignSpec, other: Neighbour) -> bool:
    """Whether it is the campaign itself, or one that writes to the live table as well and to other rows of it."""
    beside = spec.direct and other.slices is not None and apart(spec.slices, other.slices)
    return _is(spec, other) or beside


def _is(spec: CampaignSpec, other: Neighbour) -> bool:
    return other.run_key == spec.run_key and other.elsewhere is None


def _named(campaign: Neighbour) -> str:
    return f"{campaign.backfill_id or campaign.dataset} ({campaign.run_key[:12]})"


def _holders(campaign: Neighbour, target: Target) -> str:
    if campaign.elsewhere is not None:
        return f"its state is in schema {campaign.elsewhere}"
    named = "; ".join(str(holder) for holder in target.fence.holders(campaign.run_key))
    return named or "a session that this login cannot name, or that has just let go"
