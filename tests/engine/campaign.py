"""Run the use cases of a campaign in this process, as the Dagster shell does in its steps."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.ledger import Worker
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.campaign.receipts import ChunkReceipt, PublicationReceipt
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.card import CampaignCard
from dpone_dagster.engine.handoff import commit_handoff
from dpone_dagster.engine.load import LaneResult, collect, load_lane
from dpone_dagster.engine.prepare import Intent, prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.validate import validate
from tests.orders import Orders


@dataclass
class Seen:
    """Collects what a lane tells its host."""

    done: list[int] = field(default_factory=list)
    replayed: list[int] = field(default_factory=list)
    errors: dict[int, DponeError] = field(default_factory=dict)

    def committed(self, chunk: Chunk, receipt: ChunkReceipt, seconds: float, *, replayed: bool) -> None:
        (self.replayed if replayed else self.done).append(chunk.index)

    def failed(self, chunk: Chunk, error: DponeError) -> None:
        self.errors[chunk.index] = error

    def progress(self, card: CampaignCard) -> None:
        pass


def lane(
    orders: Orders, seen: Seen, *, run_id: str = "run-1", number: int = 0, selection: ChunkSelection | None = None
) -> LaneResult:
    spec = orders.spec
    return load_lane(
        spec,
        orders.connector,
        Worker(run_id, number, "testhost", os.getpid()),
        selection or ChunkSelection.all(spec.plan.count),
        seen,
    )


def load(orders: Orders, *, intent: Intent = "run", run_id: str = "run-1") -> Seen:
    prepare(orders.spec, orders.connector, intent=intent, run_id=run_id)
    seen = Seen()
    lane(orders, seen, run_id=run_id)
    collect(orders.spec, orders.connector, ChunkSelection.all(orders.spec.plan.count))
    return seen


def finish(orders: Orders, *, run_id: str = "run-1") -> PublicationReceipt:
    spec, connector = orders.spec, orders.connector
    evidence = validate(spec, connector, run_id)
    assert evidence.passed, evidence
    receipt = publish(spec, connector, run_id)
    commit_handoff(spec, connector, run_id)
    return receipt
