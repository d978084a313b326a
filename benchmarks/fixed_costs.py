"""What is paid whatever the rows: `python -m benchmarks.fixed_costs [chunks]`.

Starts a private PostgreSQL, runs a campaign of empty chunks with one lane by `dpone backfill run`, and prints

* seconds from the command's start to each mark of the run, up to its end;
* what a lane says to the two databases for one chunk: every statement that came with at least every tenth chunk, how
  often, and the server's own median and mean milliseconds, from its log;
* the milliseconds that commands spend on imports, by package.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import yaml
from dagster import DagsterInstance

from benchmarks.campaigns import DPONE
from demo.embedded import Embedded
from demo.orders import COLUMNS
from demo.place import ROOT

_CHUNKS = 300
_EXAMPLE = ROOT / "examples" / "orders.yaml"
_LOGGED = re.compile(
    r"\S+ \S+ \S+ \[(?P<pid>\d+)\] (?P<name>[^|]*)\|(?P<database>\S+) +"
    r"LOG:  duration: (?P<ms>[\d.]+) ms  (?P<step>parse|bind|execute|statement)\b[^:]*: (?P<text>.*)",
    re.DOTALL,
)
_NAME = re.compile(r"dpone:(\w+)")
_IMPORT = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")
_MARKS = (
    "PIPELINE_START", "STEP_WORKER_STARTING", "STEP_WORKER_STARTED", "STEP_START", "STEP_SUCCESS", "PIPELINE_SUCCESS",
)  # fmt: skip
_OFTEN = 0.1
_SHOWN_LETTERS = 40
_SHOWN_PACKAGES = 6


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Bench:
    """A private server with an empty source, a target, and the manifest of a campaign between them."""

    def __init__(self, folder: Path, chunks: int) -> None:
        self.server = Embedded(folder / "postgres", keep=False)
        self.manifest = folder / "orders.yaml"
        self._chunks = chunks
        source, target = self.server.recreate("oltp"), self.server.recreate("dwh")
        with psycopg.connect(self.server.url("postgres"), autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET log_line_prefix = '%m [%p] %a|%d '")
            admin.execute("SELECT pg_reload_conf()")
        with psycopg.connect(source, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE public.orders ({COLUMNS}, PRIMARY KEY (id))")
        with psycopg.connect(target, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA landing")
            connection.execute(f"CREATE TABLE landing.orders ({COLUMNS}, PRIMARY KEY (id))")
        for name in ("oltp", "dwh"):
            with psycopg.connect(self.server.url("postgres"), autocommit=True) as admin:
                admin.execute(f"ALTER DATABASE {name} SET log_min_duration_statement = 0")
        self._write_manifest()
        self.environment = {
            **os.environ,
            "DPONE_CONNECTION_POSTGRES_OLTP": source,
            "DPONE_CONNECTION_POSTGRES_DWH": target,
            "DAGSTER_HOME": str(folder / "dagster"),
        }

    def _write_manifest(self) -> None:
        data = yaml.safe_load(_EXAMPLE.read_text())
        backfill = data["sink"]["strategy"]["backfill"]
        backfill["chunk"]["buckets"], backfill["parallel_workers"] = self._chunks, 1
        self.manifest.write_text(yaml.safe_dump(data))

    def run(self) -> float:
        """The whole campaign; returns when its command began, in seconds since 1970."""
        began = time.time()
        command = [DPONE, "backfill", "run", str(self.manifest), "--execute"]
        subprocess.run(command, env=self.environment, cwd=self.manifest.parent, check=True, stdout=subprocess.DEVNULL)
        return began

    def marks(self, began: float) -> Iterator[str]:
        """Seconds since the command's start, and what Dagster recorded then."""
        with DagsterInstance.from_config(self.environment["DAGSTER_HOME"]) as instance:
            (record,) = instance.get_run_records(limit=1)
            logs = instance.all_logs(record.dagster_run.run_id)
        yield f"{record.create_timestamp.timestamp() - began:8.2f} s  run created"
        for entry in logs:
            if (event := entry.dagster_event) is not None and event.event_type_value in _MARKS:
                yield f"{entry.timestamp - began:8.2f} s  {event.event_type_value} {event.step_key or ''}"

    def statements(self) -> Iterator[str]:
        """What the lane said, as the servers have timed it."""
        times: dict[tuple[str, str], list[float]] = defaultdict(list)
        for database, said, milliseconds in _spoken((self.server.data_dir / "log").read_text(errors="replace")):
            times[database, said].append(milliseconds)
        for (database, said), each in sorted(times.items(), key=lambda item: -sum(item[1])):
            if len(each) >= _OFTEN * self._chunks:
                often, median, mean = len(each) / self._chunks, statistics.median(each), statistics.mean(each)
                yield f"{database:5} {said:{_SHOWN_LETTERS}} {often:5.2f} a chunk {median:8.3f} / {mean:.3f} ms"


def _spoken(log: str) -> Iterator[tuple[str, str, float]]:
    """Database, statement and milliseconds of everything that lanes said; its parse and bind are logged before it."""
    begun: dict[str, float] = defaultdict(float)
    for line in re.split(r"\n(?=\d{4}-)", log):
        logged = _LOGGED.match(line)
        if logged and " lane " in logged["name"]:
            begun[logged["pid"]] += float(logged["ms"])
            if logged["step"] in ("execute", "statement"):
                name = _NAME.search(logged["text"])
                said = name[1] if name else logged["text"].split("\n")[0][:_SHOWN_LETTERS]
                yield logged["database"], said, begun.pop(logged["pid"])


def imports(words: list[str], environment: Mapping[str, str]) -> str:
    """Milliseconds that one command spends on imports, and by which packages."""
    command = [sys.executable, "-X", "importtime", "-m", "dpone_dagster.cli", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    by_package: dict[str, float] = defaultdict(float)
    for microseconds, module in _IMPORT.findall(done.stderr):
        package = module.partition(".")[0]
        by_package["the standard library" if package in sys.stdlib_module_names else package] += int(microseconds) / 1e3
    first = sorted(by_package.items(), key=lambda item: -item[1])[:_SHOWN_PACKAGES]
    return f"{sum(by_package.values()):5.0f} ms: " + ", ".join(f"{name} {each:.0f}" for name, each in first)


def main(chunks: int) -> None:
    """Run it and print."""
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), chunks)
        try:
            began = bench.run()
            say(f"run of {chunks} empty chunks, since the command's start")
            for line in (*bench.marks(began), "", "a lane's statements", *bench.statements(), "", "imports"):
                say(line)
            manifest = str(bench.manifest)
            for words in (["--help"], ["backfill", "plan", manifest], ["backfill", "status", manifest]):
                say(f"{' '.join(words[:2]):16} {imports(words, bench.environment)}")
        finally:
            bench.server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fixed_costs", description="What is paid whatever the rows."
    )
    parser.add_argument("chunks", type=int, nargs="?", default=_CHUNKS, help=f"of the campaign; {_CHUNKS} if left out")
    main(parser.parse_args().chunks)
