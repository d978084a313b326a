"""What one column type can be in another: a home that keeps every value exactly, or none and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpone_dagster.campaign.contract import ColumnType, Guard, Representation


@dataclass(frozen=True)
class Home:
    """A type that holds the other's values exactly.

    Attributes:
        cast: What the source must cast to so that the wire form is the target's own; None for no cast.
        guards: Checks for the values that it does not hold, first failure wins; empty if it holds all.
    """

    cast: str | None = None
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class NoHome:
    """Why there is no exact home, and what to do about it."""

    problem: str
    advice: str


FindHome = Callable[[ColumnType, ColumnType, Representation | None], Home | NoHome]


def as_is(_source: ColumnType, _target: ColumnType) -> Home:
    """The home of a type in one that takes every value of it, read as it is."""
    return Home()
