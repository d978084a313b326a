"""A manifest of increments only, and what holds between manifests of one handoff."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpone_dagster.campaign.errors import ManifestInvalid
from dpone_dagster.campaign.handoffs import handoff_findings
from dpone_dagster.campaign.manifests import parse_any, schema_of_any
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.spec import CampaignSpec, IncrementPolicy, RouteSpec, StatePolicy

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def increments() -> dict[str, Any]:
    """The shipped example."""
    data: dict[str, Any] = yaml.safe_load((EXAMPLES / "orders_increment.yaml").read_text(encoding="utf-8"))
    return data


@pytest.fixture
def campaign() -> dict[str, Any]:
    """The shipped campaign with the increments' handoff and none of its own."""
    data: dict[str, Any] = yaml.safe_load((EXAMPLES / "orders.yaml").read_text(encoding="utf-8"))
    data["source"]["options"]["xmin_execution"]["handoff_id"] = "orders_apart_v1"
    del data["dagster"]
    return data


def named(*manifests: dict[str, Any]) -> list[tuple[str, RouteSpec]]:
    return [(f"{number}.yaml", parse_any(manifest).to_spec()) for number, manifest in enumerate(manifests)]


def test_the_example_arrives(increments: dict[str, Any]) -> None:
    spec = parse_any(increments).to_spec()
    assert type(spec) is RouteSpec
    assert spec == RouteSpec(
        dataset="orders_changes",
        source_ref="postgres_oltp",
        source=TableRef("public", "orders"),
        sink_type="postgres",
        sink_ref="postgres_dwh",
        target=TableRef("landing", "orders"),
        unique_key=("id",),
        state=StatePolicy("system", "postgres_dwh"),
        handoff_id="orders_apart_v1",
        increment=IncrementPolicy("30 5 * * *", reconcile_cron="0 3 * * sun"),
    )


@pytest.mark.parametrize(
    ("block", "key", "value", "path"),
    [
        (("source", "options", "xmin_execution"), "mode", "initial", "source.options.xmin_execution.mode"),
        (("source", "options"), "xmin_execution", None, "source.options.xmin_execution"),
        (("sink", "strategy"), "backfill", {}, "sink.strategy.backfill"),
        (("sink", "strategy"), "unique_key", ["id", "id"], "sink.strategy.unique_key"),
        (("state",), "schema", None, "state.schema"),
        (("state",), "type", "mssql", "state.type"),
        (("dagster",), "lanes", 4, "dagster.lanes"),
        (("dagster", "incremental"), "cron", "daily", "dagster.incremental.cron"),
    ],
)
def test_what_is_wrong_is_said_with_its_path(
    increments: dict[str, Any], block: tuple[str, ...], key: str, value: object, path: str
) -> None:
    place = increments
    for part in block:
        place = place[part]
    if value is None:
        del place[key]
    else:
        place[key] = value
    with pytest.raises(ManifestInvalid) as caught:
        parse_any(increments)
    assert path in [finding.path for finding in caught.value.findings]
    assert all(finding.advice for finding in caught.value.findings)


def test_both_kinds_are_in_the_schema() -> None:
    schema = schema_of_any()
    assert {choice["$ref"].rpartition("/")[2] for choice in schema["anyOf"]} == {"Manifest", "IncrementManifest"}
    assert "incremental_merge" in str(schema["$defs"]["MergeBlock"])


def test_a_campaign_and_its_increments_go_together(campaign: dict[str, Any], increments: dict[str, Any]) -> None:
    found = named(campaign, increments)
    assert isinstance(found[0][1], CampaignSpec)
    assert handoff_findings(found) == []
    increments["source"]["connection_ref"] = "postgres_standby"
    assert handoff_findings(named(campaign, increments)) == [], "which server it is, the database proves"


@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_handoff_id_names_one_pair(campaign: dict[str, Any], increments: dict[str, Any], side: str) -> None:
    increments[side]["table"]["name"] = "other"
    (finding,) = handoff_findings(named(campaign, increments))
    assert finding.path == "1.yaml: source.options.xmin_execution.handoff_id"
    assert "in 0.yaml" in finding.problem
    second = deepcopy(campaign)
    second["name"], second["source"]["table"]["name"] = "twin", "other"
    (finding,) = handoff_findings(named(campaign, second))
    assert "public.other" in finding.problem


def test_increments_are_set_in_one_place(campaign: dict[str, Any], increments: dict[str, Any]) -> None:
    (twice,) = handoff_findings(named(campaign, increments, increments))
    assert twice.path.startswith("2.yaml")
    campaign["dagster"] = {"incremental": {"cron": "0 * * * *"}}
    (both,) = handoff_findings(named(campaign, increments))
    assert both.path == "0.yaml: dagster.incremental"
