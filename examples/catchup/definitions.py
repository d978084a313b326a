"""A window of days that catches up by itself: `dagster dev -f examples/catchup/definitions.py`."""

from pathlib import Path

import dagster as dg

from dpone_dagster.campaign_definitions import build_campaign
from dpone_dagster.settings import load_spec

MANIFEST = Path(__file__).with_name("events.yaml")

catch_up = dg.ScheduleDefinition(
    name="events_catch_up",
    job_name="events_campaign",
    cron_schedule="0 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Loads the days that have no receipt yet; a tick after the last one changes nothing.",
)
defs = dg.Definitions.merge(build_campaign(load_spec(MANIFEST), MANIFEST), dg.Definitions(schedules=[catch_up]))
