"""The bare wire to SQL Server: ADBC → bulk copy → stage → INSERT … SELECT, no ledger, no receipts, no Dagster.

`python -m benchmarks.wire_mssql JOB` reads the job's JSON file and writes its times beside it.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

_job: dict[str, Any] = {}
_open: dict[str, Any] = {}


def _control(file: Path) -> None:
    """Once a process: read the job, and connect to the target."""
    import pyodbc

    pyodbc.pooling = False
    _job.update(json.loads(file.read_text()))
    _open["control"] = pyodbc.connect(_job["odbc"], autocommit=True)


def _connect(stage: str) -> None:
    """With the first chunk, as our lanes do: the other connections, and a stage of its own."""
    import mssql_py_core
    from adbc_driver_postgresql import dbapi

    _open.update(source=dbapi.connect(_job["source"]), bulk=mssql_py_core.PyCoreConnection(_job["bulk"]))
    _open["control"].execute(f"SELECT TOP 0 {_job['columns']} INTO {stage} FROM landing.loaded")


def _copy(condition: str) -> tuple[float, float]:
    began, columns, stage = time.time(), _job["columns"], f"landing.stage_{os.getpid()}"
    if "source" not in _open:
        _connect(stage)
    with _open["source"].cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(4 * 1024 * 1024)})
        cursor.execute(f"SELECT {columns} FROM {_job['table']} WHERE {condition}")
        batches = (_plain(batch) for batch in cursor.fetch_record_batch() if batch.num_rows)
        first = next(batches, None)
        if first is not None:
            rows = itertools.chain([first], batches)
            _open["bulk"].cursor().bulkcopy_arrow(stage, rows, timeout=0, table_lock=True, keep_nulls=True)
    _open["control"].execute(f"INSERT INTO landing.wire ({columns}) SELECT {columns} FROM {stage}")
    _open["control"].execute(f"TRUNCATE TABLE {stage}")
    return began, time.time()


def _plain(batch: Any) -> Any:
    """The driver sends a numeric as text, and the bulk client wants decimals."""
    import pyarrow as pa

    kinds = [pa.decimal128(*_job["decimals"][n]) if n in _job["decimals"] else None for n in batch.schema.names]
    columns = [c if k is None else c.storage.cast(k) for c, k in zip(batch.columns, kinds, strict=True)]
    return pa.record_batch(columns, names=batch.schema.names)


def main(file: Path) -> None:
    """Copy every range into a heap; then index it, timed by itself."""
    _control(file)
    _open["control"].execute(f"SELECT TOP 0 {_job['columns']} INTO landing.wire FROM landing.loaded")
    with multiprocessing.get_context("spawn").Pool(_job["lanes"], _control, (file,)) as pool:
        times = pool.map(_copy, _job["ranges"], chunksize=1)
    began = time.perf_counter()
    _open["control"].execute("CREATE UNIQUE INDEX wire_id ON landing.wire (id)")
    out = {"chunks": times, "index_seconds": time.perf_counter() - began}
    file.with_suffix(".out.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
