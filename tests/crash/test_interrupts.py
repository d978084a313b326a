"""A lane, or a later step, that is told to stop at the worst moments: no chunk, no lock and no session stays with it.

Its process stays alive, as a step of Dagster does that still has events to write, so that nothing is owed to its death.
Verified on Babelfish 4.3. UNVERIFIED on SQL Server: how soon an attention ends a statement there.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from dpone_dagster.campaign.ledger import ChunkState
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.mssql.session import Session
from tests.engine.campaign import Seen, finish, lane
from tests.mssql_orders import MssqlOrders, make_mssql_orders
from tests.orders import Orders, make_orders
from tests.waiting import PATIENCE_SECONDS, promised, within

WITHIN_SECONDS = 15
CHUNKS = 4
STEP = """
import os, signal, sys, yaml
from dpone_dagster.campaign.errors import Interrupted
from dpone_dagster.engine.validate import validate
from tests.crash import moments
from tests.engine.campaign import Seen, lane
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders

class Told(BaseException):
    pass

def stop(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Told

kind = {"Orders": Orders, "MssqlOrders": MssqlOrders}[sys.argv[1]]
orders = kind(sys.argv[2], sys.argv[3], yaml.safe_load(open(sys.argv[4])))
signal.signal(signal.SIGTERM, stop)
getattr(moments, sys.argv[5])()
try:
    if sys.argv[6] == "lane":
        lane(orders, Seen(), run_id="told")
    else:
        validate(orders.spec, orders.connector, "told")
except (Told, Interrupted):  # a driver may have swallowed the first
    print("told", flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["postgres", "mssql"])
def orders(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Orders:
    source = new_database("oltp")
    if request.param == "postgres":
        made = make_orders(source, new_database("dwh"), rows=200, chunks=CHUNKS)
    else:
        made = make_mssql_orders(source, request.getfixturevalue("new_mssql_database")("dwh"), rows=200, chunks=CHUNKS)
    prepare(made.spec, made.connector, intent="run", run_id="run-1")
    return made


@contextlib.contextmanager
def a_step(orders: Orders, folder: Path, moment: str, step: str = "lane") -> Iterator[subprocess.Popen[str]]:
    arguments = [type(orders).__name__, orders.source_url, orders.target_url, str(orders.write(folder)), moment, step]
    process = subprocess.Popen(
        [sys.executable, "-c", STEP, *arguments],
        cwd=os.getcwd(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE_SECONDS)
    assert ready, "the lane says nothing"
    return process.stdout.readline().strip()


def state_of_the_chunks(orders: Orders) -> dict[ChunkState, int]:
    with contextlib.closing(orders.connector.target("look")) as target:
        chunks = target.ledger.chunks(orders.spec.run_key, ChunkSelection.all(CHUNKS))
    return {state: sum(c.state is state for c in chunks) for state in {c.state for c in chunks}}


def sessions(orders: Orders) -> int:
    """Of lanes and of validations."""
    mine = "({0} LIKE 'dpone orders l%' OR {0} LIKE 'dpone orders v%')"
    of_postgres = f"SELECT count(*) FROM pg_stat_activity WHERE {mine.format('application_name')} AND datname = "
    found = orders.on_source(of_postgres + "current_database()")
    if isinstance(orders, MssqlOrders):
        of_mssql = f"SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE {mine.format('program_name')}"
        found += orders.on_target(of_mssql)
    else:
        found += orders.on_target(of_postgres + "current_database()")
    return sum(count for (count,) in found)


def prove_nothing_is_left(orders: Orders) -> None:
    """No session, no lock, no running chunk, while the process that was told to stop is still there."""
    assert within(promised(WITHIN_SECONDS), lambda: sessions(orders) == 0)
    with contextlib.closing(orders.connector.target("look")) as target:
        assert target.fence.holders(orders.spec.run_key) == []
        assert target.fence.lock_campaign(orders.spec.run_key, "exclusive", 0)
    assert state_of_the_chunks(orders).keys() <= {ChunkState.PENDING, ChunkState.COMMITTED}


def prove_that_another_lane_finishes(orders: Orders) -> None:
    lane(orders, Seen(), run_id="next")
    finish(orders)
    assert orders.target_rows() == orders.source_rows()


@pytest.mark.parametrize("moment", ["after_the_claim", "while_a_transaction_begins", "while_the_chunk_commits"])
def test_the_chunk_is_pending_again_or_committed(orders: Orders, tmp_path: Path, moment: str) -> None:
    with a_step(orders, tmp_path, moment) as process:
        assert said(process) == "told"
        prove_nothing_is_left(orders)
    prove_that_another_lane_finishes(orders)


@contextlib.contextmanager
def held(orders: Orders, of_postgres: str, of_mssql: str) -> Iterator[None]:
    """Keep what the statement locks until the end of the block."""
    if isinstance(orders, MssqlOrders):
        with contextlib.closing(Session(orders.target_url, "blocker")) as session:
            session.execute(f"BEGIN TRANSACTION; {of_mssql}")
            yield
    else:
        with psycopg.connect(orders.target_url) as connection:
            connection.execute(of_postgres.encode())
            yield


def test_a_claim_whose_answer_is_never_seen_is_given_back(orders: Orders, tmp_path: Path) -> None:
    same = "UPDATE system.__dpone__backfill_chunks SET tries = tries"
    with a_step(orders, tmp_path, "announce_the_claim") as process, contextlib.ExitStack() as blocker:
        blocker.enter_context(held(orders, same, same))
        assert said(process) == "here"
        tell(orders, process, blocker)
        prove_nothing_is_left(orders)
    prove_that_another_lane_finishes(orders)


def test_a_write_that_waits_for_somebody_else_is_cut(orders: Orders, tmp_path: Path) -> None:
    shadow = f'landing."{orders.spec.shadow.name}"'
    locked = f"LOCK TABLE {shadow} IN ACCESS EXCLUSIVE MODE", f"ALTER TABLE {shadow} ADD later int"
    with a_step(orders, tmp_path, "announce_the_write") as process, contextlib.ExitStack() as blocker:
        assert said(process) == "here"
        blocker.enter_context(held(orders, *locked))
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        tell(orders, process, blocker)
        prove_nothing_is_left(orders)
    prove_that_another_lane_finishes(orders)


def test_a_validation_that_waits_for_somebody_else_is_cut(orders: Orders, tmp_path: Path) -> None:
    lane(orders, Seen())
    shadow = f'landing."{orders.spec.shadow.name}"'
    locked = f"LOCK TABLE {shadow} IN ACCESS EXCLUSIVE MODE", f"ALTER TABLE {shadow} ADD later int"
    with a_step(orders, tmp_path, "announce_the_count", "validate") as process:
        with held(orders, *locked):
            assert said(process) == "here"
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            assert said(process) == "told"
        prove_nothing_is_left(orders)
    (loaded,) = orders.on_target("SELECT status FROM system.__dpone__loads WHERE load_id = 'told'")
    assert loaded[0] == "failed" or isinstance(orders, MssqlOrders), "the stand-in's connection is dead by then"
    prove_that_another_lane_finishes(orders)


def tell(orders: Orders, process: subprocess.Popen[str], blocker: contextlib.ExitStack) -> None:
    time.sleep(0.5)  # most often the statement is on the server by now; the outcome is the same if it is not
    process.send_signal(signal.SIGTERM)
    if isinstance(orders, MssqlOrders):
        blocker.close()  # a waiting statement of the stand-in does not see that its client is gone
    assert said(process) == "told"
