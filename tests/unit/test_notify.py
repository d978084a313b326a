"""Each channel has its own time, and a tick ends whatever one of them does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from dpone_dagster.campaign.alerts import Alert, Watch
from dpone_dagster.campaign.errors import NotificationFailed
from dpone_dagster.engine import notify as module
from dpone_dagster.engine.notify import notify

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def alert(number: int) -> Alert:
    return Alert("reported", f"run-{number}", "orders", "run_failed", "it failed", "look", "docs/runbook.md", NOW, NOW)


class Working:
    """A channel that takes everything."""

    problem: str | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.taken: list[str] = []

    def send(self, alert: Alert) -> None:
        self.taken.append(alert.incident_id)


class Stuck:
    """A channel that comes to no end by itself, as where a name is looked up for ever."""

    name = "webhook"
    problem: str | None = None

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def send(self, _: Alert) -> None:
        self.let_go.wait(5)
        raise NotificationFailed("after all")


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    monkeypatch.setattr(module, "SENDING_SECONDS", 2.0)
    monkeypatch.setattr(module, "LAST_SECONDS", 0.1, raising=False)
    channel = Stuck()
    yield channel
    channel.let_go.set()


def test_a_channel_that_never_ends_keeps_none_from_the_others_and_no_tick_from_its_end(stuck: Stuck) -> None:
    first, last = Working("log"), Working("slack")
    before = Watch().telling([alert(1), alert(2)], ["log", "webhook", "slack"])
    after, failures = notify(before, [first, stuck, last])
    assert first.taken == last.taken == ["run-1", "run-2"]
    assert dict(after.waiting) == {"webhook": (alert(1), alert(2))}
    assert [(each.path, each.problem) for each in failures] == [
        ("channel webhook", "takes no alert in the time that a tick has")
    ]
    assert not stuck.let_go.is_set()


def test_what_was_sent_before_a_failure_is_not_sent_again() -> None:
    class Failing(Working):
        def send(self, alert: Alert) -> None:
            if self.taken:
                raise NotificationFailed("full")
            super().send(alert)

    channel = Failing("slack")
    after, failures = notify(Watch().telling([alert(1), alert(2)], ["slack"]), [channel])
    assert dict(after.waiting) == {"slack": (alert(2),)}
    assert [each.problem for each in failures] == ["full"]
