"""Somebody at a shell: `dpone` as real processes, its answers held to their schemas, and what Dagster shows of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from dagster import AssetKey, DagsterInstance, DagsterRun

from tests.answers import prove_answer
from tests.orders import Orders
from tests.waiting import PATIENCE_SECONDS


class Operator:
    """Somebody at a shell, in a folder of his own."""

    def __init__(self, orders: Orders, folder: Path) -> None:
        self.orders = orders
        self.folder = folder
        self.manifest = orders.write(folder)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("DPONE_", "DAGSTER_"))},
            **orders.environment,
        }

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        words = (words[0], str(self.manifest), *words[1:])
        group = options.pop("group", ("backfill",))
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.Popen(
            [sys.executable, "-m", "dpone_dagster.cli", *group, *words],
            cwd=self.folder,
            env=self.environment,
            text=True,
            start_new_session=True,
            **pipes,
        )

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, **options)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def json(self, *words: str, exit_code: int = 0, **options: Any) -> dict[str, Any]:
        done = self.run(*words, "--format", "json", **options)
        assert done.returncode == exit_code, done.stdout + done.stderr
        answer = json.loads(done.stdout)
        assert isinstance(answer, dict)
        prove_answer([*options.get("group", ("backfill",)), words[0]], answer)
        return answer

    def dagster_runs(self) -> list[DagsterRun]:
        """All runs of this operator's instance, the newest first."""
        with DagsterInstance.from_config(str(self.folder / ".dpone" / "dagster")) as instance:
            return list(instance.get_runs())

    def shown_partitions(self) -> set[str]:
        """Partitions of the shadow that Dagster shows as loaded."""
        with DagsterInstance.from_config(str(self.folder / ".dpone" / "dagster")) as instance:
            return set(instance.get_materialized_partitions(AssetKey(["orders", "shadow"])))

    def state(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every state table."""
        names = self.orders.on_target(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'system' ORDER BY 1"
        )
        return {name: self.orders.on_target(f'SELECT t::text FROM system."{name}" t ORDER BY 1') for (name,) in names}
