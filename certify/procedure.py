"""The procedure: one campaign, killed at five places, each time resumed by one command, with a reader beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from certify.commands import Operator
from certify.measurements import CRASHES, FAILED, Step
from certify.route import Route
from demo.reader import Reader
from dpone_dagster.campaign.selection import EVERY_CHUNK
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.connections import Connections
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.sessions import target_session
from dpone_dagster.faultpoints import CHUNK_POINTS
from dpone_dagster.ports.target import Connector
from dpone_dagster.settings import load_spec
from dpone_dagster.wiring import open_connector

_PAUSE_SECONDS = 0.02
_MOST_FAILURES = 10


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


def watch(route: Route) -> Reader:
    """A process of its own that reads the live table until it is told to stop."""
    return Reader(route.target.look(), _PAUSE_SECONDS)


def play(campaign: Campaign, operator: Operator) -> None:
    """Run the campaign to its end, or as far as it comes.

    Args:
        campaign: It; never run before.
        operator: Types the commands.

    Raises:
        DponeError: Its ledger cannot be read.
    """
    loading = [point for point in CRASHES if point in CHUNK_POINTS]
    for number, point in enumerate(loading):
        # Each run, and the last one, is to load an equal part: lane 0 comes to this chunk when that is about done.
        share = campaign.spec.lanes * (len(loading) + 1 - number)
        if not _insist(operator, partial(_crash_in_chunk, campaign, operator, point, share)):
            return
    for point in (point for point in CRASHES if point not in CHUNK_POINTS):
        if not _insist(operator, partial(operator.crash, point, None)):
            return
    _insist(operator, operator.finish)


def _insist(operator: Operator, command: Callable[[], Step]) -> bool:
    """Type a command, again after a run that failed by itself, as any operator would; whether it was killed."""
    step = command()
    while step.exit_code == FAILED and sum(s.exit_code == FAILED for s in operator.steps) < _MOST_FAILURES:
        step = command()
    return step.killed_at is not None


def _crash_in_chunk(campaign: Campaign, operator: Operator, point: str, share: int) -> Step:
    waiting = _waiting(campaign, begun=bool(operator.steps))
    return operator.crash(point, waiting[len(waiting) // share] if waiting else None)


def why(campaign: Campaign) -> str:
    """What the state tables say of a run that has failed by itself."""
    seen = status(campaign.spec, campaign.connector)
    chunks = [f"chunk {chunk.index}: {chunk.error_code}: {chunk.error}" for chunk in seen.failed if chunk.error_code]
    return "; ".join(chunks + [str(finding) for finding in seen.findings]) or f"the campaign is {seen.phase}"


def _waiting(campaign: Campaign, *, begun: bool) -> list[int]:
    """Chunks that nobody has begun, in order."""
    if not begun:
        return list(range(campaign.spec.plan.count))
    with target_session(campaign.connector, "certify") as target:
        chunks = target.ledger.chunks(campaign.spec.run_key, EVERY_CHUNK, only=("pending",))
    return [chunk.index for chunk in chunks]
