"""A run's own process, to be interrupted: `python -m tests.dagster.run_worker MANIFEST`."""

from __future__ import annotations

import sys
from pathlib import Path

from dagster import DagsterInstance

from tests.dagster.project import run_job

if __name__ == "__main__":
    with DagsterInstance.get() as instance, run_job(instance, Path(sys.argv[1]), "orders_campaign") as result:
        sys.exit(0 if result.success else 1)
