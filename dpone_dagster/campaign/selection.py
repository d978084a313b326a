"""Which chunks a run may claim, and in what order a lane looks at them."""

from __future__ import annotations

from dataclasses import dataclass

# Multiples of the golden ratio spread any number of lanes evenly over the chunks.
_GOLDEN = 0.618_033_988_749_894_9


@dataclass(frozen=True)
class ChunkSelection:
    """Chunk indexes a run may claim: half-open, sorted, disjoint ranges."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def all(cls, chunk_count: int) -> ChunkSelection:
        """Every chunk of the plan."""
        return cls(((0, chunk_count),))

    @property
    def count(self) -> int:
        """How many chunks are selected."""
        return sum(stop - start for start, stop in self.ranges)

    def seen_from(self, lane: int) -> list[tuple[int, int]]:
        """The ranges, begun at this lane's own place and continued around, so that lanes meet only at the end.

        Args:
            lane: Its number, from 0.
        """
        skip = int(self.count * (lane * _GOLDEN % 1.0))
        head: list[tuple[int, int]] = []
        for place, (start, stop) in enumerate(self.ranges):
            if skip < stop - start:
                tail = [(start, start + skip)] if skip else []
                return [(start + skip, stop), *self.ranges[place + 1 :], *head, *tail]
            skip -= stop - start
            head.append((start, stop))
        return head


# For readers that have no plan at hand: an index is a 32-bit integer in every state table. It ends with a whole block.
EVERY_CHUNK = ChunkSelection.all(2_147_483_000)
