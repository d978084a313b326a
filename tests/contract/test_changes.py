"""What every adapter's increments guarantee."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import pytest

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract
from dpone_dagster.campaign.deletion import DeleteMark
from dpone_dagster.campaign.errors import CountMismatch, DponeError, UniqueConflict, ValidationBlocked
from dpone_dagster.ports.changes import ChangeCounts, ChangeTarget, StagedKeys
from dpone_dagster.ports.source import KeyBucket, RowStream
from tests.contract.conftest import Adapter, Parts
from tests.contract.samples import CONTRACT, TARGET

INTO = ChangeTarget(TARGET, CONTRACT)
KEYS = ColumnContract((ColumnBinding("id", "id", "integer", "integer"),), ("id",))
CODED = ChangeTarget(
    TARGET.sibling("coded"),
    ColumnContract(
        (ColumnBinding("id", "id", "integer", "integer"), ColumnBinding("code", "code", "integer", "integer")), ("id",)
    ),
)
OLD = [(1, "one", '{"n": 1}'), (2, None, None), (3, "", '{"n":3}')]
BUCKETS = 16
ALL_BUCKETS = range(BUCKETS)


def keys(adapter: Adapter, *numbers: int) -> RowStream:
    return adapter.stream(KEYS, [(number,) for number in numbers])


def rows(adapter: Adapter, *values: tuple[int, str | None, str | None]) -> RowStream:
    return adapter.stream(CONTRACT, values)


def coded(adapter: Adapter, *values: tuple[int, int]) -> RowStream:
    return adapter.stream(CODED.contract, values)


def expected_bucket(number: int) -> tuple[int, int]:
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    return int(digest[:4], 16) % BUCKETS, int(digest[4:19], 16)


def expected_buckets(numbers: Sequence[int]) -> list[KeyBucket]:
    found: dict[int, list[int]] = {}
    for number in numbers:
        bucket, summand = expected_bucket(number)
        found.setdefault(bucket, []).append(summand)
    return [KeyBucket(bucket, len(parts), str(sum(parts))) for bucket, parts in sorted(found.items())]


def test_changed_rows_are_updated_and_new_ones_inserted(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    with target.transaction():
        staged = target.changes.stage_rows(
            INTO, rows(adapter, (1, "uno", '{"n": 1}'), (2, None, None), (4, "naïve 😀", None))
        )
        counts = target.changes.upsert(INTO)
    assert (staged, counts.updated, counts.inserted) == (3, 1, 1)  # row 2 is what it was
    assert adapter.orders() == [(1, "uno", '{"n": 1}'), OLD[1], OLD[2], (4, "naïve 😀", None)]


def test_null_and_empty_are_told_apart(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    with target.transaction():
        target.changes.stage_rows(INTO, rows(adapter, (2, "", None), (3, None, '{"n": 3}')))
        assert target.changes.upsert(INTO).updated == 2
    assert adapter.orders() == [OLD[0], (2, "", None), (3, None, '{"n": 3}')]


def test_what_a_collation_takes_for_equal_is_a_change_all_the_same(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    changed = [(1, "ONE", '{"n": 1}'), (3, " ", '{"n":3}')]
    with target.transaction():
        target.changes.stage_rows(INTO, rows(adapter, *changed))
        assert target.changes.upsert(INTO).updated == 2
    assert adapter.orders() == [changed[0], OLD[1], changed[1]]


def test_an_increment_without_rows_changes_nothing(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    with target.transaction():
        assert target.changes.stage_rows(INTO, rows(adapter)) == 0
        assert target.changes.upsert(INTO) == target.changes.replace(INTO) == ChangeCounts()
    assert adapter.orders() == OLD


def test_an_increment_that_fails_leaves_nothing_behind(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    with pytest.raises(DponeError, match="given up"):
        apply_in_vain(adapter, target)
    assert adapter.orders() == OLD
    with target.transaction():  # the stage of the failed one is not taken for this one's
        assert target.changes.stage_rows(INTO, rows(adapter, (9, "nine", None))) == 1
        assert target.changes.upsert(INTO).inserted == 1


def apply_in_vain(adapter: Adapter, target: Parts) -> None:
    with target.transaction():
        target.changes.stage_rows(INTO, rows(adapter, (1, "uno", None), (5, "five", None)))
        target.changes.upsert(INTO)
        raise DponeError("given up")


def test_nothing_is_staged_outside_a_transaction(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    with pytest.raises(DponeError, match="one transaction"):
        target.changes.stage_rows(INTO, rows(adapter, (1, "uno", None)))


def test_duplicate_keys_are_refused(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    with pytest.raises(ValidationBlocked, match="1 keys"), target.transaction():
        target.changes.stage_rows(INTO, rows(adapter, (7, "a", None), (7, "b", None), (8, "c", None)))
    with pytest.raises(ValidationBlocked), target.transaction():
        target.changes.stage_keys(INTO, keys(adapter, 1, 1), BUCKETS, ALL_BUCKETS)


def test_a_stream_that_lost_rows_is_refused(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    with pytest.raises(CountMismatch, match="3 rows read, 1 rows staged"), target.transaction():
        target.changes.stage_rows(INTO, adapter.stream(CONTRACT, [(1, "uno", None)], said=3))
    assert adapter.orders() == OLD


def test_key_buckets_are_what_the_port_says(adapter: Adapter, target: Parts) -> None:
    numbers = [*range(-3, 40), 2**31 - 1, -(2**31)]
    adapter.create_orders([(number, None, None) for number in numbers])
    assert target.changes.key_buckets(INTO, BUCKETS) == expected_buckets(numbers)


def test_an_empty_target_has_no_buckets(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders([])
    assert target.changes.key_buckets(INTO, BUCKETS) == []


def test_keys_that_vanished_are_deleted(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    with target.transaction():
        found = target.changes.stage_keys(INTO, keys(adapter, 1, 3), BUCKETS, ALL_BUCKETS)
        assert found == StagedKeys(extra_in_target=1, missing_in_target=0)
        assert target.changes.delete_unmatched(INTO) == 1
    assert adapter.orders() == [OLD[0], OLD[2]]


def test_keys_outside_the_wanted_buckets_stay(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders([(number, None, None) for number in range(40)])
    wanted = [3, 5]
    inside = [number for number in range(40) if expected_bucket(number)[0] in wanted]
    assert 0 < len(inside) < 40
    with target.transaction():
        found = target.changes.stage_keys(INTO, keys(adapter), BUCKETS, wanted)
        assert found.extra_in_target == len(inside)
        assert target.changes.delete_unmatched(INTO) == len(inside)
    assert [row[0] for row in adapter.orders()] == [number for number in range(40) if number not in inside]


def test_a_missed_key_is_missing_unless_its_row_is_staged(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    with target.transaction():
        target.changes.stage_rows(INTO, rows(adapter, (4, "four", None)))
        found = target.changes.stage_keys(INTO, keys(adapter, 1, 2, 3, 4, 5), BUCKETS, ALL_BUCKETS)
        assert found == StagedKeys(extra_in_target=0, missing_in_target=1)
        # Their buckets are read again whole: row 4 once more, 1 to 3 as the target has them.
        again = [*OLD, (4, "four", None), (5, "five", None)]
        assert target.changes.stage_rows(INTO, rows(adapter, *again)) == 4
        counts = target.changes.upsert(INTO)
    assert (counts.inserted, counts.updated) == (2, 0)
    assert adapter.orders() == again


def test_missing_keys_are_counted_without_staged_rows_too(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    with target.transaction():
        found = target.changes.stage_keys(INTO, keys(adapter, 1, 2, 3, 8, 9), BUCKETS, ALL_BUCKETS)
    assert found == StagedKeys(extra_in_target=0, missing_in_target=2)


# ---------------------------------------------------------------- whole rows


def test_row_buckets_are_over_whole_rows_in_the_buckets_of_their_keys(adapter: Adapter, target: Parts) -> None:
    adapter.create_orders(OLD)
    expected: dict[int, list[int]] = {}
    for number, note, detail in OLD:
        # `~` is NULL; braces and quotes stand for themselves.
        text = "|".join([str(number), "~" if note is None else note, "~" if detail is None else detail])
        content = int(hashlib.sha256(text.encode()).hexdigest()[4:19], 16)
        expected.setdefault(expected_bucket(number)[0], []).append(content)
    found = target.changes.row_buckets(INTO, BUCKETS)
    assert found == [KeyBucket(bucket, len(rows), str(sum(rows))) for bucket, rows in sorted(expected.items())]


# ---------------------------------------------------------------- deleted rows are marked


@pytest.mark.parametrize("kind", ["time", "flag"])
def test_rows_that_vanished_are_marked_once_and_those_that_come_back_no_longer(
    adapter: Adapter, target: Parts, kind: Literal["time", "flag"]
) -> None:
    adapter.create_orders(OLD)
    adapter.add_mark(kind)
    into = ChangeTarget(TARGET, CONTRACT, DeleteMark("gone", kind))
    with target.transaction():
        target.changes.stage_keys(into, keys(adapter, 1, 3), BUCKETS, ALL_BUCKETS)
        assert target.changes.delete_unmatched(into) == 1
    assert (adapter.orders(), adapter.marked()) == (OLD, [2])
    # A marked row counts as not there: it is not found gone again, and its key is missing if the source has it.
    assert target.changes.key_buckets(into, BUCKETS) == expected_buckets([1, 3])
    assert sum(bucket.keys for bucket in target.changes.row_buckets(into, BUCKETS)) == 2
    with target.transaction():
        assert target.changes.stage_keys(into, keys(adapter, 1, 3), BUCKETS, ALL_BUCKETS) == StagedKeys(0, 0)
    with target.transaction():
        assert target.changes.stage_keys(into, keys(adapter, 1, 2, 3), BUCKETS, ALL_BUCKETS) == StagedKeys(0, 1)
        # Row 2 is what it was, row 3 is not gone: only the mark of row 2 changes.
        target.changes.stage_rows(into, rows(adapter, OLD[1], OLD[2]))
        counts = target.changes.upsert(into)
    assert (counts.inserted, counts.updated) == (0, 1)
    assert (adapter.orders(), adapter.marked()) == (OLD, [])


# ---------------------------------------------------------------- another unique index


def test_values_that_change_places_are_inserted_anew(adapter: Adapter, target: Parts) -> None:
    adapter.create_coded([(1, 10), (2, 20), (3, 30)])
    with target.transaction():
        target.changes.stage_rows(CODED, coded(adapter, (1, 20), (2, 10), (3, 30), (4, 40)))
        counts = target.changes.replace(CODED)
    assert (counts.inserted, counts.updated) == (1, 2)
    assert adapter.coded() == [(1, 20), (2, 10), (3, 30), (4, 40)]


@pytest.mark.parametrize("apply", ["upsert", "replace"])
def test_a_conflict_with_another_unique_index_is_named_and_leaves_nothing(
    adapter: Adapter, target: Parts, apply: Literal["upsert", "replace"]
) -> None:
    adapter.create_coded([(1, 10), (2, 20)])

    def conflict() -> None:
        with target.transaction():
            target.changes.stage_rows(CODED, coded(adapter, (3, 10)))
            getattr(target.changes, apply)(CODED)

    with pytest.raises(UniqueConflict, match=r"landing\.coded") as caught:
        conflict()
    assert "(10)" not in str(caught.value)  # no value in the message
    assert adapter.coded() == [(1, 10), (2, 20)]
