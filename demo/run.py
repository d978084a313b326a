"""`make demo` and `make demo-mssql`: one campaign, watched by a reader, then an increment. Exits 0 if all held."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from dagster import AssetKey, DagsterInstance

from demo.on_mssql import OnMssql
from demo.on_postgres import OnPostgres
from demo.orders import NEW_ROWS, OLD_ROWS, Changes, change_source, fill_source
from demo.place import ROOT, Place, start_server
from demo.reader import Observations, Reader, State
from demo.target import DemoTarget
from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import DponeError, Interrupted
from dpone_dagster.cli.ahead import start_steps
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.campaign_run import RunOutcome, run_campaign
from dpone_dagster.cli.dagster_run import JobEnd, JobRequest, run_job
from dpone_dagster.cli.looking import open_campaign
from dpone_dagster.connections import FILE_VARIABLE
from dpone_dagster.engine.sessions import existing_campaign, source_session, target_session

_TARGETS: Mapping[str, Callable[[], DemoTarget]] = {"postgres": OnPostgres, "mssql": OnMssql}
_OLD, _NEW = State(OLD_ROWS, 0), State(0, NEW_ROWS)


@dataclass(frozen=True)
class Proof:
    """One thing that had to hold."""

    name: str
    held: bool
    facts: str


@dataclass
class Demo:
    """What the demo has found out so far."""

    seconds: dict[str, float] = field(default_factory=dict)
    proofs: list[Proof] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Say what is being done, and how long it took."""
        print(f"▸ {name}", flush=True)
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 1)

    def prove(self, name: str, held: bool, facts: str) -> None:
        """Note and say whether something held."""
        self.proofs.append(Proof(name, held, facts))
        print(f"  {'✓' if held else '✗ FAILED:'} {name}: {facts}", flush=True)

    @property
    def held(self) -> bool:
        """Whether everything was proven."""
        return bool(self.proofs) and all(proof.held for proof in self.proofs)

    def as_dict(self) -> Mapping[str, object]:
        """The report."""
        proofs = [{"name": p.name, "held": p.held, "facts": p.facts} for p in self.proofs]
        total = round(sum(self.seconds.values()), 1)
        return {"held": self.held, "proofs": proofs, **self.facts, "seconds": {**self.seconds, "total": total}}


def main(kind: str) -> int:
    """Run it.

    Args:
        kind: `postgres` or `mssql`, the target's.

    Returns:
        The exit code; 2 if it was refused before anything was touched.
    """
    os.chdir(ROOT)
    try:
        target = _TARGETS[kind]()
        target.reach()
    except DponeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    demo = Demo()
    try:
        _run(demo, target)
    except DponeError as error:
        demo.prove("the demo ran to its end", held=False, facts=str(error))
        if isinstance(error, Interrupted):
            return error.exit_code
    except KeyboardInterrupt:
        return Interrupted.exit_code
    target.place.folder.mkdir(parents=True, exist_ok=True)
    target.place.report.write_text(json.dumps(demo.as_dict(), indent=2, ensure_ascii=False) + "\n")
    _say_goodbye(demo, target.place)
    return 0 if demo.held else 1


def _run(demo: Demo, target: DemoTarget) -> None:
    place = target.place
    with demo.stage("start a private PostgreSQL server"):
        server = start_server()
        source_url = server.recreate(place.source_database)
        place.write_connections({"postgres_oltp": source_url, **target.urls(server)})
        place.enter()
    source = f"{place.source_database}.public.orders"
    with demo.stage(f"fill {source} with {NEW_ROWS:,} rows, {target.title} with {OLD_ROWS:,} older ones"):
        fill_source(source_url)
        target.provision(server)
    _introduce(demo, target)
    reader = Reader(target.look())
    with demo.stage(f"dpone backfill run {place.manifest} --execute, while a reader polls the live table"):
        outcome = run_campaign(Asked(place.manifest), "run")
    _judge_campaign(demo, outcome)
    _judge_reader(demo, reader.stop())
    dataset = outcome.status.spec.dataset
    with demo.stage(f"change, insert and delete source rows, then run the job {dataset}_increment"):
        changes = change_source(source_url)
        job = f"{dataset}_increment"
        end = run_job(JobRequest(ROOT / place.manifest, job, "demo", start_steps(job)))
    _judge_increment(demo, end, changes, dataset)
    with demo.stage("compare source and target by an order-free digest over every column of every row"):
        source_digest, target_digest = _digests(place)
    demo.facts["digests"] = {"source": source_digest, "target": target_digest}
    demo.prove("source = target", source_digest == target_digest, f"{target_digest.partition(':')[0]} rows")


def _introduce(demo: Demo, target: DemoTarget) -> None:
    """Say what it runs against, and what that does not prove."""
    facts = target.facts()
    demo.facts["target"] = dict(facts)
    print(f"  target: {facts['version']} ({facts['server']})", flush=True)
    if facts["note"]:
        print(f"  {facts['note']}", flush=True)


def _judge_campaign(demo: Demo, outcome: RunOutcome) -> None:
    public = outcome.status.as_dict()
    demo.facts["backfill"] = public["backfill"]
    demo.facts["run_id"] = outcome.run_id
    receipt = outcome.status.publication
    published = outcome.success and receipt is not None and receipt.actual_rows == NEW_ROWS
    rate = f"{NEW_ROWS / outcome.seconds:,.0f} rows/s with everything around it"
    facts = f"{outcome.status.progress.committed} chunks, published in {outcome.seconds:.1f} s, {rate}"
    if outcome.failures:
        facts = "; ".join(f"{f.place}: {f.code}: {f.message}" for f in outcome.failures) + f" (log: {outcome.log})"
    demo.prove("loaded, validated, published, handed over", published, facts)


def _judge_reader(demo: Demo, seen: Observations) -> None:
    demo.facts["reader"] = seen.as_dict()
    states = " → ".join(f"{s.old_rows:,} old + {s.new_rows:,} new" for s in seen.states)
    waited = f"{seen.looks} looks, none waited longer than {seen.longest_look_seconds:.2f} s"
    facts = f"{states}; {waited}" + (f"; errors: {seen.errors}" if seen.errors else "")
    demo.prove(
        "the reader saw the old generation, then the new one", seen.states == [_OLD, _NEW] and not seen.errors, facts
    )


def _judge_increment(demo: Demo, end: JobEnd, changes: Changes, dataset: str) -> None:
    found = _increment_numbers(dataset)
    wanted = {"updated": changes.updated, "inserted": changes.inserted, "deleted": changes.deleted}
    demo.facts["increment"] = {"run_id": end.run_id, **found}
    facts = ", ".join(f"{number:,} {name}" for name, number in found.items())
    if end.failures:
        facts = "; ".join(f"{f.code}: {f.message}" for f in end.failures) + f" (log: {end.log})"
    demo.prove("the increment found the changes, deletes included", end.success and found == wanted, facts)


def _increment_numbers(dataset: str) -> dict[str, object]:
    """What the increment says of itself, as the UI shows it."""
    with DagsterInstance.get() as instance:
        event = instance.get_latest_materialization_event(AssetKey([dataset, "incremental"]))
    seen = event.asset_materialization if event else None
    return {name: seen.metadata[name].value for name in ("updated", "inserted", "deleted")} if seen else {}


def _digests(place: Place) -> tuple[str, str]:
    spec, connector = open_campaign(Asked(place.manifest))
    with source_session(connector, "demo") as source, target_session(connector, "demo") as target:
        contract = ColumnContract.from_dict(existing_campaign(spec, target).contract)
        return source.content_digest(spec.source, contract), target.tables.content_digest(spec.target, contract)


def _say_goodbye(demo: Demo, place: Place) -> None:
    print(f"\n{'all of it held' if demo.held else 'NOT all of it held'} ({sum(demo.seconds.values()):.0f} s)")
    print(f"report: {place.report.relative_to(ROOT)}\n\nnext:")
    dpone = f"{FILE_VARIABLE}={place.connections.relative_to(ROOT)} .venv/bin/dpone"
    print(f"  {dpone} backfill status {place.manifest}")
    print(f"  {dpone} backfill doctor {place.manifest}")
    print("  make ui      # the same campaign in Dagster")
    print("  make stop    # stops the demo's servers")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
