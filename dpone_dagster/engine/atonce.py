"""Do several things at once, and wait for none of them longer than is given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


def at_once(works: Sequence[Callable[[], T]], seconds: float) -> list[Future[T]]:
    """Each in a thread of its own, which ends with the process where it is not done in time.

    Args:
        works: What to do. A name's look-up, or a server that sends a byte now and then, is bounded by no time-out.
        seconds: To wait for all of them.

    Returns:
        One a work, in order; some may not be done.
    """
    futures: list[Future[T]] = [Future() for _ in works]
    for work, future in zip(works, futures, strict=True):
        threading.Thread(target=_do, args=(work, future), name="dpone-at-once", daemon=True).start()
    wait(futures, timeout=seconds)
    return futures


def _do(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001  # whoever asks for the result gets it
        future.set_exception(error)
