"""The process that steps are forked from, where they are processes of this host. It starts before Dagster is there."""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing import forkserver

EXECUTOR_VARIABLE = "DPONE_EXECUTOR"
MULTIPROCESS = "multiprocess"
# Dagster adds the second name if it is not there, in front.
PRELOADED = ["dpone_dagster.preloaded", "dagster._core.executor.multiprocess"]


def start_fork_server(environ: Mapping[str, str]) -> None:
    """Let the process that steps are forked from import what they need while their run is still being created.

    Args:
        environ: Environment of this process, which every step will have as it is now, as its standard output and error.
    """
    if (environ.get(EXECUTOR_VARIABLE) or MULTIPROCESS) == MULTIPROCESS:
        forkserver.set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()
