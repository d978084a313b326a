"""The steps of a campaign in one process of its own, as the Dagster shell does them: what the matrix kills and stops.

    python -m tests.crash.steps KIND SOURCE TARGET MANIFEST INTENT RUN_ID

INTENT is `run` or `resume` for a whole campaign; `increment`, `rollback` and `drop` are the steps that may come after.
Says `done`, or the error's code; exits 0 or 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from dpone_dagster.campaign.errors import ChunkFailed, DponeError
from dpone_dagster.campaign.receipts import Approval
from dpone_dagster.engine.complete import complete
from dpone_dagster.engine.dropbackup import drop_backup
from dpone_dagster.engine.increment import run_increment
from dpone_dagster.engine.prepare import Intent
from dpone_dagster.engine.rollback import rollback
from tests.engine.campaign import finish, load
from tests.mssql_orders import MssqlOrders
from tests.orders import Orders
from tests.servers.mssql_targets import MssqlTargets


def campaign(intent: Intent) -> Callable[[Orders, str], object]:
    def run(orders: Orders, run_id: str) -> None:
        try:
            seen = load(orders, intent=intent, run_id=run_id)
        except ChunkFailed as failed:
            raise DponeError(str(failed.findings)) from failed
        assert not seen.errors, seen.errors
        if orders.spec.direct:
            complete(orders.spec, orders.connector, run_id)
        else:
            finish(orders, run_id=run_id)

    return run


STEPS: Mapping[str, Callable[[Orders, str], object]] = {
    "run": campaign("run"),
    "resume": campaign("resume"),
    "increment": lambda orders, run_id: run_increment(orders.spec, orders.connector, run_id),
    "rollback": lambda orders, _: rollback(orders.spec, orders.connector, Approval("ada", "the matrix")),
    "drop": lambda orders, _: drop_backup(orders.spec, orders.connector, "ada"),
}


def main() -> None:
    kind, source, target, manifest, intent, run_id = sys.argv[1:]
    content = yaml.safe_load(Path(manifest).read_text())
    if kind == "MssqlOrders":
        # A new session costs the stand-in up to two seconds of first statements; a step that closes one gives it back.
        orders: Orders = MssqlOrders(source, target, content, MssqlTargets(target, "system"))
    else:
        orders = Orders(source, target, content)
    try:
        STEPS[intent](orders, run_id)
    except DponeError as error:
        print(error.code, error.message, flush=True)
        sys.exit(1)
    print("done", flush=True)


if __name__ == "__main__":
    main()
