"""The plan: deterministic, adjacent, gapless chunks over one column, computed lazily."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ChunkKind = Literal["date", "timestamp", "integer", "uuid"]


@dataclass(frozen=True)
class Chunk:
    """One range of the chunk column.

    Attributes:
        index: Position in the plan, from 0.
        kind: How the bounds are to be read.
        lower: Inclusive lower bound as canonical text (ISO date, ISO timestamp with zone, integer, 36-character uuid).
        upper: Upper bound likewise.
        upper_inclusive: True for every integer chunk and the last uuid chunk, else False.
    """

    index: int
    kind: ChunkKind
    lower: str
    upper: str
    upper_inclusive: bool
