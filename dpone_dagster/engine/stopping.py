"""Whether this process was told to stop, and the end of what its sessions wait for then.

A signal's handler runs in the main thread only, and not before the driver's call returns, so that somebody else has to
cut it. And pyodbc swallows what a handler raises while it makes an error of its own.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from dpone_dagster.campaign.errors import DponeError, Interrupted

TOLD = "this process was told to stop"
_LOOK_SECONDS = 1.0
# Whatever is cut may be followed by a few words to the server, which should get through.
SECONDS_BETWEEN_CUTS = 5.0
# For a cut that does not return, as over a network that is gone; its thread then ends with the process.
_END_SECONDS = 10.0


class Cancellable(Protocol):
    """A session whose statement can be cut from another thread."""

    def cancel(self) -> None:
        """Cut the statement in flight."""
        ...


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Tells other threads whether SIGINT or SIGTERM came since it was asked last; never, outside of the main thread."""
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        mine = threading.current_thread() is threading.main_thread()
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False) if mine else -1
        if before != -1:
            signal.set_wakeup_fd(before)  # the host has its own way
        try:
            yield lambda: _stop_came(reader)
        finally:
            if mine:
                signal.set_wakeup_fd(before)


def _stop_came(reader: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        return not {signal.SIGINT, signal.SIGTERM}.isdisjoint(reader.recv(4096))
    return False


@contextlib.contextmanager
def cut_when_told(session: Cancellable) -> Iterator[None]:
    """While the block runs in the main thread, a stop signal cuts what this session waits for.

    Args:
        session: Its statement is cut a second after the signal, for a handler that can run is faster.

    Raises:
        Interrupted: Instead of any error of ours that came after the signal.
    """
    with _watching() as watch, watch.cutting(session):
        try:
            yield
        except DponeError as error:
            if not isinstance(error, Interrupted) and watch.told():
                raise Interrupted(TOLD) from error
            raise


class _Watch:
    """Of all sessions that are open at once; a process has one pair of ears only."""

    current: _Watch | None = None

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self._stopped = stopped
        self._told = False
        self._sessions: list[Cancellable] = []
        self._lock = threading.Lock()
        self._done = threading.Event()

    def told(self) -> bool:
        """Whether this process was told to stop while sessions were open."""
        with self._lock:
            self._told = self._told or self._stopped()
            return self._told

    @contextlib.contextmanager
    def cutting(self, session: Cancellable) -> Iterator[None]:
        """Cut this one too, for the length of a block."""
        with self._lock:
            self._sessions.append(session)
        try:
            yield
        finally:
            with self._lock:
                self._sessions.remove(session)

    def run(self) -> None:
        """Look and cut, until `end`."""
        while not self.told():
            if self._done.wait(_LOOK_SECONDS):
                return
        wait = _LOOK_SECONDS
        while not self._done.wait(wait):
            with self._lock:
                sessions = tuple(self._sessions)
            for session in sessions:  # not under the lock, which the main thread needs to go on
                session.cancel()
            wait = SECONDS_BETWEEN_CUTS

    def end(self) -> None:
        """No session is open any more."""
        self._done.set()


@contextlib.contextmanager
def _watching() -> Iterator[_Watch]:
    if threading.current_thread() is not threading.main_thread():
        yield _Watch(bool)  # signals are not for it
        return
    if _Watch.current is not None:
        yield _Watch.current
        return
    with stop_signals() as stopped:
        watch = _Watch.current = _Watch(stopped)
        thread = threading.Thread(target=watch.run, name="dpone-stop", daemon=True)
        thread.start()
        try:
            yield watch
        finally:
            _Watch.current = None
            watch.end()
            thread.join(_END_SECONDS)
