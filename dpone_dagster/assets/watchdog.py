"""Whether the run that a step belongs to is still alive, and the end of a step whose run is not."""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
import time
from multiprocessing.connection import wait

_LOOK_SECONDS = 1.0
_GRACE_SECONDS = 6.0


def run_is_alive() -> bool:
    """False once the process that started this one is gone; looks, never waits.

    `os.getppid()` would not tell: under forkserver the parent is the fork server. A lane that is a pod of its own has
    no parent process; its executor ends it.
    """
    parent = multiprocessing.parent_process()
    return parent is None or not wait([parent.sentinel], timeout=0)


def end_with_run() -> None:
    """From now on this process ends soon after its run does, whatever it is waiting for, and its sessions with it.

    A lane has time to give its chunk back first. Nothing is lost by the end of any step: the database has the truth.
    """
    if multiprocessing.parent_process() is not None:
        _watch_once()


@functools.cache
def _watch_once() -> None:
    threading.Thread(target=_watch, name="dpone-watchdog", daemon=True).start()


def _watch() -> None:
    while run_is_alive():
        time.sleep(_LOOK_SECONDS)
    time.sleep(_GRACE_SECONDS)
    os._exit(1)
