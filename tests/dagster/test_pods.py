"""A lane that is a pod of its own and has to go; the whole of it, with processes, is in tests/deploy."""

from __future__ import annotations

import pytest
from dagster import AssetKey, DagsterEventType, DagsterInstance

from dpone_dagster.assets import shadow
from dpone_dagster.campaign.errors import Interrupted
from tests.dagster.project import Project, build_repository


def test_a_lane_whose_statement_was_cut_when_its_pod_had_to_go_is_tried_again(
    project: Project, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that sits in its own code gives no interrupt but an error of the statement that the heartbeat cut."""
    load_lane, told = shadow.load_lane, iter([True])

    def told_once(*arguments: object) -> object:
        if next(told, False):
            raise Interrupted("this process was told to stop")
        return load_lane(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(shadow, "load_lane", told_once)
    job = build_repository(str(project.manifest)).get_job("orders_campaign")
    chosen = [AssetKey(["orders", "shadow"])]
    result = job.execute_in_process(instance=instance, asset_selection=chosen, raise_on_error=False)
    assert result.success
    assert [e.event_type for e in result.all_events].count(DagsterEventType.STEP_UP_FOR_RETRY) == 1
