"""A stop signal cuts what no handler gets at, and what a driver makes of it is still called an interrupt."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpone_dagster.campaign.errors import DponeError, Interrupted, ServerUnreachable
from dpone_dagster.engine import heartbeat, stopping
from dpone_dagster.engine.stopping import cut_when_told
from dpone_dagster.settings import load_spec

Handler = Callable[..., None]
EXAMPLE = Path("examples/orders.yaml")
_libc = ctypes.CDLL(None)


class Told(BaseException):
    """As an interrupt of Dagster."""


class Waiting:
    """A session that waits in a call which no signal ends, as a driver's may."""

    def __init__(self) -> None:
        self._mutex = ctypes.create_string_buffer(64)
        _libc.pthread_mutex_lock(self._mutex)
        self.cuts = 0

    def wait(self) -> None:
        _libc.pthread_mutex_lock(self._mutex)

    def cancel(self) -> None:
        self.cuts += 1
        self.let_go()

    def let_go(self) -> None:
        _libc.pthread_mutex_unlock(self._mutex)


@pytest.fixture
def on_stop() -> Iterator[Callable[[Handler], object]]:
    """Set what SIGTERM does in this test."""
    before = signal.getsignal(signal.SIGTERM)
    yield lambda handler: signal.signal(signal.SIGTERM, handler)
    signal.signal(signal.SIGTERM, before)


def tell_soon() -> None:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()


def test_a_call_that_no_signal_ends_is_cut(on_stop: Callable[[Handler], object]) -> None:
    session = Waiting()
    on_stop(lambda *_: None)
    rescue = threading.Timer(60, session.let_go)
    rescue.start()
    tell_soon()
    with cut_when_told(Waiting()), cut_when_told(session):
        session.wait()
    rescue.cancel()
    assert session.cuts


def test_an_interrupt_that_a_driver_has_swallowed_is_one(on_stop: Callable[[Handler], object]) -> None:
    def stop(*_: object) -> None:
        raise Told

    on_stop(stop)
    tell_soon()
    with pytest.raises(Interrupted), cut_when_told(Waiting()):
        swallow_what_comes()


def swallow_what_comes() -> None:
    try:
        while True:
            time.sleep(1)
    except Told:
        raise DponeError("the driver did not supply an error") from None


class Endless:
    """A session whose cut does not return, as over a network that is gone."""

    def __init__(self) -> None:
        self.cutting = threading.Event()
        self.let_go = threading.Event()

    def cancel(self) -> None:
        self.cutting.set()
        self.let_go.wait(20)


def test_a_cut_that_does_not_return_keeps_nobody_from_ending(
    on_stop: Callable[[Handler], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "_END_SECONDS", 0.1, raising=False)
    on_stop(lambda *_: None)
    session = Endless()
    tell_soon()
    with cut_when_told(session):
        assert session.cutting.wait(60)
    assert "dpone-stop" in [thread.name for thread in threading.enumerate()], "it is still being cut"
    session.let_go.set()


class Unreached:
    """A server that is not there, for a heartbeat that has only to cut."""

    def target(self, purpose: str) -> Any:
        raise ServerUnreachable(purpose)


class Counting:
    """A session that is cut between two statements, which changes nothing."""

    def __init__(self) -> None:
        self.cuts = 0

    def cancel(self) -> None:
        self.cuts += 1


def test_a_lane_that_was_told_to_stop_is_cut_until_it_does(
    on_stop: Callable[[Handler], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(heartbeat, "SECONDS_BETWEEN_CUTS", 0.05, raising=False)
    on_stop(lambda *_: None)
    session, connector = Counting(), Unreached()
    with heartbeat.Heartbeat(load_spec(EXAMPLE), connector, lambda: True, lambda _: None) as beating:  # type: ignore[arg-type]
        beating.watch(None, session)
        os.kill(os.getpid(), signal.SIGTERM)
        deadline = time.monotonic() + 60
        while session.cuts < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
    assert session.cuts >= 3


def test_an_error_without_a_signal_stays_itself() -> None:
    with pytest.raises(DponeError) as caught, cut_when_told(Waiting()):
        raise DponeError("as the server says")
    assert type(caught.value) is DponeError
