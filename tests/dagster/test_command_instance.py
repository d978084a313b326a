"""The Dagster instance of a command: quicker than Dagster's own, and the same to whoever else reads its home."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest
import yaml
from dagster import AssetCheckKey, AssetKey, AssetMaterialization, DagsterEvent, DagsterInstance, EventLogEntry
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.event_api import EventRecordsFilter
from dagster._core.events import (
    AssetMaterializationPlannedData,
    DagsterEventBatchMetadata,
    DagsterEventType,
    EngineEventData,
    StepMaterializationData,
)
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager

from dpone_dagster.cli.instance import open_instance
from dpone_dagster.cli.step_output import StepOutput
from dpone_dagster.cli.storages import EventLog
from tests.dagster.conftest import SETTINGS

RUN = "a-run"
SHADOW, LATER, LAST = (AssetKey(["orders", name]) for name in ("shadow", "published_target", "xmin_handoff"))
PARTITIONS = [f"c{number:04}" for number in range(230)]
Opened = Callable[[Path], DagsterInstance]


@pytest.fixture(autouse=True)
def batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "100")


def home_with(folder: Path, settings: str = SETTINGS.read_text()) -> Path:
    folder.mkdir()
    (folder / "dagster.yaml").write_text(settings)
    return folder


def stock(home: Path) -> DagsterInstance:
    return DagsterInstance.from_config(str(home))


def events() -> list[DagsterEvent]:
    """As a campaign has them: planned ones of several assets and a check, plain ones, partitions, an asset of one."""

    def planned(key: AssetKey, partition: str | None) -> DagsterEvent:
        data = AssetMaterializationPlannedData(key, partition=partition, partitions_subset=None)
        return DagsterEvent.build_asset_materialization_planned_event("job", "step", data)

    def loaded(key: AssetKey, partition: str | None) -> DagsterEvent:
        tags = {"dagster/data_version": f"v-{partition}", "dagster/code_version": "1", "of": "dpone"}
        what = AssetMaterialization(key, partition=partition, metadata={"rows": 7}, tags=tags)
        kind = DagsterEventType.ASSET_MATERIALIZATION.value
        return DagsterEvent(kind, "job", event_specific_data=StepMaterializationData(what), step_key="step")

    check = AssetCheckEvaluationPlanned(asset_key=LATER, check_name="receipt", partitions_subset=None)
    kind = DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value
    engine = DagsterEvent(DagsterEventType.ENGINE_EVENT.value, "job", event_specific_data=EngineEventData({}))
    return [
        DagsterEvent(kind, "job", event_specific_data=check, step_key="step"),
        planned(LATER, None),
        planned(LAST, None),
        *(planned(SHADOW, partition) for partition in PARTITIONS),
        engine,
        *(loaded(SHADOW, partition) for partition in PARTITIONS[:-1]),
        engine,
        loaded(LATER, None),
    ]


def store(instance: DagsterInstance) -> None:
    """In batches but for the plain events, as Dagster does; at the same times wherever it is done."""
    moment = 1.7e9
    for number, (plain, group) in enumerate(groupby(events(), lambda e: e.event_type is DagsterEventType.ENGINE_EVENT)):
        together = list(group)
        for event in together:
            moment += 1
            entry = EventLogEntry(
                error_info=None, level=20, user_message="", run_id=RUN, timestamp=moment, dagster_event=event,
                step_key="step", job_name="job",
            )  # fmt: skip
            batch = None if plain else DagsterEventBatchMetadata(f"batch {number}", event is together[-1])
            instance.handle_new_event(entry, batch_metadata=batch)


def seen(home: Path) -> list[object]:
    """What Dagster's UI asks for, read by Dagster's own classes."""
    with stock(home) as instance:
        storage = instance.event_log_storage
        facts: list[object] = [
            [(r.storage_id, r.event_log_entry.to_json()) for r in storage.get_records_for_run(RUN).records]
        ]
        for key in (SHADOW, LATER, LAST):
            (record,) = instance.get_asset_records([key])
            latest = instance.get_latest_materialization_event(key)
            kinds = (DagsterEventType.ASSET_MATERIALIZATION, DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
            found = [storage.get_event_records(EventRecordsFilter(kind, asset_key=key)) for kind in kinds]
            facts += [
                record.asset_entry.last_materialization_storage_id,
                record.asset_entry.last_run_id,
                latest.to_json() if latest else None,
                sorted(instance.get_materialized_partitions(key)),
                [[(r.storage_id, r.partition_key, r.event_log_entry.to_json()) for r in each] for each in found],
                storage.get_event_tags_for_asset(key),
                sorted(storage.get_latest_tags_by_partition(key, kinds[0], ["dagster/data_version"]).items()),
            ]
        checks = storage.get_asset_check_execution_history(AssetCheckKey(LATER, "receipt"), limit=9)
        return [*facts, [(check.run_id, check.status) for check in checks]]


def test_what_is_stored_is_what_dagster_would_have_stored(tmp_path: Path) -> None:
    found = []
    for name, opened in (("stock", stock), ("ours", open_instance)):
        home = home_with(tmp_path / name)
        with opened(home) as instance:
            store(instance)
        found.append(seen(home))
    theirs, ours = found
    assert len(theirs[0]) == len(events())
    assert ours == theirs


def test_what_is_stored_outlives_its_process_and_is_read_while_the_file_is_open(tmp_path: Path) -> None:
    home = home_with(tmp_path / "dagster")
    program = (
        "import os, pathlib, sys\n"
        "from dpone_dagster.cli.instance import open_instance\n"
        "from tests.dagster.test_command_instance import store\n"
        "store(open_instance(pathlib.Path(sys.argv[1])))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    with open_instance(home) as instance:
        subprocess.run([sys.executable, "-c", program, str(home)], check=False)
        assert len(instance.event_log_storage.get_records_for_run(RUN).records) == len(events())
        assert len(seen(home)[0]) == len(events())


def test_a_reader_of_many_runs_keeps_two_files_open(tmp_path: Path) -> None:
    home = home_with(tmp_path / "dagster")
    with open_instance(home) as instance:
        for number in range(5):
            assert not instance.event_log_storage.get_records_for_run(f"run {number}").records
        links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        assert {Path(link).name for link in links if link.endswith(".db")} == {"index.db", "run 4.db"}


def test_settings_of_the_home_stay_as_they_are(tmp_path: Path) -> None:
    with open_instance(home_with(tmp_path / "packaged")) as ours:
        assert isinstance(ours.event_log_storage, EventLog)
        assert isinstance(ours.compute_log_manager, StepOutput)
    kept = {
        "storage": {"sqlite": {"base_dir": str(tmp_path / "elsewhere")}},
        "compute_logs": {
            "module": "dagster._core.storage.local_compute_log_manager",
            "class": "LocalComputeLogManager",
            "config": {"base_dir": str(tmp_path / "printed")},
        },
    }
    with open_instance(home_with(tmp_path / "own", yaml.safe_dump(kept))) as own:
        assert type(own.event_log_storage) is SqliteEventLogStorage
        assert type(own.compute_log_manager) is LocalComputeLogManager
    assert (tmp_path / "elsewhere").is_dir()


PRINTS = """
import os, pathlib, subprocess, sys
from dpone_dagster.cli.instance import open_instance
manager = open_instance(pathlib.Path(sys.argv[1])).compute_log_manager
print("before", flush=True)
with manager.capture_logs(["run", "compute_logs", "step"]):
    print("by print", flush=True)
    os.write(2, b"by a driver\\n")
    subprocess.run(["sh", "-c", "echo by a child"])
    if sys.argv[2:]:
        os.kill(os.getpid(), 9)
print("after")
"""


def test_what_a_step_prints_is_in_the_ui_and_in_the_log(tmp_path: Path) -> None:
    home = home_with(tmp_path / "dagster")
    done = subprocess.run([sys.executable, "-c", PRINTS, str(home)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["before", "by print", "by a child", "after"]
    assert done.stderr == "by a driver\n"
    with stock(home) as instance:
        manager, key = instance.compute_log_manager, ["run", "compute_logs", "step"]
        told = manager.get_log_data(key)
        assert (told.stdout, told.stderr) == (b"by print\nby a child\n", b"by a driver\n")
        assert manager.is_capture_complete(key)


def test_what_a_killed_step_has_printed_is_in_the_ui(tmp_path: Path) -> None:
    home = home_with(tmp_path / "dagster")
    subprocess.run([sys.executable, "-c", PRINTS, str(home), "killed"], capture_output=True, check=False)
    with stock(home) as instance:
        told = instance.compute_log_manager.get_log_data(["run", "compute_logs", "step"])
        assert (told.stdout, told.stderr) == (b"by print\nby a child\n", b"by a driver\n")
