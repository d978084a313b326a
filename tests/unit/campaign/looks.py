"""Looks at campaigns that exist on paper only."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dpone_dagster.campaign.incidents import Look
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.manifest import parse_manifest
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.campaign.spec import AlertPolicy, CampaignSpec, RouteSpec
from dpone_dagster.campaign.vitals import Loading, Vitals
from tests.orders import make_manifest

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOTHING = Progress(0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)


def ago(**units: float) -> datetime:
    return NOW - timedelta(**units)


def spec(dataset: str = "orders", **alerts: Any) -> CampaignSpec:
    made = parse_manifest(make_manifest(8, 2)).to_spec()
    return replace(made, dataset=dataset, alerts=AlertPolicy(**alerts))


def look(of: RouteSpec | None = None, *, due_at: datetime | None = None, **vitals: Any) -> Look:
    return Look(of or spec(), Vitals(now=vitals.pop("now", NOW), **vitals), due_at)


def loading(
    *, started: datetime | None = None, moved: datetime | None = None, lapsed: datetime | None = None, **counts: Any
) -> dict[str, Any]:
    """The vitals of a campaign that loads."""
    chunks = Loading(replace(NOTHING, **counts), started or ago(hours=1), moved or NOW, lapsed)
    return {"phase": Phase.LOADING, "phase_at": ago(hours=1), "loading": chunks}
