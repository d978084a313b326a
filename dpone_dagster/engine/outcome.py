"""What became of a COMMIT whose answer was lost: found out on a new session, under the lock, and said."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from dpone_dagster.campaign.errors import OutcomeUnknown
from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.engine.audit import audited
from dpone_dagster.engine.sessions import hold_target, target_session
from dpone_dagster.ports.target import Connector, Target

_logger = logging.getLogger(__name__)
_Found = TypeVar("_Found")


def said(what: str, found: _Found | None) -> _Found | None:
    """Log what was found, and return it.

    Args:
        what: The step, or the chunk.
        found: What only a COMMIT leaves behind; read while the lock is held that its transaction held.
    """
    _logger.warning("%s: outcome unknown, found %s", what, "not committed" if found is None else "committed")
    return found


@dataclass(frozen=True)
class Step:
    """A step of a run, as its audit rows name it."""

    run_id: str
    kind: Literal["campaign", "increment"]
    name: str


def settled(
    spec: RouteSpec, connector: Connector, step: Step, commit: Callable[[], _Found], look: Callable[[Target], object]
) -> _Found | None:
    """Make a change under the target's lock; if its COMMIT is not answered, find out what became of it.

    Args:
        spec: The campaign.
        connector: Opens the new session.
        step: What is done.
        commit: Does it, in one transaction that holds the target's lock.
        look: Reads what only that COMMIT leaves behind; None if it is not there.

    Returns:
        What `commit` returned; None if only its answer was lost.

    Raises:
        OutcomeUnknown: It is not committed.
        CampaignActive: The lost session, or another one, still holds the target's lock.
    """
    try:
        return commit()
    except OutcomeUnknown as error:
        with target_session(connector, step.name) as target:
            with target.transaction():
                hold_target(target, spec.target)
                found = said(step.name, look(target))
            if found is None:
                raise OutcomeUnknown(f"{error.message}: outcome unknown, found not committed") from error
            with audited(spec, target, step.run_id, step.kind, step.name) as facts:
                facts["outcome"] = "unknown, found committed"
        return None
