"""Alerts: one when an incident begins, one when it is over, and what is still to be told. All of it fits a cursor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from dpone_dagster.campaign.incidents import RUNBOOK, Incident, Look, incidents_of

_MOST_WAITING = 1_000

AlertState = Literal["raised", "cleared", "reported"]


@dataclass(frozen=True)
class Alert:
    """One message to people.

    Attributes:
        state: An incident that began, or one that is over; `reported` for what happened once and has no end.
        incident_id: What `raised` and `cleared` of one incident have in common.
        dataset: The manifest's name.
        condition: A `Condition`, or what was reported.
        problem: What was found.
        next_step: What to do; empty once it is over.
        runbook: Where the repository's runbook goes on.
        since: When it began.
        at: When it was seen.
    """

    state: AlertState
    incident_id: str
    dataset: str
    condition: str
    problem: str
    next_step: str
    runbook: str
    since: datetime
    at: datetime

    @property
    def headline(self) -> str:
        """One line."""
        words = self.condition.replace("_", " ")
        return f"{self.dataset}: {words}{' is over' if self.state == 'cleared' else ''}"

    @property
    def text(self) -> str:
        """All of it for people."""
        lines = [self.headline, self.problem, f"since {self.since:%Y-%m-%d %H:%M:%S%z}"]
        lines += [f"next: {self.next_step}"] if self.next_step else []
        return "\n".join([*lines, f"see {self.runbook}"])

    def as_dict(self) -> dict[str, str]:
        """As plain data."""
        return {
            "state": self.state,
            "incident_id": self.incident_id,
            "dataset": self.dataset,
            "condition": self.condition,
            "problem": self.problem,
            "next_step": self.next_step,
            "runbook": self.runbook,
            "since": self.since.isoformat(),
            "at": self.at.isoformat(),
        }


@dataclass(frozen=True)
class OpenIncident:
    """An incident that people were told of and that is not over.

    Attributes:
        incident: As it was when it began.
        seen_at: When it was last seen, by the clock of `since`.
    """

    incident: Incident
    seen_at: datetime


@dataclass(frozen=True)
class Watch:
    """What is open, and what each channel has still to be sent.

    Attributes:
        open: The open incidents.
        waiting: Alerts that were not sent yet, oldest first, by channel.
    """

    open: tuple[OpenIncident, ...] = ()
    waiting: Mapping[str, tuple[Alert, ...]] = field(default_factory=dict)

    def after(self, looks: Sequence[Look], unseen: Collection[str], channels: Iterable[str]) -> Watch:
        """What is open now, with the alerts that this makes waiting for every channel.

        Args:
            looks: What was seen.
            unseen: Datasets that could not be looked at; nothing is known of them, so nothing changes about them.
            channels: Names of all channels; what waits for others is dropped with them.
        """
        before: dict[str, list[OpenIncident]] = {}
        for each in self.open:
            before.setdefault(each.incident.dataset, []).append(each)
        now_open = [each for dataset in unseen for each in before.pop(dataset, ())]
        alerts: list[Alert] = []
        for look in looks:
            opened, made = _changes(look, before.pop(look.spec.dataset, ()))
            now_open += opened
            alerts += made
        # Of what is left the manifest is gone.
        alerts += [_cleared(each, each.seen_at) for gone in before.values() for each in gone]
        return replace(self, open=tuple(now_open)).telling(alerts, channels)

    def telling(self, alerts: Sequence[Alert], channels: Iterable[str]) -> Watch:
        """With these alerts waiting for each channel; the oldest of very many are given up.

        Args:
            alerts: New ones.
            channels: Names of all channels.
        """
        waiting = {name: (*self.waiting.get(name, ()), *alerts)[-_MOST_WAITING:] for name in channels}
        return replace(self, waiting={name: left for name, left in waiting.items() if left})

    @property
    def count_waiting(self) -> int:
        """How many alerts were not sent yet, each channel's counted."""
        return sum(map(len, self.waiting.values()))

    def moved_since(self, before: Watch) -> bool:
        """Whether anything has begun, ended, come to wait or been sent.

        Args:
            before: What there was.
        """
        ids, others = ({each.incident.incident_id for each in watch.open} for watch in (self, before))
        return ids != others or self.waiting != before.waiting

    def to_json(self) -> str:
        """As a cursor."""
        return _CURSOR.dump_json(self).decode()

    @classmethod
    def from_json(cls, cursor: str | None) -> Watch:
        """From a cursor. One that cannot be read starts anew: what is open is then told once more, never not at all.

        Args:
            cursor: What `to_json` made; None at the first tick.
        """
        try:
            return cls() if cursor is None else _CURSOR.validate_json(cursor)
        except ValidationError:
            return cls()


_CURSOR = TypeAdapter(Watch)


def _changes(look: Look, before: Sequence[OpenIncident]) -> tuple[list[OpenIncident], list[Alert]]:
    """What is open of one dataset now, and the alerts that this makes."""
    open_before = {each.incident.condition: each for each in before}
    now_open: list[OpenIncident] = []
    alerts: list[Alert] = []
    now = look.vitals.now
    for incident in incidents_of(look, open_before.keys()):
        known = open_before.pop(incident.condition, None)
        # What began after it was last seen is another one: the one before was over in between.
        if known is not None and incident.since > known.seen_at:
            alerts.append(_cleared(known, now))
            known = None
        if known is None:
            alerts.append(_raised(incident, now))
        now_open.append(OpenIncident(known.incident if known else incident, now))
    alerts[:0] = [_cleared(each, now) for each in open_before.values()]
    return now_open, alerts


def _raised(incident: Incident, now: datetime) -> Alert:
    return Alert(
        "raised",
        incident.incident_id,
        incident.dataset,
        incident.condition,
        incident.problem,
        incident.next_step,
        RUNBOOK[incident.condition],
        incident.since,
        now,
    )


def _cleared(known: OpenIncident, now: datetime) -> Alert:
    incident = known.incident
    return replace(
        _raised(incident, now), state="cleared", problem=f"no longer so; it was: {incident.problem}", next_step=""
    )
