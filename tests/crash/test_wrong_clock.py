"""A worker whose clock is ten minutes off claims, is shown and takes over like any other: times are the server's.

Verified on Babelfish 4.3. UNVERIFIED on SQL Server.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dpone_dagster.campaign.ledger import ChunkRecord, ChunkState, Worker
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.prepare import prepare
from tests.engine.campaign import finish
from tests.mssql_orders import make_either_orders
from tests.orders import Orders
from tests.waiting import PATIENCE_SECONDS, within

CHUNKS, KEPT, IN_HAND = 3, 0, 2
TEN_MINUTES = 600
LANE = """
import datetime, sys, time

off = int(sys.argv[1])
true_time, true_ns, true_datetime = time.time, time.time_ns, datetime.datetime

class Wrong(true_datetime):
    @classmethod
    def now(cls, tz=None):
        return true_datetime.now(tz) + datetime.timedelta(seconds=off)

    @classmethod
    def utcnow(cls):
        return true_datetime.utcnow() + datetime.timedelta(seconds=off)

time.time, time.time_ns, datetime.datetime = lambda: true_time() + off, lambda: true_ns() + off * 10**9, Wrong

import yaml
from tests.engine.campaign import Seen, lane
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders

kind, source, target, manifest = sys.argv[2:]
orders = {"Orders": Orders, "MssqlOrders": MssqlOrders}[kind](source, target, yaml.safe_load(open(manifest)))
seen = Seen()
lane(orders, seen, run_id="wrong clock", number=1)
assert not seen.errors, seen.errors
"""


@pytest.fixture
def either(request: pytest.FixtureRequest) -> Orders:
    return make_either_orders(request, rows=60, chunks=CHUNKS, lanes=2)


@contextlib.contextmanager
def a_lane(orders: Orders, folder: Path, off: int) -> Iterator[subprocess.Popen[bytes]]:
    """Holds before it commits the chunk `IN_HAND`, until the file `hold` is gone."""
    (folder / "hold").touch()
    faults = {
        "DPONE_ALLOW_FAULTS": "1",
        "DPONE_FAULT": f"before_chunk_commit:{IN_HAND}=hold:{folder / 'hold'}",
        "DPONE_FAULT_MARKS": str(folder),
    }
    command = [sys.executable, "-c", LANE, str(off), type(orders).__name__, orders.source_url, orders.target_url]
    process = subprocess.Popen([*command, str(orders.write(folder))], env={**os.environ, **faults})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("either", "off"),
    [("postgres", TEN_MINUTES), ("postgres", -TEN_MINUTES), ("mssql", TEN_MINUTES)],
    indirect=["either"],
)
def test_locks_decide_and_leases_are_in_the_servers_time(either: Orders, tmp_path: Path, off: int) -> None:
    spec = either.spec
    prepare(spec, either.connector, intent="run", run_id="run-1")
    with contextlib.closing(either.connector.target("test")) as looking, contextlib.ExitStack() as session:
        holder = session.enter_context(contextlib.closing(either.connector.target("lane 0 of run-1")))

        def chunks() -> list[ChunkRecord]:
            return looking.ledger.chunks(spec.run_key, ChunkSelection.all(CHUNKS))

        assert holder.fence.lock_campaign(spec.run_key, "shared", 0)
        assert holder.fence.try_lock_chunk(spec.run_key, KEPT)
        kept = holder.ledger.claim(spec.run_key, chunks()[KEPT], Worker("run-1", 0, "true clock", 1))
        assert kept is not None
        with a_lane(either, tmp_path, off) as lane:
            assert within(PATIENCE_SECONDS, (tmp_path / f"before_chunk_commit:{IN_HAND}").exists)
            mine, its = chunks()[KEPT], chunks()[IN_HAND]
            assert its.effective_state is ChunkState.RUNNING
            assert mine.lease_expires_at is not None
            assert its.lease_expires_at is not None
            assert abs(its.lease_expires_at - mine.lease_expires_at) < timedelta(seconds=TEN_MINUTES / 2)

            (tmp_path / "hold").unlink()
            others = {ChunkState.COMMITTED}
            assert within(PATIENCE_SECONDS, lambda: {c.state for c in chunks() if c.index != KEPT} == others)
            assert (chunks()[KEPT].state, chunks()[KEPT].epoch) == (ChunkState.RUNNING, kept.epoch)
            assert holder.ledger.renew(kept)
            valid_until = chunks()[KEPT].lease_expires_at
            session.close()  # the holder dies; its lease does not
            assert lane.wait(PATIENCE_SECONDS) == 0
        taken_over = chunks()[KEPT]
        assert (taken_over.state, taken_over.epoch) == (ChunkState.COMMITTED, kept.epoch + 1)
        assert taken_over.started_at is not None
        assert valid_until is not None
        assert taken_over.started_at < valid_until
    finish(either)
    assert either.target_rows() == either.source_rows()
