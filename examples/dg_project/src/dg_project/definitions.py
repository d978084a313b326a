"""What Dagster loads: everything in `defs`."""

import os
from pathlib import Path

import dagster as dg

from dpone_dagster.jobs import executor_for


@dg.definitions
def defs() -> dg.Definitions:
    """The components, and where the steps of partition backfills run: a campaign's own job brings its lanes itself."""
    found = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(found, dg.Definitions(executor=executor_for([], os.environ)))
