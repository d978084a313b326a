"""Publication, handoff and increment, each killed on both sides of its COMMIT, go on exactly where they died.

With a SQL Server target: Verified on Babelfish 4.3.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpone_dagster.engine.increment import increment_gate
from dpone_dagster.engine.validate import validate
from tests.engine.campaign import load
from tests.mssql_orders import make_either_orders
from tests.orders import Orders

STEP = """
import os, sys, yaml
from pathlib import Path
from dpone_dagster.campaign.manifest import parse_manifest
from dpone_dagster.connections import Connections
from dpone_dagster.engine.handoff import commit_handoff
from dpone_dagster.engine.increment import run_increment
from dpone_dagster.engine.publish import publish
from dpone_dagster.wiring import open_connector

spec = parse_manifest(yaml.safe_load(Path(sys.argv[1]).read_text())).to_spec()
step = {"publish": publish, "handoff": commit_handoff, "increment": run_increment}[sys.argv[2]]
step(spec, open_connector(spec, Connections.from_environment(os.environ)), "run-9")
"""


@pytest.fixture(params=["postgres", "mssql"])
def either(request: pytest.FixtureRequest) -> Orders:
    """200 orders in 4 chunks, for one target and then the other."""
    return make_either_orders(request, rows=200, chunks=4)


def run(orders: Orders, folder: Path, step: str, fault: str = "") -> int:
    faults = {"DPONE_ALLOW_FAULTS": "1", "DPONE_FAULT": fault} if fault else {}
    command = [sys.executable, "-c", STEP, str(orders.write(folder)), step]
    return subprocess.run(command, env={**os.environ, **orders.environment, **faults}, check=False).returncode


def heads(orders: Orders) -> list[tuple[Any, ...]]:
    return orders.on_target("SELECT receipt_id, head FROM system.__dpone__publications")


def checkpoints(orders: Orders) -> list[tuple[Any, ...]]:
    return orders.on_target("SELECT anchor_xid, revision FROM system.__dpone__xmin_checkpoints")


def test_each_step_goes_on_where_it_died(either: Orders, tmp_path: Path) -> None:
    orders = either
    load(orders)
    assert validate(orders.spec, orders.connector, "run-1").passed
    old = orders.target_rows()

    def die(step: str, point: str) -> None:
        assert run(orders, tmp_path, step, point) == -signal.SIGKILL

    die("publish", "before_publication_commit")
    assert (orders.target_rows(), heads(orders)) == (old, [])
    die("publish", "after_publication_commit")
    ((receipt, head),) = heads(orders)
    assert (orders.target_rows(), head) == (orders.source_rows(), "pending")

    die("handoff", "before_checkpoint")
    assert (heads(orders), checkpoints(orders)) == ([(receipt, "pending")], [])
    assert "waits for its handoff" in str(increment_gate(orders.spec, orders.connector))
    die("handoff", "after_checkpoint")
    ((anchor, revision),) = checkpoints(orders)
    assert (heads(orders), revision) == ([(receipt, "closed")], 1)
    assert [(anchor,)] == orders.on_target("SELECT anchor_xid FROM system.__dpone__backfill_campaigns")
    for step in ("publish", "handoff"):
        assert run(orders, tmp_path, step) == 0
    assert (heads(orders), checkpoints(orders)) == ([(receipt, "closed")], [(anchor, 1)])

    loaded = orders.target_rows()
    orders.on_source("UPDATE public.orders SET note = 'changed' WHERE paid")
    orders.on_source("DELETE FROM public.orders WHERE id IN (SELECT id FROM public.orders ORDER BY id LIMIT 5)")
    die("increment", "before_increment_commit")
    assert (orders.target_rows(), checkpoints(orders)) == (loaded, [(anchor, 1)])
    die("increment", "after_increment_commit")
    assert (orders.target_rows(), checkpoints(orders)[0][1]) == (orders.source_rows(), 2)
    assert run(orders, tmp_path, "increment") == 0
    assert (orders.target_rows(), checkpoints(orders)[0][1]) == (orders.source_rows(), 3)
