"""A campaign as a Dagster component: the same builder, the same mistakes named, and `dg` accepts the example."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster import ComponentTree, Definitions
from dagster_shared.yaml_utils import parse_yaml_with_source_position
from jsonschema import Draft202012Validator

from dpone_dagster.campaign.errors import ManifestInvalid
from dpone_dagster.campaign_definitions import build_manifest
from dpone_dagster.component import Campaign, ManifestAttributes, project_definitions
from dpone_dagster.settings import component_paths, load_spec
from tests.dagster.conftest import SETTINGS

EXAMPLES = Path(__file__).parents[2] / "examples"
PROJECT = EXAMPLES / "dg_project"
DEFS = PROJECT / "src/dg_project/defs/orders/defs.yaml"


def attributes(file: Path = DEFS) -> dict[str, Any]:
    """As Dagster reads them."""
    found: dict[str, Any] = parse_yaml_with_source_position(file.read_text()).value["attributes"]
    return found


def test_a_component_defines_what_the_manifest_defines() -> None:
    component = Campaign.from_attributes_dict(attributes=attributes())
    spec = load_spec(EXAMPLES / "orders.yaml")
    assert component.spec == spec
    ours = component.build_defs(ComponentTree.for_test().load_context).get_repository_def()
    theirs = build_manifest(spec, EXAMPLES / "orders.yaml").get_repository_def()
    assert ours.asset_graph.get_all_asset_keys() == theirs.asset_graph.get_all_asset_keys()
    assert ours.asset_graph.asset_check_keys == theirs.asset_graph.asset_check_keys
    assert ours.job_names == theirs.job_names
    assert [one.name for one in ours.schedule_defs] == [one.name for one in theirs.schedule_defs]
    assert [one.name for one in ours.sensor_defs] == [one.name for one in theirs.sensor_defs]


def test_a_date_without_quotes_is_read_as_it_is_written(tmp_path: Path) -> None:
    """YAML's own dates would be another type than the command line reads from the same file."""
    text = DEFS.read_text().replace("kind: uuid ", "kind: date ").replace("column: id", "column: placed_on")
    text = text.replace("unique_key: [id]", "unique_key: [id, placed_on]")
    text = text.replace("buckets: 32", "from: 2024-01-01\n          to: 2024-12-31\n          step: 1mo")
    file = tmp_path / "defs.yaml"
    file.write_text(text)
    component = Campaign.from_attributes_dict(attributes=attributes(file))
    assert component.spec == load_spec(file)
    assert load_spec(file).plan.count == 12


def test_the_command_line_takes_the_components_file() -> None:
    assert load_spec(DEFS) == load_spec(EXAMPLES / "orders.yaml")


def test_every_mistake_is_named_at_once() -> None:
    wrong = attributes()
    wrong["sink"]["strategy"]["unique_key"] = ["order_no"]
    wrong["dagster"]["incremental"]["cron"] = "99 5 * * *"
    with pytest.raises(ManifestInvalid) as caught:
        Campaign.from_attributes_dict(attributes=wrong)
    assert {finding.path for finding in caught.value.findings} == {
        "dagster.incremental.cron",
        "sink.strategy.backfill.chunk.column",
    }


def test_a_project_tells_people_of_all_its_campaigns_and_has_their_executor(tmp_path: Path) -> None:
    folder = tmp_path / "defs"
    shutil.copytree(DEFS.parent, folder / "orders")
    (folder / "else").mkdir()
    (folder / "else" / "defs.yaml").write_text("type: dagster.TemplatedSqlComponent\n")
    shared = project_definitions(folder)
    assert [sensor.name for sensor in shared.sensors or ()] == ["dpone_alerts", "dpone_run_failures"]
    assert shared.executor is not None
    assert component_paths(folder) == [folder / "orders" / "defs.yaml"]


def test_campaigns_of_both_kinds_share_a_project(tmp_path: Path) -> None:
    by_intervals = yaml.safe_load((EXAMPLES / "orders_intervals.yaml").read_text())
    by_intervals["name"] = "slices"
    context = ComponentTree.for_test().load_context
    slices, once = (Campaign.from_attributes_dict(attributes=each) for each in (by_intervals, attributes()))
    assert slices.spec.interval is not None
    parts = [slices.build_defs(context), once.build_defs(context), project_definitions(tmp_path)]
    groups = Definitions.merge(*parts).get_repository_def().asset_graph.all_group_names
    assert groups == {"orders", "slices"}


def test_increments_alone_are_no_campaign() -> None:
    increments = yaml.safe_load((EXAMPLES / "orders_increment.yaml").read_text())
    with pytest.raises(ManifestInvalid, match="increments only"):
        Campaign.from_attributes_dict(attributes=increments)


def test_dg_check_yaml_has_the_manifests_schema() -> None:
    """What `dg check yaml` does with it: see dagster_dg_core.check."""
    validator = Draft202012Validator(ManifestAttributes.model_json_schema())
    assert not list(validator.iter_errors(attributes()))
    wrong = attributes()
    wrong["sink"]["strategy"]["backfill"]["chunk"]["kindd"] = "uuid"
    wrong["sink"]["strategy"]["backfill"]["parallel_workers"] = 4_000
    assert {error.json_path for error in validator.iter_errors(wrong)} == {
        "$.sink.strategy.backfill.chunk",
        "$.sink.strategy.backfill.parallel_workers",
    }


@pytest.mark.slow
def test_dg_accepts_the_example_project(tmp_path: Path) -> None:
    """`dg check defs` checks the YAML first; both by the installed entry point."""
    shutil.copy(SETTINGS, tmp_path)  # which switch `dg`'s telemetry off too
    environment = {**os.environ, "DAGSTER_HOME": str(tmp_path)}
    dg = Path(sys.executable).parent / "dg"
    checked = subprocess.run(
        [dg, "check", "defs"], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "All component YAML validated successfully." in checked.stdout
    assert "All definitions loaded successfully." in checked.stdout
