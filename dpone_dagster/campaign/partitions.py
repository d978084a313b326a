"""Partition keys: what Dagster shows of a plan. One a chunk, or one a contiguous group of chunks above a limit."""

from __future__ import annotations

from collections.abc import Iterable

from dpone_dagster.campaign.errors import Finding, PlanDrift

_LEAST_DIGITS = 4
_NAMED_IN_ERROR = 10


class Partitions:
    """Keys that sort as the chunks do and end in the run key's first digits: an old green never stands for new work.

    Args:
        chunk_count: Chunks of the plan.
        run_key: The campaign.
        max_partitions: Above it a partition is a group of chunks; all groups but the last have one size.
    """

    def __init__(self, chunk_count: int, run_key: str, max_partitions: int) -> None:
        self._chunks = chunk_count
        self._size = max(1, -(-chunk_count // max_partitions))
        self._count = -(-chunk_count // self._size)
        self._letter = "c" if self._size == 1 else "g"
        self._digits = max(_LEAST_DIGITS, len(str(self._count - 1)))
        self._tail = f"-{run_key[:4]}"

    def __len__(self) -> int:
        return self._count

    @property
    def grouped(self) -> bool:
        """Whether a partition is more than one chunk."""
        return self._size > 1

    def keys(self) -> list[str]:
        """All keys, in the order of the plan."""
        return [self._key(number) for number in range(self._count)]

    def key_of(self, chunk_index: int) -> str:
        """The partition that a chunk belongs to.

        Raises:
            IndexError: The plan has no such chunk.
        """
        if not 0 <= chunk_index < self._chunks:
            raise IndexError(f"chunk {chunk_index} is not one of the plan's {self._chunks}")
        return self._key(chunk_index // self._size)

    def chunks_of(self, key: str) -> tuple[int, int]:
        """The chunks of a partition as a half-open range.

        Raises:
            PlanDrift: The key is not one of this campaign's.
        """
        number = self._number(key)
        if number is None:
            raise _foreign([key])
        return self._range(number)

    def selection(self, keys: Iterable[str]) -> tuple[tuple[int, int], ...]:
        """The chunks of several partitions as half-open ranges: sorted, disjoint, merged where they touch.

        Raises:
            PlanDrift: A key is not one of this campaign's; all of them are named.
        """
        numbers = {key: self._number(key) for key in keys}
        if foreign := [key for key, number in numbers.items() if number is None]:
            raise _foreign(foreign)
        merged: list[tuple[int, int]] = []
        for number in sorted(number for number in numbers.values() if number is not None):
            start, stop = self._range(number)
            if merged and merged[-1][1] == start:
                start = merged.pop()[0]
            merged.append((start, stop))
        return tuple(merged)

    def _key(self, number: int) -> str:
        return f"{self._letter}{number:0{self._digits}d}{self._tail}"

    def _number(self, key: str) -> int | None:
        digits = key[1 : 1 + self._digits]
        if not (digits.isascii() and digits.isdigit()):
            return None
        number = int(digits)
        return number if number < self._count and key == self._key(number) else None

    def _range(self, number: int) -> tuple[int, int]:
        return number * self._size, min((number + 1) * self._size, self._chunks)


def _foreign(keys: list[str]) -> PlanDrift:
    named = ", ".join(keys[:_NAMED_IN_ERROR])
    return PlanDrift(
        f"{len(keys)} partition(s) are not of this campaign's plan: {named}",
        findings=[Finding(key, "not a partition of this plan") for key in keys[:_NAMED_IN_ERROR]],
        next_step="Reload the code location and choose partitions of the present campaign.",
    )
