"""The next batch is read from the source while the target takes the present one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

_CUT_AGAIN_SECONDS = 1.0

_Batch = TypeVar("_Batch")


def read_ahead(batches: Generator[_Batch, None, None], cut: Callable[[], object]) -> Generator[_Batch, None, None]:
    """The same batches, one of them read in advance by a thread of its own; its errors come out here.

    Args:
        batches: Read by that thread only, and closed at the end. None of them is None.
        cut: Ends a read that is under way, from another thread; called where the batches are given up.
    """
    with ThreadPoolExecutor(1, "dpone-read") as reader:
        following = reader.submit(next, batches, None)
        try:
            while (batch := following.result()) is not None:
                following = reader.submit(next, batches, None)
                yield batch
        finally:
            while not following.done():  # again and again: between two statements a cut finds nothing
                cut()
                wait([following], _CUT_AGAIN_SECONDS)
            batches.close()
