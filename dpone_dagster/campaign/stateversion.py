"""Which version of the state tables this program needs, and what it does with those of another one."""

from __future__ import annotations

from dpone_dagster.campaign.errors import StateVersionNewer, StateVersionOlder

STATE_VERSION = 3


def known_version(schema: str, version: int) -> int:
    """The version that was found, 0 for none, if this program knows it.

    Args:
        schema: Where the state tables are.
        version: As they say themselves.

    Raises:
        StateVersionNewer: A newer program made them.
    """
    if version > STATE_VERSION:
        raise StateVersionNewer(f"state schema {schema} has version {version}, this program knows {STATE_VERSION}")
    return version


def is_current(schema: str, found: int) -> bool:
    """Whether the state tables are there in this program's version.

    Args:
        schema: Where they should be.
        found: A `known_version`.

    Raises:
        StateVersionOlder: An older program made them.
    """
    if 0 < found < STATE_VERSION:
        raise StateVersionOlder(f"state schema {schema} has version {found}, this program needs {STATE_VERSION}")
    return found == STATE_VERSION


def missing_versions(found: int) -> range:
    """The versions that an upgrade still has to make, in their order.

    Args:
        found: A `known_version`.
    """
    return range(found + 1, STATE_VERSION + 1)
