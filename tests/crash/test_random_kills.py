"""Ten random SIGKILLs of a whole run, lanes included, and one `dpone backfill resume` that finishes the job."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.embedded import Embedded
from tests.commands import Run, log_statements, reads
from tests.orders import Orders, make_orders
from tests.waiting import PATIENCE_SECONDS

KILLS = 10
CHUNKS = 1000
ROWS = 60_000
SEED = int(os.environ.get("DPONE_TEST_SEED", "20261129"))


@pytest.fixture
def big_orders(new_database: Callable[[str], str]) -> Orders:
    """Enough chunks to survive ten kills, and a source that logs every statement."""
    orders = make_orders(new_database("oltp"), new_database("dwh"), rows=ROWS, chunks=CHUNKS, lanes=2)
    orders.manifest["dagster"] = {"max_partitions": 40}
    log_statements(orders)
    return orders


def committed(orders: Orders) -> int:
    if not orders.on_target("SELECT to_regclass('system.__dpone__chunk_receipts') IS NOT NULL")[0][0]:
        return 0
    return int(orders.on_target("SELECT count(*) FROM system.__dpone__chunk_receipts")[0][0])


def phase(orders: Orders) -> str:
    return str(orders.on_target("SELECT phase FROM system.__dpone__backfill_campaigns")[0][0])


def wait_for(run: Run, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached() and run.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


def wait_for_a_random_moment(orders: Orders, run: Run, dice: random.Random, number: int) -> None:
    """While starting, among the chunks (most often), when all are loaded, while validating or publishing."""
    before = committed(orders)
    if number == KILLS - 1:
        wait_for(run, lambda: phase(orders) in ("sealed", "validated"))
        time.sleep(dice.uniform(0, 0.1))
    elif number == KILLS - 2:
        wait_for(run, lambda: committed(orders) == CHUNKS)
        time.sleep(dice.uniform(0, 0.1))
    elif dice.random() < 0.2:
        time.sleep(dice.uniform(0.2, 1.5))
    else:
        more = dice.randint(1, 60)
        wait_for(run, lambda: committed(orders) >= before + more)


@pytest.mark.slow
def test_ten_kills_and_a_resume_leave_exact_content(big_orders: Orders, postgres: Embedded, tmp_path: Path) -> None:
    orders = big_orders
    dice = random.Random(SEED)
    already_logged = len(reads(postgres.log))
    run = Run(orders, tmp_path, "run", "--execute")
    for number in range(KILLS):
        wait_for_a_random_moment(orders, run, dice, number)
        assert run.kill(), f"the campaign ended before kill {number + 1}: give it more chunks"
        old_or_new = orders.on_target("SELECT count(*) FROM landing.orders")[0][0]
        assert old_or_new in (3, ROWS)
        run = Run(orders, tmp_path, "resume")
    code = run.wait()
    assert code == 0, (tmp_path / "run.log").read_text()[-4000:]

    source, target = orders.digests()
    assert source == target
    receipts = dict(orders.on_target("SELECT chunk_index, epoch FROM system.__dpone__chunk_receipts"))
    assert len(receipts) == CHUNKS
    assert orders.on_target("SELECT count(*) FROM system.__dpone__publications")[0][0] == 1
    for _, chunk, epoch in reads(postgres.log)[already_logged:]:
        assert epoch <= receipts[chunk], f"chunk {chunk} was read again after its receipt"
    left = orders.on_target("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()")
    assert left == [(0,)]
