"""One table by dlt, by an interpreter of its own: `python dlt_load.py JOB`; the job says how."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main(file: Path) -> None:
    """Load one table, replacing what is there; write the times beside the job."""
    job = json.loads(file.read_text())
    os.environ.update(job["settings"])
    import dlt
    from dlt.sources.sql_database import sql_table

    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.postgres(job["target"]),
        dataset_name="dlt_landing",
        pipelines_dir=job["folder"],
    )
    table = sql_table(credentials=job["source"], schema=job["schema"], table=job["table"], **job["options"])
    began = time.time()
    marks = {}
    pipeline.extract(table, write_disposition="replace", table_name="loaded", loader_file_format=job["format"])
    marks["extract_seconds"] = time.time() - began
    pipeline.normalize()
    marks["normalize_seconds"] = time.time() - began - marks["extract_seconds"]
    pipeline.load().raise_on_failed_jobs()
    ended = time.time()
    out = {"chunks": [[began, ended]], **marks, "version": dlt.__version__}
    file.with_suffix(".out.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
