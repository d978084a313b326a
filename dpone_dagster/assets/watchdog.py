"""Whether the run that a lane belongs to is still alive."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import wait


def run_is_alive() -> bool:
    """False once the process that started this one is gone; looks, never waits.

    `os.getppid()` would not tell: under forkserver the parent is the fork server. A lane that is a pod of its own has
    no parent process; its executor ends it.
    """
    parent = multiprocessing.parent_process()
    return parent is None or not wait([parent.sentinel], timeout=0)
