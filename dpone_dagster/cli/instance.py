"""The Dagster instance of a command: that of its home, with quicker classes of ours in place of Dagster's defaults."""

from __future__ import annotations

import os
from pathlib import Path

from dagster import DagsterInstance
from dagster._core.instance.ref import InstanceRef
from dagster._serdes import ConfigurableClassData

from dpone_dagster.assets.shadow import EVENT_BATCH
from dpone_dagster.campaign.errors import DagsterHomeInvalid
from dpone_dagster.cli.step_output import StepOutput
from dpone_dagster.cli.storages import EventLog, Runs, Schedules

_STORAGES = {"run_storage": Runs, "event_log_storage": EventLog, "schedule_storage": Schedules}


def open_instance(home: Path) -> DagsterInstance:
    """The instance of a folder; what its `dagster.yaml` says itself stays as it is. The files are the same either way.

    Args:
        home: Dagster's.

    Raises:
        DagsterHomeInvalid: Dagster does not open it.
    """
    try:
        return _opened(home)
    except Exception as error:  # its storages raise what they like
        said = " ".join(str(error).split())
        raise DagsterHomeInvalid(f"Dagster does not open its state in {home}: {said}") from error


def _opened(home: Path) -> DagsterInstance:
    ours: dict[str, object] = {}
    stock, default = InstanceRef.from_dir(str(home)), InstanceRef.config_defaults(str(home))
    if stock.storage_data == default["storage"]:
        for setting, kind in _STORAGES.items():
            ours[setting] = _in_place_of(default[setting], kind)
        os.environ.setdefault(*EVENT_BATCH)  # of the planned events; steps have the environment of the fork server
    if stock.compute_logs_data == default["compute_logs"]:
        ours["compute_logs"] = _in_place_of(default["compute_logs"], StepOutput)
    return DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=ours))


def _in_place_of(default: ConfigurableClassData | None, ours: type) -> dict[str, object]:
    return {
        "module": ours.__module__,
        "class": ours.__name__,
        "config": dict(default.config_dict) if default else {},
    }
