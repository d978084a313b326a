"""The server did it and its answer never came: the lane finds out, and nothing is taken for lost or done twice.

Verified on Babelfish 4.3.
"""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.errors import ConnectionLost
from dpone_dagster.engine.prepare import prepare
from tests.engine.campaign import Seen, finish, lane
from tests.mssql_orders import make_either_orders
from tests.orders import Orders
from tests.wire import cut_once


@pytest.fixture(params=["postgres", "mssql"])
def orders(request: pytest.FixtureRequest) -> Orders:
    made = make_either_orders(request, rows=200, chunks=4)
    prepare(made.spec, made.connector, intent="run", run_id="run-1")
    return made


def test_a_committed_chunk_is_nobody_elses(orders: Orders) -> None:
    seen = Seen()
    with cut_once(orders, "/* dpone:complete */", "after") as through:
        result = lane(through, seen)
    assert (result.committed, result.failed) == (4, 0)
    assert sorted([*seen.done, *seen.replayed]) == [0, 1, 2, 3]
    finish(orders)
    assert orders.target_rows() == orders.source_rows()


def test_a_claim_that_was_made_unseen_is_given_back(orders: Orders) -> None:
    with cut_once(orders, "/* dpone:claim */", "after") as through, pytest.raises(ConnectionLost):
        lane(through, Seen())
    states = orders.on_target("SELECT state, COUNT(*) FROM system.__dpone__backfill_chunks GROUP BY state")
    assert [tuple(row) for row in states] == [("pending", 4)]
