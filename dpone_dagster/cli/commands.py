"""The `dpone` command and its groups."""

from __future__ import annotations

import click

from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.backfill_commands import backfill
from dpone_dagster.cli.options import Group, on_campaign
from dpone_dagster.cli.report import Form, Report, answer
from dpone_dagster.cli.state_commands import increment, manifest, state


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="dpone-dagster", prog_name="dpone", message="%(prog)s %(version)s")
def dpone() -> None:
    """Load one very large PostgreSQL table once, safely, and hand it over to incremental loads.

    Connections are URLs in DPONE_CONNECTION_<REF>, or in the file that DPONE_CONNECTIONS_FILE names.

    Exit codes: 0 done; 1 ran and did not succeed; 2 refused before anything was touched; 3 somebody else holds the
    campaign; 130 interrupted.
    """


@dpone.command()
@on_campaign
def run(manifest: Asked, form: Form) -> None:
    """Do what a manifest is for: its campaign, as `backfill run --execute` does, or one increment.

    For schedulers: the interval comes by DPONE_INTERVAL_START, DPONE_INTERVAL_END and their kin.
    """

    def ask() -> Report:
        from dpone_dagster.cli.campaign_run import run_anything

        return run_anything(manifest)

    answer(form, ask, manifest)


for group in (backfill, increment, state, manifest):
    dpone.add_command(group)
