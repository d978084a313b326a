"""The contenders that are not ours: the bare wire, and dlt in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.campaigns import of_chunks, of_usage
from benchmarks.cases import DLT, Case
from benchmarks.processes import run_measured
from benchmarks.tables import LIVE, SOURCE_SCHEMA, columns_of, decimals_of, source_name
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.plan import Chunk
from dpone_dagster.mssql.address import Address, connection_string
from dpone_dagster.mssql.driver import driver_name
from dpone_dagster.settings import load_spec

WIRE_TABLE, DLT_TABLE = TableRef(LIVE.schema, "wire"), TableRef("dlt_landing", "loaded")
# The first is the contender, the others are what its fastest way needs.
DLT_REQUIREMENTS = (
    "dlt[postgres,parquet]==1.31.0",
    "sqlalchemy==2.0.58",
    "adbc-driver-postgresql==1.13.0",
    "pyarrow==26.0.1",
    "connectorx==0.4.6",
)
# Workers as there are lanes elsewhere; a file of Parquet a piece, so that several are loaded at once.
_DLT_ROWS_A_FILE = 250_000
_DLT_QUIET = {"RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "WARNING"}
_PACKET_BYTES = 32_767


class Others:
    """Runs them on one pair of databases.

    Args:
        folder: For jobs, logs and dlt's environment.
        source: URL.
        target: URL.
    """

    def __init__(self, folder: Path, source: str, target: str) -> None:
        self._folder = folder
        self._source = source
        self._target = target

    def wire(self, case: Case, manifest: Path) -> dict[str, float]:
        """The bare wire; its index is built afterwards and timed by itself.

        Args:
            case: Its target is there and empty.
            manifest: Of our campaign, whose ranges and columns are taken.
        """
        plan = load_spec(manifest).plan
        job: dict[str, Any] = {
            "source": self._source,
            "target": self._target,
            "table": f"{SOURCE_SCHEMA}.{source_name(case)}",
            "columns": ", ".join(column.name for column in columns_of(case)),
            "ranges": [condition(plan.chunk(index)) for index in range(plan.count)],
            "lanes": case.lanes,
        }
        module = "benchmarks.wire_postgres"
        if case.route == "mssql":
            module, job = "benchmarks.wire_mssql", {**job, **_mssql(self._target), "decimals": decimals_of(case)}
        measures, out = self._run([sys.executable, "-m", module], job)
        index = out["index_seconds"]
        with_index = measures["seconds"]
        measures |= {"seconds": with_index - index, "index_seconds": index, "with_index_seconds": with_index}
        if "cpu_seconds" in out:  # a psql lives too short to be looked at
            measures["client_cpu_seconds"] = measures["lanes_cpu_seconds"] = out["cpu_seconds"]
        return measures

    def dlt(self, case: Case, contender: str) -> dict[str, float]:
        """One table by dlt.

        Args:
            case: Its target database is there.
            contender: `dlt`, its fastest way, or `dlt-default`, as it is without any setting.
        """
        work = self._folder / "dlt-work"
        shutil.rmtree(work, ignore_errors=True)
        job = {
            "source": _with_host(self._source),
            "target": _with_host(self._target),
            "schema": SOURCE_SCHEMA,
            "table": source_name(case),
            "folder": str(work),
            **(_dlt_fastest(case) if contender == DLT else {"options": {}, "format": None, "settings": _DLT_QUIET}),
        }
        script = Path(__file__).with_name("dlt_load.py")
        measures, out = self._run([str(_dlt_python(self._folder)), str(script)], job)
        marks = {name: out[name] for name in ("extract_seconds", "normalize_seconds")}
        return {**measures, **marks}

    def _run(self, command: list[str], job: Mapping[str, object]) -> tuple[dict[str, float], dict[str, Any]]:
        file = self._folder / "job.json"
        file.touch(mode=0o600)  # it may hold a password
        file.write_text(json.dumps(job))
        try:
            usage = run_measured([*command, str(file)], os.environ, self._folder / "run.log")
        finally:
            file.unlink()
        out = json.loads(file.with_suffix(".out.json").read_text())
        return {**of_usage(usage, set(usage.peak_bytes)), **of_chunks([tuple(pair) for pair in out["chunks"]])}, out


def condition(chunk: Chunk) -> str:
    """A chunk's rows as SQL, as our own source asks for them.

    Args:
        chunk: By integers or uuids.
    """
    kind = "bigint" if chunk.kind == "integer" else "uuid"
    below = "<=" if chunk.upper_inclusive else "<"
    return f"id >= '{chunk.lower}'::{kind} AND id {below} '{chunk.upper}'::{kind}"


def install_dlt(folder: Path) -> str | None:
    """Make dlt's environment unless it is there; says why it could not, or None.

    Args:
        folder: Where it goes.
    """
    python, done = _dlt_python(folder), folder / "dlt-venv" / "requirements.txt"
    wanted = "\n".join(DLT_REQUIREMENTS)
    if done.exists() and done.read_text() == wanted:
        return None
    print("▸ install dlt into an environment of its own", flush=True)
    venv.create(folder / "dlt-venv", with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *DLT_REQUIREMENTS]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        return f"absent, it could not be installed: {(ended.stderr.strip().splitlines() or ['no reason'])[-1]}"
    done.write_text(wanted)
    return None


def _with_host(url: str) -> str:
    """With a host and a password, which dlt insists on; libpq then takes the query's host, the server's socket."""
    return url.replace("@/", ":none@localhost/")


def _dlt_python(folder: Path) -> Path:
    return folder / "dlt-venv" / "bin" / "python"


def _dlt_fastest(case: Case) -> dict[str, object]:
    """Arrow batches that go unchanged into Parquet files, which ADBC loads, several at once; of 5 ways the fastest."""
    settings = {
        "NORMALIZE__WORKERS": str(case.lanes),
        "LOAD__WORKERS": str(case.lanes),
        "DATA_WRITER__FILE_MAX_ITEMS": str(_DLT_ROWS_A_FILE),
    }
    options = {"backend": "connectorx", "reflection_level": "full_with_precision"}
    return {"options": options, "format": "parquet", "settings": {**_DLT_QUIET, **settings}}


def _mssql(url: str) -> dict[str, object]:
    address = Address.parse(url)
    odbc = connection_string({"Driver": driver_name(), **address.keywords()})
    bulk = {
        "server": f"{address.host},{address.port}",
        "database": address.database,
        "user_name": address.user,
        "password": address.secret,
        "encryption": address.options["Encrypt"],
        "trust_server_certificate": address.options["TrustServerCertificate"],
        "packet_size": _PACKET_BYTES,
    }
    return {"odbc": odbc, "bulk": bulk}
