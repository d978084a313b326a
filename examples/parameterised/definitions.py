"""A campaign by from, to and step: `ORDERS_TO=500000 dagster dev -f examples/parameterised/definitions.py`."""

import os
from collections.abc import Mapping
from pathlib import Path

import dagster as dg

from dpone_dagster.campaign.overrides import RunOptions
from dpone_dagster.campaign_definitions import build_campaign
from dpone_dagster.settings import load_spec

MANIFEST = Path(__file__).with_name("orders.yaml")
PARAMETERS = {"from": "ORDERS_FROM", "to": "ORDERS_TO", "step": "ORDERS_STEP"}


def campaign_of(environ: Mapping[str, str]) -> dg.Definitions:
    """The campaign of one window; what is not set is as the manifest has it."""
    given = {name: environ[variable] for name, variable in PARAMETERS.items() if environ.get(variable)}
    return build_campaign(load_spec(MANIFEST, RunOptions(given)), MANIFEST)


defs = campaign_of(os.environ)
