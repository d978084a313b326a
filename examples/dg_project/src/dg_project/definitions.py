"""What Dagster loads: everything in `defs`, and what its campaigns have in common."""

from pathlib import Path

import dagster as dg

from dpone_dagster.component import project_definitions

FOLDER = Path(__file__).parent


@dg.definitions
def defs() -> dg.Definitions:
    """The components, the sensors that tell people, and the executor of partition backfills."""
    return dg.Definitions.merge(
        dg.load_from_defs_folder(path_within_project=FOLDER), project_definitions(FOLDER / "defs")
    )
