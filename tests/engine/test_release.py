"""A stopped process keeps its chunk: status and doctor say so, and release ends its session.

Verified on Babelfish 4.3.
"""

from __future__ import annotations

import contextlib
import json

import pytest

from dpone_dagster.campaign.errors import ConnectionLost, OutcomeUnknown, ReleaseRefused
from dpone_dagster.campaign.ledger import Worker
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.release import preview_release, release
from dpone_dagster.mssql.stages import stage_prefix
from dpone_dagster.ports.target import Target
from tests.engine.campaign import Seen, finish, lane, load
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders

EXPIRED = {
    Orders: "UPDATE system.__dpone__backfill_chunks "
    "SET lease_expires_at = now() - interval '1 s' WHERE state = 'running'",
    MssqlOrders: "UPDATE system.__dpone__backfill_chunks "
    "SET lease_expires_at = DATEADD(second, -1, SYSUTCDATETIME()) WHERE state = N'running'",
}


def held_by_a_stopped_lane(orders: Orders) -> Target:
    """As a lane leaves it that stops with chunk 1 in hand."""
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    stopped = orders.connector.target("lane 0 run-1")
    run_key = orders.spec.run_key
    assert stopped.fence.lock_campaign(run_key, "shared", 0)
    (chunk,) = stopped.ledger.chunks(run_key, ChunkSelection(((1, 2),)))
    assert stopped.fence.try_lock_chunk(run_key, 1)
    assert stopped.ledger.claim(run_key, chunk, Worker("run-1", 0, "frozen-host", 77))
    return stopped


def test_a_chunk_that_a_stopped_lane_keeps_is_named_and_released(either: Orders) -> None:
    stopped = held_by_a_stopped_lane(either)
    assert "being worked on" in status(either.spec, either.connector).recommended_action
    either.on_target(EXPIRED[type(either)])
    seen = status(either.spec, either.connector)
    assert seen.as_dict()["stuck_chunks"] == [1]
    assert seen.recommended_action == "dpone backfill release MANIFEST --chunk 1"
    (finding,) = (f for f in doctor(either.spec, either.connector).findings if f.path == "chunk 1")
    assert "lane 0 run-1" in finding.problem
    assert "frozen-host:77" in finding.problem
    assert "without end" in finding.problem
    assert "release MANIFEST --chunk 1 --yes" in finding.advice

    with pytest.raises(ReleaseRefused, match="chunk 2"):
        preview_release(either.spec, either.connector, 2)
    (holder,) = preview_release(either.spec, either.connector, 1).holders
    assert holder.lock == "chunk 1"
    done = release(either.spec, either.connector, 1, "ada")
    assert (done.holders, done.left) == ((holder,), ())
    with pytest.raises(ConnectionLost):
        stopped.fence.try_lock_chunk(either.spec.run_key, 2)
    steps = either.on_target("SELECT facts FROM system.__dpone__load_steps WHERE step = 'release'")
    facts = [json.loads(row) if isinstance(row, str) else row for (row,) in steps]
    assert [(f["approved_by"], f["sessions"]) for f in facts] == [("ada", [str(holder)])]

    loaded = Seen()
    lane(either, loaded, run_id="run-2")
    assert sorted(loaded.done) == [0, 1, 2, 3]
    finish(either)
    assert either.target_rows() == either.source_rows()
    stopped.close()


def test_who_holds_the_target_is_released_with_the_campaign(either: Orders) -> None:
    load(either)
    with contextlib.closing(either.connector.target("handoff run-1")) as stopped:
        with contextlib.suppress(ConnectionLost, OutcomeUnknown), stopped.transaction():
            stopped.fence.lock_target(either.spec.target, 1)
            done = release(either.spec, either.connector, None, "ada")
        assert [holder.lock for holder in done.holders] == [f"the lock of {either.spec.target}"]
    finish(either)


def test_a_stage_that_outlived_the_publication_is_named_and_goes_with_resume(mssql_orders: MssqlOrders) -> None:
    orders = mssql_orders
    load(orders)
    finish(orders)
    assert status(orders.spec, orders.connector).stages == ()
    stage = f"{stage_prefix(orders.spec.run_key)}c0_e1_t0"
    orders.on_target(f"CREATE TABLE landing.[{stage}] (c0 int)")
    diagnosis = doctor(orders.spec, orders.connector)
    assert [f.path for f in diagnosis.findings] == [stage]
    assert diagnosis.next_action == "dpone backfill resume MANIFEST"
    prepare(orders.spec, orders.connector, intent="resume", run_id="run-2")
    assert status(orders.spec, orders.connector).stages == ()
