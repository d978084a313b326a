"""Tallies: sums over the committed chunks of each block, so that no counter ever reads all chunks.

A tally is changed in the transaction that commits a chunk, and lanes work far apart, so they seldom want the same one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# `version_3` of the state tables has it too.
BLOCK_CHUNKS = 1_000

Ranges = tuple[tuple[int, int], ...]


def block_of(chunk_index: int) -> int:
    """The block of a chunk."""
    return chunk_index // BLOCK_CHUNKS


@dataclass(frozen=True)
class TalliedRanges:
    """Ranges of chunks, cut so that what is whole blocks is known from tallies.

    Attributes:
        blocks: Half-open ranges of blocks.
        edges: Half-open ranges of the chunks beside them, fewer than two blocks of each range.
    """

    blocks: Ranges
    edges: Ranges

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> TalliedRanges:
        """Cut half-open ranges of chunks.

        Args:
            ranges: Disjoint.
        """
        blocks: list[tuple[int, int]] = []
        edges: list[tuple[int, int]] = []
        for start, stop in ranges:
            first, last = -(-start // BLOCK_CHUNKS), stop // BLOCK_CHUNKS
            if first >= last:
                edges.append((start, stop))
                continue
            blocks.append((first, last))
            edges += [(start, first * BLOCK_CHUNKS), (last * BLOCK_CHUNKS, stop)]
        return cls(tuple(blocks), tuple((start, stop) for start, stop in edges if start < stop))
