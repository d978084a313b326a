"""What the statements of lanes and watchers cost with a million chunks: `python -m benchmarks.state_scale [chunks]`.

Starts a private PostgreSQL, makes the campaign, and prints the median and the longest of 20 calls in milliseconds, as
the caller sees them, with no chunk committed, with half of them, and with all but 100.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from demo.embedded import Embedded
from dpone_dagster.campaign.ledger import Claim
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.vitals import Watched
from dpone_dagster.postgres.target import PostgresTarget
from tests.contract.conftest import RUN_KEY
from tests.contract.samples import TARGET, campaign, claim, plan, receipt, worker

_CALLS = 20
_IN_HAND = 100
_WRONG = ("failed", "lease_expired")
_COMMIT = """
    UPDATE system.__dpone__backfill_chunks SET state = 'committed', rows = 1000, receipt_id = 'r', seconds = 1,
        started_at = now(), finished_at = now(), worker_run_id = 'run-1', worker_lane = chunk_index %% 8
    WHERE chunk_index < %s AND state <> 'committed'
"""


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _milliseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1_000


def _measure(target: PostgresTarget, chunks: int, first: int) -> None:
    ledger, everything = target.ledger, ChunkSelection.all(chunks)
    numbers = iter(range(first, first + _CALLS))
    held: list[Claim] = []
    calls: dict[str, Callable[[], object]] = {
        "candidates": lambda: ledger.candidates(RUN_KEY, worker(1), everything, failed_only=False, limit=16),
        "claim, with its lock": lambda: held.append(claim(target, next(numbers))),
        "renew (heartbeat)": lambda: ledger.renew(held[-1]),
        "complete": lambda: ledger.complete(held[-1], receipt(held.pop().chunk_index), 1.0),
        "receipt": lambda: ledger.receipt(RUN_KEY, 7),
        "progress (status)": lambda: ledger.progress(RUN_KEY),
        "failed chunks (status)": lambda: ledger.chunks(
            RUN_KEY, everything, only=("failed", "lease_expired"), limit=20
        ),
        "slowest (card)": lambda: target.history.slowest(RUN_KEY, 5),
        "vitals (alerts)": lambda: ledger.vitals([Watched(TARGET, RUN_KEY)]),
    }
    for name, call in calls.items():
        took = [_milliseconds(call) for _ in range(_CALLS)]
        say(f"  {name:24} {statistics.median(took):8.1f} {max(took):8.1f}")
    for name, once in (
        ("receipts and chunks, once", lambda: ledger.count_chunks(RUN_KEY)),
        ("recount, once a run", lambda: ledger.recount(RUN_KEY)),
        ("report: groups, once", lambda: target.history.groups(RUN_KEY, chunks // 100)),
    ):
        say(f"  {name:24} {_milliseconds(once):8.1f}")


def main(chunks: int) -> None:
    """Make the campaign, and measure at three moments of it."""
    with tempfile.TemporaryDirectory(prefix="dpone-bench-") as folder:
        server = Embedded(Path(folder) / "data", keep=False)
        target = PostgresTarget(server.recreate("bench"), "bench", "system")
        target.ledger.provision()
        started = time.perf_counter()
        with target.transaction():
            target.ledger.create(campaign(chunks), plan(chunks))
        say(f"{chunks:,} chunks made in {time.perf_counter() - started:.1f} s; median and longest of {_CALLS} in ms")
        for committed in (0, chunks // 2, chunks - _IN_HAND):
            target.session.connection.execute(_COMMIT.encode(), (committed,))
            target.ledger.recount(RUN_KEY)
            say(f"{committed:,} committed")
            _measure(target, chunks, committed)
        target.close()
        server.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
