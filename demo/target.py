"""What the story asks of a target: the one thing in which the demos differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from demo.embedded import Embedded
from demo.place import Place
from demo.reader import State

Look = Callable[[], State]


class DemoTarget(Protocol):
    """Where the orders are loaded to."""

    place: Place
    title: str

    def reach(self) -> None:
        """Reach the server, before anything is touched.

        Raises:
            DponeError: There is none, it cannot be reached, or something stands there that is not the demo's.
        """

    def urls(self, server: Embedded) -> Mapping[str, str]:
        """The target's URL by its connection reference, unless the environment has it already."""

    def provision(self, server: Embedded) -> None:
        """Make the reviewed `landing.orders` anew, with its key and index, and an older generation in it."""

    def facts(self) -> Mapping[str, str | None]:
        """`server`, `version`, and `note`: what a run against it does not prove, if anything."""

    def look(self) -> Look:
        """Counts old and new orders of the live table by one statement; can be sent to another process."""
