"""A lane whose connections break around a chunk's COMMIT finds out by the receipt and goes on by itself.

With a SQL Server target: Verified on Babelfish 4.3. UNVERIFIED on SQL Server: how soon it frees a lost session's locks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.embedded import Embedded
from dpone_dagster.campaign.ledger import ChunkState
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.prepare import prepare
from tests.commands import log_statements, reads
from tests.crash.conftest import MakeOrders
from tests.engine.campaign import finish

CHUNKS, LOST = 3, 1
LANE = """
import sys, yaml
from tests.engine.campaign import Seen, lane
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders

kind, source, target, manifest = sys.argv[1:]
orders = {"Orders": Orders, "MssqlOrders": MssqlOrders}[kind](source, target, yaml.safe_load(open(manifest)))
seen = Seen()
lane(orders, seen)
assert not seen.errors, seen.errors
"""


@pytest.mark.parametrize(("point", "copies"), [("before_chunk_commit", [1, 2]), ("after_chunk_commit", [1])])
def test_a_chunk_is_read_again_only_if_its_receipt_is_not_there(
    make_any_orders: MakeOrders, postgres: Embedded, tmp_path: Path, point: str, copies: list[int]
) -> None:
    orders = make_any_orders(rows=300, chunks=CHUNKS, lanes=1)
    log_statements(orders)
    already = len(reads(postgres.log))
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    faults = {"DPONE_ALLOW_FAULTS": "1", "DPONE_FAULT": f"{point}:{LOST}=drop"}
    command = [sys.executable, "-c", LANE, type(orders).__name__, orders.source_url, orders.target_url]
    subprocess.run([*command, str(orders.write(tmp_path))], env={**os.environ, **faults}, check=True, timeout=600)

    target = orders.connector.target("test")
    chunks = target.ledger.chunks(orders.spec.run_key, ChunkSelection.all(CHUNKS))
    receipt = target.ledger.receipt(orders.spec.run_key, LOST)
    target.close()
    assert {chunk.state for chunk in chunks} == {ChunkState.COMMITTED}
    assert [chunk.epoch for chunk in chunks] == [1, 2, 1]
    assert receipt is not None
    assert receipt.epoch == copies[-1]
    assert [read.epoch for read in reads(postgres.log)[already:] if read.chunk == LOST] == copies
    finish(orders)
    assert orders.target_rows() == orders.source_rows()
