"""All that a step imports, imported once by the process that steps are forked from. None of it opens anything."""

from __future__ import annotations

import contextlib
import gc
from importlib import import_module

from dpone_dagster.campaign.increment_manifest import IncrementManifest
from dpone_dagster.campaign.manifest import Manifest

# Those of Dagster are what a step's process would import after the fork: it asks for them when it needs them.
_MODULES = (
    "dagster._core.executor.multiprocess",
    "dagster._core.definitions.external_asset",
    "dagster._core.definitions.repository_definition.repository_data_builder",
    "dagster._core.instance.factory",
    "dagster._core.secrets.env_file",
    "dagster._core.storage.legacy_storage",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._core.storage.migration.utils",
    "dagster._core.storage.root",
    "dagster._core.storage.sqlite_storage",  # and with it what every other storage needs too: a third of a second
    "dagster._core.system_config.composite_descent",
    "dagster._core.types.primitive_mapping",
    "dagster._core.types.transform_typing",
    "dagster._core.workspace.autodiscovery",
    "dagster._utils.test.definitions",
    "encodings.utf_8_sig",
    "upath.implementations.local",
    "dpone_dagster.cli.dagster_run",
    "dpone_dagster.postgres.source",
    "dpone_dagster.postgres.target",
    "dpone_dagster.mssql.target",
)


def _import_all() -> None:
    """Looking for garbage would take a sixth of the time; what is frozen no step looks through or copies."""
    gc.disable()
    for name in _MODULES:
        with contextlib.suppress(ImportError):  # a driver that is not installed; Dagster may move what is its own
            import_module(name)
    for manifest in (Manifest, IncrementManifest):
        manifest.model_rebuild()  # else each step would build its validators anew
    gc.freeze()
    gc.enable()


_import_all()
