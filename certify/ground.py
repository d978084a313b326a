"""What a certification needs of the servers at its two ends; it works in schemas of its own and in no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from certify.measurements import Server
from demo.reader import State
from dpone_dagster.campaign.names import TableRef


class Target(Protocol):
    """Where the rows go."""

    server: Server

    def taken(self) -> list[str]:
        """Schemas of the names that it needs which are there already."""

    def make(self) -> None:
        """Make schema, live table and its older generation."""

    def drop(self) -> None:
        """Drop the schemas that were not there before, with every table in them."""

    def rows_and_keys(self, table: TableRef) -> tuple[int, int]:
        """Exact number of rows, and of different keys."""

    def look(self) -> Callable[[], State]:
        """Counts old and new orders of the live table by one statement; can be sent to another process."""

    def close(self) -> None:
        """Close its connection."""
