"""A lane looks up a few free chunks at a time, and anew as soon as another lane was faster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpone_dagster.campaign.ledger import ChunkRecord, ChunkState, Claim, Worker
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.candidates import Candidates
from dpone_dagster.settings import load_spec

EXAMPLE = Path("examples/orders.yaml")

WORKER = Worker("run-1", 0, "host", 1)


class Sessions:
    """Stands for a lane's connections and its ledger: chunks that are free, claimed by number."""

    def __init__(self, chunks: int) -> None:
        self.spec = load_spec(EXAMPLE)
        self.worker = WORKER
        self.free = list(range(chunks))
        self.looks = 0
        self.tried: list[int] = []

    @property
    def target(self) -> Any:
        return self

    @property
    def ledger(self) -> Any:
        return self

    def candidates(self, run_key: str, worker: Worker, selection: ChunkSelection, **options: Any) -> list[ChunkRecord]:
        self.looks += 1
        return [ChunkRecord(index, ChunkState.PENDING, 0, 0, None) for index in self.free[: options["limit"]]]

    def take(self, seen: ChunkRecord) -> Claim | None:
        self.tried.append(seen.index)
        if seen.index not in self.free:
            return None
        self.free.remove(seen.index)
        return Claim(self.spec.run_key, seen.index, 1, WORKER)


def candidates_of(sessions: Sessions) -> Candidates:
    return Candidates(sessions, ChunkSelection.all(64))  # type: ignore[arg-type]


def test_forty_chunks_cost_four_looks() -> None:
    sessions = Sessions(40)
    candidates = candidates_of(sessions)
    claims = [candidates.take() for _ in range(41)]
    assert [claim and claim.chunk_index for claim in claims] == [*range(40), None]
    assert (sessions.looks, candidates.left) == (4, False)


def test_where_another_lane_was_faster_it_looks_again() -> None:
    sessions = Sessions(10)
    candidates = candidates_of(sessions)
    assert candidates.take()
    sessions.free = [8, 9]  # the other lane has come to here
    claim = candidates.take()
    assert claim is not None
    assert claim.chunk_index == 8
    assert (sessions.tried, sessions.looks) == ([0, 1, 8], 2)


def test_chunks_in_the_hand_of_others_are_left() -> None:
    sessions = Sessions(3)
    sessions.take = lambda seen: None  # type: ignore[method-assign, assignment, misc]
    candidates = candidates_of(sessions)
    assert candidates.take() is None
    assert candidates.left
