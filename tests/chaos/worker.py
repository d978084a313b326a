"""A run without Dagster, as processes that can be killed: `python -m tests.chaos.worker run|resume|increment MANIFEST`.

Its lanes are its children, as a Dagster run's are. Every error leaves its code in the file `codes` beside the manifest.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path

from dpone_dagster.assets.watchdog import end_with_run, run_is_alive
from dpone_dagster.campaign.errors import DponeError, Interrupted, ValidationBlocked
from dpone_dagster.campaign.ledger import Worker
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.looking import open_campaign
from dpone_dagster.engine.handoff import commit_handoff
from dpone_dagster.engine.increment import run_increment
from dpone_dagster.engine.load import collect, load_lane
from dpone_dagster.engine.prepare import Intent, prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.validate import validate
from dpone_dagster.ports.target import Connector
from tests.engine.campaign import Seen

UNEXPECTED = "UNEXPECTED"


def told(work: Callable[[], None], codes: Path) -> int:
    """Do it; returns the exit code, and leaves the code of what went wrong."""
    try:
        work()
    except KeyboardInterrupt:
        return Interrupted.exit_code
    except DponeError as error:
        print(error, flush=True)
        _note(codes, error.code)
        return error.exit_code
    except Exception:  # noqa: BLE001  # whatever else comes is what the campaigns are looking for
        traceback.print_exc()
        _note(codes, UNEXPECTED)
        return 1
    return 0


def _note(codes: Path, code: str) -> None:
    with codes.open("a") as file:
        file.write(f"{code}\n")


def lane(spec: CampaignSpec, connector: Connector, run_id: str, number: int, codes: Path) -> None:
    end_with_run()
    worker = Worker(run_id, number, socket.gethostname(), os.getpid())
    seen = Seen()
    everything = ChunkSelection.all(spec.plan.count)
    code = told(lambda: _work(spec, connector, worker, everything, seen), codes)
    for error in seen.errors.values():
        print(error, flush=True)
        _note(codes, error.code)
    sys.exit(code)


def _work(spec: CampaignSpec, connector: Connector, worker: Worker, chosen: ChunkSelection, seen: Seen) -> None:
    load_lane(spec, connector, worker, chosen, seen, run_is_alive)


def campaign(spec: CampaignSpec, connector: Connector, intent: Intent, codes: Path) -> None:
    run_id = uuid.uuid4().hex
    prepare(spec, connector, intent=intent, run_id=run_id)
    fork = multiprocessing.get_context("fork")  # no connection is open and no other thread is alive
    lanes = [fork.Process(target=lane, args=(spec, connector, run_id, n, codes)) for n in range(spec.lanes)]
    for process in lanes:
        process.start()
    try:
        for process in lanes:
            process.join()
    except KeyboardInterrupt:
        for process in lanes:
            process.terminate()
        for process in lanes:
            process.join()
        raise
    collect(spec, connector, ChunkSelection.all(spec.plan.count))
    evidence = validate(spec, connector, run_id)
    if not evidence.passed:
        raise ValidationBlocked(str(evidence))
    publish(spec, connector, run_id)
    commit_handoff(spec, connector, run_id)


def main() -> int:
    command, manifest = sys.argv[1], Path(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    codes = manifest.with_name("codes")
    spec, connector = open_campaign(Asked(manifest))
    if command == "increment":
        return told(lambda: _increment(spec, connector), codes)
    intent: Intent = "resume" if command == "resume" else "run"
    return told(lambda: campaign(spec, connector, intent, codes), codes)


def _increment(spec: CampaignSpec, connector: Connector) -> None:
    run_increment(spec, connector, uuid.uuid4().hex)


if __name__ == "__main__":
    sys.exit(main())
