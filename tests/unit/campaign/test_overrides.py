"""What flags put in place of a manifest, and what that does to the campaign's identity."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpone_dagster.campaign.errors import ManifestInvalid, Refused
from dpone_dagster.campaign.manifests import parse_any
from dpone_dagster.campaign.overrides import RunOptions
from dpone_dagster.campaign.spec import CampaignSpec
from tests.unit.campaign.test_manifest import changed


def spec(manifest: dict[str, Any], **overrides: str | int) -> CampaignSpec:
    options = RunOptions({name.rstrip("_"): value for name, value in overrides.items()})
    read = parse_any(manifest, RunOptions.from_dict(options.as_dict())).to_spec()
    assert isinstance(read, CampaignSpec)
    return read


def test_every_override_takes_its_keys_place_and_the_manifest_stays() -> None:
    manifest = changed(BACKFILL__backfill_id="orders_1", dagster__lanes=1)
    before = copy.deepcopy(manifest)
    window = {"column": "id", "kind": "integer", "from_": "1", "to": "100", "step": "10"}
    read = spec(manifest, **window, parallel_workers=7, backfill_id="orders_2", retry_policy="failed_only")
    assert read.chunk.as_dict() == {"kind": "integer", "column": "id", "from": "1", "to": "100", "step": "10"}
    assert (read.plan.count, read.lanes, read.backfill_id, read.retry_policy) == (10, 7, "orders_2", "failed_only")
    assert manifest == before
    assert spec(manifest, buckets=4).plan.count == 4
    whole = changed(BACKFILL__chunk={"column": "id", "from": 1, "to": 100, "step": 10})
    assert spec(whole, kind="uuid", buckets=2).plan.count == 2


def test_another_window_is_another_campaign_unless_its_id_is_pinned() -> None:
    manifest = changed()
    assert spec(manifest, buckets=4).run_key != spec(manifest).run_key
    assert spec(manifest, parallel_workers=4).run_key == spec(manifest).run_key
    manifest["sink"]["strategy"]["backfill"]["backfill_id"] = "orders_1"
    assert spec(manifest, buckets=4).run_key == spec(manifest).run_key
    assert spec(manifest, buckets=4).chunk != spec(manifest).chunk


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        ({"from_": "1"}, "sink.strategy.backfill.chunk.from"),
        ({"inner_mode": "incremental_merge"}, "sink.strategy.backfill.inner_mode"),
        ({"retry_policy": "faild_only"}, "sink.strategy.backfill.retry_policy"),
        ({"parallel_workers": 65}, "sink.strategy.backfill.parallel_workers"),
        ({"max_chunks": 8}, "sink.strategy.backfill.chunk.buckets"),
    ],
)
def test_what_does_not_fit_is_refused_where_the_manifest_would_have_it(
    overrides: dict[str, str | int], path: str
) -> None:
    with pytest.raises(Refused) as refused:
        spec(changed(), **overrides)
    assert path in {finding.path for finding in refused.value.findings}


def test_increments_have_no_window() -> None:
    increments = yaml.safe_load(Path("examples/orders_increment.yaml").read_text())
    with pytest.raises(ManifestInvalid) as refused:
        parse_any(increments, RunOptions({"from": "2024-01-01"}))
    assert [finding.path for finding in refused.value.findings] == ["from"]
    parse_any(increments, RunOptions({"state_dir": "/evidence"}))  # their evidence goes there too
