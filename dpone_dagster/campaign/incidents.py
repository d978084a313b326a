"""Incidents: what of the vitals somebody has to be told, judged by the manifest's thresholds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec
from dpone_dagster.campaign.vitals import Loading, Vitals

# A publication tries for about this long before it gives up.
PUBLICATION_PATIENCE = timedelta(minutes=1)
# A forecast that sways around the objective is one incident.
_RELIEF = 0.9
_RUNBOOK = "docs/runbook.md"


class Condition(StrEnum):
    """What may be wrong with a campaign, once each."""

    STALLED = "stalled"
    LEASE_EXPIRED = "lease_expired"
    VALIDATION_BLOCKED = "validation_blocked"
    PUBLICATION_BLOCKED = "publication_blocked"
    LOAD_LATE = "load_late"
    HANDOFF_PENDING = "handoff_pending"
    INCREMENT_LATE = "increment_late"


# Where the runbook has each of them.
RUNBOOK: Mapping[Condition, str] = {
    Condition.STALLED: f"{_RUNBOOK}#nothing-moves",
    Condition.LEASE_EXPIRED: f"{_RUNBOOK}#a-lanes-host-that-vanished",
    Condition.VALIDATION_BLOCKED: f"{_RUNBOOK}#a-blocked-validation",
    Condition.PUBLICATION_BLOCKED: f"{_RUNBOOK}#blocked-publication",
    Condition.LOAD_LATE: f"{_RUNBOOK}#a-load-that-will-be-late",
    Condition.HANDOFF_PENDING: f"{_RUNBOOK}#a-handoff-that-is-owed",
    Condition.INCREMENT_LATE: f"{_RUNBOOK}#a-late-increment",
}


@dataclass(frozen=True)
class Incident:
    """One condition of one dataset that holds.

    Attributes:
        dataset: The manifest's name.
        condition: Which.
        since: The last transition that led to it, by the target server's clock.
        problem: What was found, in one sentence.
        next_step: What to do about it.
    """

    dataset: str
    condition: Condition
    since: datetime
    problem: str
    next_step: str

    @property
    def incident_id(self) -> str:
        """The same for as long as the same transition is behind it."""
        return f"{self.dataset}/{self.condition}/{self.since.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"


@dataclass(frozen=True)
class Look:
    """One dataset at one moment.

    Attributes:
        spec: Its manifest.
        vitals: What its state tables say.
        due_at: When the first increment after the last one was, or will be, due; None where none is scheduled.
    """

    spec: RouteSpec
    vitals: Vitals
    due_at: datetime | None = None


def incidents_of(look: Look, held: Collection[Condition] = ()) -> list[Incident]:
    """Every condition that holds.

    Args:
        look: What was seen.
        held: Conditions that held when it was looked at before.
    """
    found = [*_of_chunks(look, held), *_of_steps(look), *_of_increments(look)]
    return [Incident(look.spec.dataset, *each) for each in found]


_Found = tuple[Condition, datetime, str, str]


def _of_chunks(look: Look, held: Collection[Condition]) -> Iterator[_Found]:
    loading = look.vitals.loading
    if loading is None:
        return
    for judge in (_stalled, _lapsed):
        yield from judge(look, loading)
    yield from _late(look, loading, Condition.LOAD_LATE in held)


def _stalled(look: Look, loading: Loading) -> Iterator[_Found]:
    minutes, running = look.spec.alerts.stalled_after_minutes, loading.progress.running
    if minutes is None or not running or loading.moved_at is None:
        return
    still = look.vitals.now - loading.moved_at
    if still >= timedelta(minutes=minutes):
        yield (
            Condition.STALLED,
            loading.moved_at,
            f"{_chunks(running)} running and none was claimed, committed or failed for {_ago(still)}",
            "`dpone backfill doctor MANIFEST` names who holds what; a chunk that takes this long by itself wants a "
            "higher `dagster.alerts.stalled_after_minutes`.",
        )


def _lapsed(look: Look, loading: Loading) -> Iterator[_Found]:
    if loading.lapsed_at is not None:
        lapsed = look.vitals.now - loading.lapsed_at
        count = loading.progress.lease_expired
        yield (
            Condition.LEASE_EXPIRED,
            loading.lapsed_at,
            f"{_chunks(count)} held by a worker that is not heard of; the first lease ran out {_ago(lapsed)} ago",
            "`dpone backfill doctor MANIFEST`: a dead worker's chunks are taken over by `dpone backfill resume "
            "MANIFEST`, a stopped one's after `dpone backfill release MANIFEST`.",
        )


def _late(look: Look, loading: Loading, held: bool) -> Iterator[_Found]:
    hours, started, progress = look.spec.alerts.load_within_hours, loading.started_at, loading.progress
    if hours is None or started is None or not progress.remaining:
        return
    allowed, gone = timedelta(hours=hours), look.vitals.now - started
    eta = progress.eta_seconds
    # Years are as late as any longer time, which a timedelta could not hold.
    forecast = gone + timedelta(seconds=min(eta or 0.0, 1e9))
    if forecast > allowed * (_RELIEF if held else 1):
        left = "no chunk is committed yet" if eta is None else f"{_ago(forecast - gone)} to go at the rate so far"
        yield (
            Condition.LOAD_LATE,
            started,
            f"{progress.committed:,} of {progress.total:,} chunks after {_ago(gone)}, {left}; "
            f"{_ago(allowed)} were allowed",
            "`dpone backfill status MANIFEST` shows rate and failures; more lanes, or another "
            "`dagster.alerts.load_within_hours`.",
        )


def _of_steps(look: Look) -> Iterator[_Found]:
    vitals, alerts = look.vitals, look.spec.alerts
    if vitals.phase is Phase.BLOCKED and vitals.phase_at is not None:
        red = [check for check in (vitals.validation or {}).get("checks", ()) if not check.get("passed")]
        named = "; ".join(f"{check['name']}: {check.get('problem', '')}" for check in red) or "no check is named"
        step = red[0].get("next_step") if red else None
        yield (
            Condition.VALIDATION_BLOCKED,
            vitals.phase_at,
            f"the shadow is not proven, the live table is untouched: {named}",
            step or "`dpone backfill status MANIFEST` names each red check with its next step.",
        )
    if vitals.refused is not None and vitals.now - vitals.refused.since >= PUBLICATION_PATIENCE:
        yield (
            Condition.PUBLICATION_BLOCKED,
            vitals.refused.since,
            f"the swap was refused with {vitals.refused.code}; the live table is untouched",
            "`dpone backfill doctor MANIFEST` names what is in the way; then `dpone backfill resume MANIFEST`.",
        )
    owed, minutes = vitals.owed, alerts.handoff_within_minutes
    # Increments with a manifest of their own have no campaign to finish; the campaign's manifest says it.
    if owed is not None and minutes is not None and isinstance(look.spec, CampaignSpec):
        pending = vitals.now - owed.published_at
        if pending >= timedelta(minutes=minutes):
            yield (
                Condition.HANDOFF_PENDING,
                owed.published_at,
                f"published {_ago(pending)} ago, and handoff `{owed.handoff_id}` is not committed",
                "`dpone backfill resume MANIFEST` commits it; no increment can run before.",
            )


def _of_increments(look: Look) -> Iterator[_Found]:
    minutes, due, loaded = look.spec.alerts.increment_within_minutes, look.due_at, look.vitals.loaded_at
    if minutes is None or due is None or loaded is None or look.vitals.owed is not None:
        return
    late = look.vitals.now - due
    if late >= timedelta(minutes=minutes):
        yield (
            Condition.INCREMENT_LATE,
            loaded,
            f"an increment was due {_ago(late)} ago; the last one was committed {_ago(look.vitals.now - loaded)} ago",
            "`dpone increment status MANIFEST` says why none runs; then `dpone increment run MANIFEST`.",
        )


def _chunks(count: int) -> str:
    return "1 chunk is" if count == 1 else f"{count:,} chunks are"


def _ago(span: timedelta) -> str:
    """A length of time as people say it."""
    minutes = int(span.total_seconds() // 60)
    if minutes < 1:
        return f"{max(int(span.total_seconds()), 0)} s"
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"
