"""`make chaos`: random campaigns, hurt at random, judged by an oracle of full content. Every choice is the seed's.

N=50             so many campaigns
SEED=20261129    the first one's seed; each has the next number, so `make chaos N=1 SEED=<its seed>` replays one
TARGET=postgres  or mssql: DPONE_TEST_MSSQL_URL names the server
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from demo.mssql_server import MssqlServer
from tests.chaos.campaign import Campaign, Outcome
from tests.chaos.shape import shape_of
from tests.servers.mssql import open_server
from tests.servers.postgres import Restartable

REPORT = Path(".dpone/chaos/report.json")
LOGS = REPORT.parent / "logs"


def main() -> int:
    number, first = int(os.environ.get("N") or 50), int(os.environ.get("SEED") or time.time())
    kind = os.environ.get("TARGET") or "postgres"
    print(f"{number} campaigns into {kind}, SEED={first}", flush=True)
    outcomes: list[Outcome] = []
    with servers(kind) as (server, target, verified_on):
        for seed in range(first, first + number):
            outcomes.append(play(seed, server, target))
            print(f"{len(outcomes)}/{number} {outcomes[-1]}", flush=True)
    wrong = [outcome for outcome in outcomes if outcome.problems]
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "seed": first,
        "target": kind,
        "verified_on": verified_on,
        "campaigns": [outcome.as_dict() for outcome in outcomes],
        "wrong": [outcome.shape.seed for outcome in wrong],
    }
    REPORT.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    runs, seconds = sum(o.runs for o in outcomes), sum(o.seconds for o in outcomes)
    print(f"{len(outcomes) - len(wrong)} of {number} exact, {runs} runs, {seconds:.0f} s, on {verified_on}: {REPORT}")
    for outcome in wrong:
        print(f"replay: make chaos N=1 SEED={outcome.shape.seed} TARGET={kind}; logs: {LOGS / str(outcome.shape.seed)}")
    return 1 if wrong else 0


@contextmanager
def servers(kind: str) -> Iterator[tuple[Restartable, Restartable | MssqlServer, str]]:
    """A private PostgreSQL, the server of the targets, and what a result on them proves.

    Args:
        kind: `postgres` or `mssql`.
    """
    with tempfile.TemporaryDirectory(prefix="dpone-chaos-", ignore_cleanup_errors=True) as folder:
        server = Restartable(Path(folder) / "data", keep=False)
        mssql: MssqlServer | None = None
        try:
            with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
                (version,) = admin.execute("SHOW server_version").fetchone() or ("",)
            mssql = open_server() if kind == "mssql" else None
            yield server, mssql or server, mssql.verified_on if mssql else f"PostgreSQL {version}"
        finally:
            if mssql is not None:
                mssql.close()
            server.stop()


def play(seed: int, server: Restartable, target: Restartable | MssqlServer) -> Outcome:
    """One campaign in databases of its own; what a wrong one has printed is kept.

    Args:
        seed: Of the campaign.
        server: Where the source is.
        target: Where the target is.
    """
    names = f"oltp_{seed}", f"dwh_{seed}"
    urls = server.recreate(names[0]), target.recreate(names[1])
    with tempfile.TemporaryDirectory(prefix="dpone-chaos-", ignore_cleanup_errors=True) as folder:
        outcome = Campaign(shape_of(seed), server, urls, Path(folder)).play()
        if outcome.problems:
            _keep_logs(Path(folder), LOGS / str(seed))
    server.drop(names[0])
    target.drop(names[1])
    return outcome


def _keep_logs(folder: Path, kept: Path) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    for log in (*folder.glob("log"), *folder.glob("codes"), *folder.glob(".dpone/logs/*.log")):
        (kept / log.name).write_bytes(log.read_bytes())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as reason:
        sys.exit(f"not run: {reason}")
