"""Where the demos keep their things, all below the checkout, and how a process comes to see them."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from demo.embedded import Embedded
from dpone_dagster.connections import ENVIRONMENT_PREFIX, FILE_VARIABLE

ROOT = Path(__file__).resolve().parent.parent
DAGSTER_HOME = ROOT / ".dpone" / "dagster"


@dataclass(frozen=True)
class Place:
    """One demo's own things.

    Attributes:
        name: Of its folder, and of its target for `make`.
        manifest: Relative to the checkout.
        source_database: On the embedded server.
        variables: Connections of the environment that this demo may use; no other one is seen.
    """

    name: str
    manifest: Path
    source_database: str
    variables: frozenset[str] = frozenset()

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return ROOT / ".dpone" / self.name

    @property
    def connections(self) -> Path:
        """The connections file of its manifest."""
        return self.folder / "connections.yaml"

    @property
    def report(self) -> Path:
        """What it found out."""
        return self.folder / "report.json"

    def write_connections(self, urls: Mapping[str, str]) -> None:
        """Write the connections file; it may hold a secret, so nobody else can read it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.connections.touch(mode=0o600)
        self.connections.write_text(yaml.safe_dump(dict(urls), sort_keys=False))

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """An environment with this demo's connections and no others: it writes, so it must not reach anything else."""
        kept = {k: v for k, v in before.items() if not k.startswith(ENVIRONMENT_PREFIX) or k in self.variables}
        return {**kept, FILE_VARIABLE: str(self.connections), "DAGSTER_HOME": str(DAGSTER_HOME)}

    def enter(self) -> None:
        """Let this process, and those that it starts, see that environment."""
        mine = self.environment(os.environ)
        for name in os.environ.keys() - mine.keys():
            del os.environ[name]
        os.environ.update(mine)


def data_dir() -> Path:
    """The cluster's directory: in the checkout, or below the temporary folder where the server could not reach it.

    As root the server runs as another user, who must be able to walk down to its data.
    """
    inside = ROOT / ".dpone" / "demo" / "pg"
    if os.geteuid() != 0 or all(folder.stat().st_mode & stat.S_IXOTH for folder in (ROOT, *ROOT.parents)):
        return inside
    digest = hashlib.sha256(str(ROOT).encode()).hexdigest()[:10]
    return Path(tempfile.gettempdir()) / f"dpone-demo-{digest}" / "pg"


def start_server() -> Embedded:
    """The demos' PostgreSQL, kept running when this process ends. A cluster that does not start is made anew."""
    folder = data_dir()
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        return Embedded(folder, keep=True)
    except (subprocess.SubprocessError, AssertionError):
        print(f"the server in {folder} does not start; it is made anew", file=sys.stderr)
        shutil.rmtree(folder)
        return Embedded(folder, keep=True)
