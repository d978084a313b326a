"""One batch is read in advance; errors and an early end come through."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from dpone_dagster.postgres.readahead import read_ahead
from tests.waiting import PATIENCE_SECONDS, within


class Source:
    """Batches 0, 1, 2 …, of which the one of number `waits` comes only once it is allowed to."""

    def __init__(self, number: int, *, waits: int = -1, error: Exception | None = None) -> None:
        self._number = number
        self._waits = waits
        self._error = error
        self.go_on = threading.Event()
        self.asked: list[int] = []
        self.closed = False

    def batches(self) -> Generator[int, None, None]:
        try:
            for number in range(self._number):
                self.asked.append(number)
                if number == self._waits:
                    assert self.go_on.wait(PATIENCE_SECONDS)
                yield number
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True


def never() -> None:
    raise AssertionError("nothing was to be cut")


def test_batches_come_in_order_and_the_source_is_closed() -> None:
    source = Source(5)
    assert list(read_ahead(source.batches(), never)) == [0, 1, 2, 3, 4]
    assert source.closed


def test_the_next_batch_is_read_while_the_present_one_is_used_and_no_further_one() -> None:
    source = Source(4, waits=2)
    batches = read_ahead(source.batches(), source.go_on.set)
    assert next(batches) == 0
    assert within(PATIENCE_SECONDS, lambda: source.asked == [0, 1])
    assert next(batches) == 1
    assert within(PATIENCE_SECONDS, lambda: source.asked == [0, 1, 2])
    source.go_on.set()
    assert list(batches) == [2, 3]


def test_an_error_of_the_source_comes_after_the_batches_before_it() -> None:
    source = Source(2, error=ValueError("gone"))
    batches = read_ahead(source.batches(), never)
    assert [next(batches), next(batches)] == [0, 1]
    with pytest.raises(ValueError, match="gone"):
        next(batches)
    assert source.closed


def test_a_read_that_is_given_up_is_cut_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpone_dagster.postgres.readahead._CUT_AGAIN_SECONDS", 0.01)
    source = Source(4, waits=1)
    cuts: list[int] = []

    def cut() -> None:
        cuts.append(1)
        if len(cuts) == 3:
            source.go_on.set()

    batches = read_ahead(source.batches(), cut)
    assert next(batches) == 0
    batches.close()
    assert len(cuts) >= 3
    assert source.closed
