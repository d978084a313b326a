"""The procedure: one campaign, killed at five places, each time resumed by one command, with a reader beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from certify.commands import Operator
from certify.measurements import CRASHES
from certify.route import Route
from demo.reader import Observations, Reader
from dpone_dagster.campaign.selection import EVERY_CHUNK
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.connections import Connections
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.faultpoints import CHUNK_POINTS
from dpone_dagster.ports.target import Connector
from dpone_dagster.settings import load_spec
from dpone_dagster.wiring import open_connector

_PAUSE_SECONDS = 0.02
_CHUNK_CRASHES = [point for point in CRASHES if point in CHUNK_POINTS]
_CAMPAIGN_CRASHES = [point for point in CRASHES if point not in CHUNK_POINTS]


@dataclass(frozen=True)
class Campaign:
    """The campaign that is certified.

    Attributes:
        spec: It.
        connector: Opens its connections.
        manifest: Its file.
    """

    spec: CampaignSpec
    connector: Connector
    manifest: Path


def open_campaign(route: Route, manifest: dict[str, object], file: Path) -> Campaign:
    """Write the manifest and read it as any command does.

    Args:
        route: Where its connections are.
        manifest: What it says.
        file: Where it goes.
    """
    file.write_text(yaml.safe_dump(manifest, sort_keys=False))
    spec = load_spec(file)
    return Campaign(spec, open_connector(spec, Connections.from_environment(route.environment)), file)


@contextlib.contextmanager
def watched(route: Route) -> Iterator[Callable[[], Observations]]:
    """While it lasts a process of its own reads the live table; returns what lets it look a last time and tell."""
    reader = Reader(route.target.look(), _PAUSE_SECONDS)
    yield reader.stop


def play(campaign: Campaign, operator: Operator) -> None:
    """Run the campaign to its end, or as far as it comes.

    Args:
        campaign: It; never run before.
        operator: Types the commands.

    Raises:
        DponeError: Its ledger cannot be read.
    """
    for number, point in enumerate(_CHUNK_CRASHES):
        # Each run, and the last one, is to load an equal part: lane 0 comes to this chunk when that is about done.
        runs = len(_CHUNK_CRASHES) + 1 - number
        waiting = _waiting(campaign, begun=number > 0)
        if not waiting:
            break
        operator.crash(point, waiting[len(waiting) // (campaign.spec.lanes * runs)])
        if operator.done:
            return
    for point in _CAMPAIGN_CRASHES:
        operator.crash(point, None)
        if operator.done:
            return
    operator.finish()


def _waiting(campaign: Campaign, *, begun: bool) -> list[int]:
    """Chunks that nobody has begun, in order."""
    if not begun:
        return list(range(campaign.spec.plan.count))
    with target_session(campaign.connector, "certify") as target:
        chunks = target.ledger.chunks(campaign.spec.run_key, EVERY_CHUNK, only=("pending",))
    return [chunk.index for chunk in chunks]
