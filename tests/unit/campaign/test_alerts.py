"""One alert when a condition begins, one when it is over; and nothing that waits is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from dpone_dagster.campaign.alerts import Watch
from dpone_dagster.campaign.incidents import Look, incidents_of
from dpone_dagster.campaign.ledger import Phase
from tests.unit.campaign.looks import NOW, ago, loading, look, spec

CHANNELS = ("log", "slack")
MINUTE = timedelta(minutes=1)


def blocked(*, minutes: int = 0, since: int = 0, dataset: str = "orders") -> Look:
    """Blocked since minute `since`, seen at minute `minutes`."""
    return look(spec(dataset), phase=Phase.BLOCKED, phase_at=NOW + since * MINUTE, now=NOW + minutes * MINUTE)


def well(*, minutes: int = 0, dataset: str = "orders") -> Look:
    return look(spec(dataset), now=NOW + minutes * MINUTE)


def told(watch: Watch) -> list[tuple[str, str]]:
    assert watch.waiting.get("log") == watch.waiting.get("slack")
    return [(alert.state, alert.incident_id) for alert in watch.waiting.get("log", ())]


def all_sent(watch: Watch) -> Watch:
    return replace(watch, waiting={})


def step(watch: Watch, *looks: Look, unseen: Sequence[str] = ()) -> Watch:
    """One tick: read from the cursor, changed, written to the cursor."""
    return Watch.from_json(Watch.from_json(watch.to_json()).after(looks, unseen, CHANNELS).to_json())


def test_a_condition_is_told_once_until_it_is_over() -> None:
    first = step(Watch(), blocked())
    ((_, name),) = told(first)
    assert told(first) == [("raised", name)]
    for minute in range(1, 4):
        again = step(all_sent(first), blocked(minutes=minute))
        assert told(again) == []
    over = step(all_sent(again), well(minutes=4))
    assert told(over) == [("cleared", name)]
    assert over.open == ()
    assert told(step(all_sent(over), well(minutes=5))) == []


def test_what_was_over_between_two_looks_is_told_as_two() -> None:
    first = step(Watch(), blocked(minutes=1))
    second = step(all_sent(first), blocked(minutes=9, since=5))
    (cleared, old), (raised, new) = told(second)
    assert (cleared, raised) == ("cleared", "raised")
    assert old == told(first)[0][1]
    assert new != old


def test_an_older_transition_that_shows_later_is_the_same_incident() -> None:
    """Of two expired leases the first is taken over: the other one had run out before the last look too."""
    both = look(**loading(lease_expired=2, lapsed=ago(minutes=5)))
    one = look(**loading(lease_expired=1, lapsed=ago(minutes=1)), now=NOW + MINUTE)
    watch = step(Watch(), both)
    later = step(all_sent(watch), one)
    assert told(later) == []
    assert later.open[0].incident == watch.open[0].incident


def test_a_dataset_that_could_not_be_looked_at_changes_nothing() -> None:
    watch = all_sent(step(Watch(), blocked(dataset="a"), blocked(dataset="b")))
    after = step(watch, well(dataset="a", minutes=1), unseen=["b"])
    assert [state for state, _ in told(after)] == ["cleared"]
    assert [each.incident.dataset for each in after.open] == ["b"]
    assert told(step(all_sent(after), blocked(dataset="b", minutes=2))) == []


def test_a_manifest_that_is_gone_clears_what_was_open() -> None:
    watch = all_sent(step(Watch(), blocked()))
    gone = step(watch)
    assert [state for state, _ in told(gone)] == ["cleared"]
    assert gone.open == ()


def test_what_waits_goes_to_the_channels_that_there_are() -> None:
    watch = Watch().after([blocked()], (), ["log", "slack"])
    assert watch.count_waiting == 2
    fewer = watch.after([blocked()], (), ["log", "email"])
    assert {name: len(left) for name, left in fewer.waiting.items()} == {"log": 1}
    many = watch.telling([watch.waiting["log"][0]] * 2_000, ["log"])
    assert len(many.waiting["log"]) == 1_000


def test_a_cursor_that_cannot_be_read_tells_all_once_more() -> None:
    for cursor in ("", "{", "null", '{"open": 1}', "something"):
        assert Watch.from_json(cursor) == Watch()
    assert Watch.from_json(None) == Watch()


def test_a_tick_that_only_saw_the_same_again_has_not_moved() -> None:
    first = step(Watch(), blocked())
    assert first.moved_since(Watch())
    assert all_sent(first).moved_since(first)
    kept = all_sent(first)
    assert not step(kept, blocked(minutes=1)).moved_since(kept)
    assert step(kept, blocked(minutes=9, since=5)).moved_since(kept)


def test_an_alert_says_what_where_since_and_what_next() -> None:
    (alert,) = step(Watch(), blocked()).waiting["log"]
    lines = alert.text.split("\n")
    assert lines[0] == "orders: validation blocked"
    assert lines[2] == "since 2026-03-01 12:00:00+0000"
    assert lines[3].startswith("next: ")
    assert lines[4] == "see docs/runbook.md#a-blocked-validation"
    assert all(isinstance(value, str) for value in alert.as_dict().values())
    over = step(all_sent(step(Watch(), blocked())), well(minutes=1)).waiting["log"][0]
    assert over.headline == "orders: validation blocked is over"
    assert "next:" not in over.text


MOMENTS = st.lists(
    st.fixed_dictionaries(
        {name: st.sampled_from(["well", "blocked", "stalled", "lapsed", "unseen"]) for name in ("a", "b")}
    ),
    max_size=12,
)


def seen_as(word: str, dataset: str, minute: int) -> Look:
    now = NOW + minute * MINUTE
    kinds = {
        "well": {},
        "blocked": {"phase": Phase.BLOCKED, "phase_at": NOW},
        "stalled": loading(running=1, moved=ago(hours=1)),
        "lapsed": loading(running=1, moved=ago(hours=1), lease_expired=1, lapsed=NOW),
    }
    return look(spec(dataset), now=now, **kinds[word])


@given(MOMENTS)
def test_whatever_comes_each_incident_begins_and_ends_once(moments: list[dict[str, str]]) -> None:
    watch, history = Watch(), []  # type: Watch, list[Alert]
    for minute, words in enumerate(moments):
        looks = [seen_as(word, name, minute) for name, word in words.items() if word != "unseen"]
        unseen = [name for name, word in words.items() if word == "unseen"]
        before = watch
        watch = step(watch, *looks, unseen=unseen)
        history += watch.waiting.get("log", ())
        watch = all_sent(watch)
        held = {(found.dataset, found.condition) for each in looks for found in incidents_of(each)}
        held |= {
            (each.incident.dataset, each.incident.condition) for each in before.open if each.incident.dataset in unseen
        }
        assert {(each.incident.dataset, each.incident.condition) for each in watch.open} == held
    for key in {(alert.dataset, alert.condition) for alert in history}:
        states = [alert.state for alert in history if (alert.dataset, alert.condition) == key]
        assert states == ["raised", "cleared"] * (len(states) // 2) + ["raised"] * (len(states) % 2)
        is_open = any((each.incident.dataset, each.incident.condition) == key for each in watch.open)
        assert is_open == (states[-1] == "raised")
