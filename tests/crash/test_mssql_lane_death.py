"""Native death of a lane between the receipt's COMMIT and the ledger's move, on SQL Server.

Verified on Babelfish 4.3. UNVERIFIED on SQL Server: how soon it frees the locks of a client that was killed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.embedded import Embedded
from dpone_dagster.campaign.ledger import ChunkState
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.prepare import prepare
from tests.engine.campaign import Seen, finish, lane
from tests.mssql_orders import MssqlOrders, make_mssql_orders

DOOMED = 2
READ = re.compile(r"/\* dpone:read_chunk \w+ chunk=(\d+) epoch=(\d+)")
LANE = """
import os, signal, sys, yaml
from dpone_dagster.mssql.ledger import MssqlLedger
from tests.engine.campaign import Seen, lane
from tests.mssql_orders import MssqlOrders

complete = MssqlLedger.complete

def die(self, claim, receipt, seconds):
    if claim.chunk_index == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
    return complete(self, claim, receipt, seconds)

MssqlLedger.complete = die
lane(MssqlOrders(sys.argv[1], sys.argv[2], yaml.safe_load(open(sys.argv[3]))), Seen(), run_id="run-1")
"""


@pytest.fixture
def orders(new_database: Callable[[str], str], new_mssql_database: Callable[[str], str]) -> MssqlOrders:
    made = make_mssql_orders(new_database("oltp"), new_mssql_database("dwh"), rows=200, chunks=4)
    (name,) = made.on_source("SELECT current_database()")[0]
    made.on_source(f"ALTER DATABASE {name} SET log_statement = 'all'")
    return made


def reads(log: Path) -> list[tuple[int, int]]:
    """(chunk, epoch) of every COPY that the source server saw."""
    return [(int(chunk), int(epoch)) for chunk, epoch in READ.findall(log.read_text(errors="replace"))]


def test_one_promotion_by_receipt_and_no_second_copy(orders: MssqlOrders, postgres: Embedded, tmp_path: Path) -> None:
    before = len(reads(postgres.log))
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    command = [
        sys.executable,
        "-c",
        LANE,
        orders.source_url,
        orders.target_url,
        str(orders.write(tmp_path)),
        str(DOOMED),
    ]
    died = subprocess.run(command, check=False, cwd=os.getcwd(), timeout=120)
    assert died.returncode == -signal.SIGKILL
    stuck = chunk(orders, DOOMED)
    assert (stuck.state, stuck.receipt_id) == (ChunkState.RUNNING, None)

    seen = Seen()
    lane(orders, seen, run_id="run-2")
    assert seen.replayed == [DOOMED]
    assert chunk(orders, DOOMED).state is ChunkState.COMMITTED
    copies = {index for index, _ in reads(postgres.log)[before:]}
    assert sorted(copies) == list(range(4))
    assert {epoch for index, epoch in reads(postgres.log)[before:] if index == DOOMED} == {1}
    finish(orders)
    assert orders.target_rows() == orders.source_rows()


def chunk(orders: MssqlOrders, index: int):  # type: ignore[no-untyped-def]
    target = orders.connector.target("test")
    (found,) = target.ledger.chunks(orders.spec.run_key, ChunkSelection(((index, index + 1),)))
    target.close()
    return found
