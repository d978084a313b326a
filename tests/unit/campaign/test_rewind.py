"""Where a checkpoint may be rewound to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dpone_dagster.campaign.errors import RewindRefused
from dpone_dagster.campaign.watermark import (
    MAX_DISTANCE,
    MAX_REWIND,
    Anchor,
    Checkpoint,
    RecordedAnchor,
    SourceIdentity,
    anchor_facts,
    rewind_anchor,
    rewind_places,
)

SERVER = SourceIdentity("7345678901234567890", 3, 16_384)
START = datetime(2026, 1, 1, 5, 30, tzinfo=UTC)
EPOCH = 3 * 2**32  # the counter has wrapped three times


def anchor(xid: int, days: int = 0) -> Anchor:
    return Anchor(EPOCH + xid, SERVER, START + timedelta(days=days))


FIRST, HERE, NOW = anchor(1_000), anchor(5_000, 4), anchor(9_000, 5)
CHECKPOINT = Checkpoint("orders_v1", "landing.orders", "generation-1", "publication-1", HERE, 5, reconciled=True)
RECORDED = [RecordedAnchor.of(anchor(n * 1_000 + 1_000, n)) for n in (3, 1, 2, 4)]
PLACES = rewind_places(CHECKPOINT, FIRST, RECORDED)


def rewound(wanted: str, **changes: Anchor) -> int:
    found = rewind_anchor(wanted, CHECKPOINT, PLACES, changes.get("now", NOW))
    assert found.identity == SERVER
    return found.xid - EPOCH


def test_places_are_behind_the_checkpoint_and_begin_with_the_campaign() -> None:
    assert [place.xid - EPOCH for place in PLACES] == [1_000, 2_000, 3_000, 4_000]


@pytest.mark.parametrize(
    ("wanted", "xid"),
    [
        ("anchor", 1_000),
        (str(EPOCH + 1_000), 1_000),
        (str(EPOCH + 4_999), 4_999),
        ("2026-01-01T05:30:00+00:00", 1_000),
        ("2026-01-02", 1_000),
        ("2026-01-02T06:29:59+01:00", 1_000),
        ("2026-01-02T06:30:00+01:00", 2_000),
        ("2026-01-03T05:30", 3_000),
        ("2031-01-01", 4_000),
    ],
)
def test_a_place_is_an_id_or_the_last_one_recorded_before(wanted: str, xid: int) -> None:
    assert rewound(wanted) == xid


def test_an_id_between_two_places_has_the_time_of_the_one_before() -> None:
    assert rewind_anchor(str(EPOCH + 2_500), CHECKPOINT, PLACES, NOW).taken_at == START + timedelta(days=1)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (str(EPOCH + 5_000), "never moved forward"),
        (str(EPOCH + 5_001), "never moved forward"),
        (str(EPOCH + 999), "below the campaign's own anchor"),
        ("5000", "below the campaign's own anchor"),
        ("2026-01-01", "no checkpoint was recorded at or before 2026-01-01"),
        ("yesterday", "no place to rewind to"),
        ("-1", "no place to rewind to"),
        ("", "no place to rewind to"),
    ],
)
def test_nowhere_else(wanted: str, reason: str) -> None:
    with pytest.raises(RewindRefused, match=reason):
        rewound(wanted)


def test_a_date_before_all_lists_what_there_is() -> None:
    with pytest.raises(RewindRefused) as caught:
        rewound("2025-12-31")
    assert [finding.problem.split()[0] for finding in caught.value.findings] == [str(p.xid) for p in PLACES]


def test_another_cluster_database_or_a_counter_that_went_back_is_refused() -> None:
    for identity in (replace(SERVER, system_identifier="7"), replace(SERVER, database_oid=7)):
        with pytest.raises(RewindRefused, match="no order"):
            rewound("anchor", now=replace(NOW, identity=identity))
    with pytest.raises(RewindRefused, match="behind the checkpoint"):
        rewound("anchor", now=anchor(4_999, 9))
    assert rewound("anchor", now=replace(NOW, identity=replace(SERVER, timeline=4))) == 1_000


def test_it_keeps_a_distance_that_the_next_increments_can_use() -> None:
    assert MAX_DISTANCE - MAX_REWIND > 2**27
    assert rewound("anchor", now=anchor(1_000 + MAX_REWIND, 9)) == 1_000
    with pytest.raises(RewindRefused, match=f"{MAX_REWIND + 1} transactions past"):
        rewound("anchor", now=anchor(1_001 + MAX_REWIND, 9))


def test_at_the_first_place_there_is_nowhere_to_go() -> None:
    stored = replace(CHECKPOINT, anchor=FIRST)
    with pytest.raises(RewindRefused, match="its first place"):
        rewind_anchor("anchor", stored, rewind_places(stored, FIRST, RECORDED), NOW)


def test_what_audit_rows_keep_comes_back() -> None:
    assert RecordedAnchor.from_facts(anchor_facts("generation-1", HERE)) == RecordedAnchor.of(HERE)
