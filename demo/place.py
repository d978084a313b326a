"""Where the demo keeps its things, all below the checkout, and how a process comes to see them."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from demo.embedded import Embedded

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".dpone" / "demo"
DAGSTER_HOME = ROOT / ".dpone" / "dagster"
CONNECTIONS = FOLDER / "connections.yaml"
REPORT = FOLDER / "report.json"
MANIFEST = Path("examples/orders.yaml")
SOURCE_DATABASE, TARGET_DATABASE = "oltp", "dwh"


def data_dir() -> Path:
    """The cluster's directory: in the checkout, or below the temporary folder where the server could not reach it.

    As root the server runs as another user, who must be able to walk down to its data.
    """
    inside = FOLDER / "pg"
    if os.geteuid() != 0 or all(folder.stat().st_mode & stat.S_IXOTH for folder in (ROOT, *ROOT.parents)):
        return inside
    digest = hashlib.sha256(str(ROOT).encode()).hexdigest()[:10]
    return Path(tempfile.gettempdir()) / f"dpone-demo-{digest}" / "pg"


def start_server() -> Embedded:
    """The demo's server, kept running when this process ends. A cluster that does not start is made anew."""
    folder = data_dir()
    for inside in (FOLDER, folder.parent):
        inside.mkdir(parents=True, exist_ok=True)
    try:
        return Embedded(folder, keep=True)
    except (subprocess.SubprocessError, AssertionError):
        print(f"the server in {folder} does not start; it is made anew", file=sys.stderr)
        shutil.rmtree(folder)
        return Embedded(folder, keep=True)


def write_connections(server: Embedded) -> None:
    """The connections file that examples/orders.yaml needs."""
    urls = {"postgres_oltp": server.url(SOURCE_DATABASE), "postgres_dwh": server.url(TARGET_DATABASE)}
    CONNECTIONS.touch(mode=0o600)
    CONNECTIONS.write_text(yaml.safe_dump(urls, sort_keys=False))


def environment(before: Mapping[str, str]) -> dict[str, str]:
    """An environment with the demo's connections and no others: the demo writes, so it must not reach a real server."""
    kept = {name: value for name, value in before.items() if not name.startswith("DPONE_CONNECTION_")}
    return {**kept, "DPONE_CONNECTIONS_FILE": str(CONNECTIONS), "DAGSTER_HOME": str(DAGSTER_HOME)}
