"""Names of a campaign's jobs in Dagster; here, for a command needs them before it imports Dagster."""

from __future__ import annotations

from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec


def campaign_job_name(spec: CampaignSpec) -> str:
    """The job that runs the whole campaign."""
    return f"{spec.dataset}_campaign"


def retry_job_name(spec: CampaignSpec) -> str:
    """The job that loads failed chunks again, and nothing else."""
    return f"{spec.dataset}_retry_failed"


def increment_job_name(spec: RouteSpec) -> str:
    """The job that runs one increment."""
    return f"{spec.dataset}_increment"
