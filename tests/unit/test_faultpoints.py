"""Faults by environment: what is refused, what fires when, and that every point in the registry is in the code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpone_dagster import faultpoints
from dpone_dagster.campaign.errors import FaultInjected, FaultsRefused
from dpone_dagster.faultpoints import CAMPAIGN_POINTS, CHUNK_POINTS, POINTS, Fault, arm, parse, reach
from tests.orders import make_manifest

PACKAGE = Path(faultpoints.__file__).parent
ALLOWED = {"DPONE_ALLOW_FAULTS": "1"}
REACHED = re.compile(r'\breach\("(\w+)"(, \w+(?:\.\w+)?)?\)')


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm({})


def test_the_grammar() -> None:
    assert parse("") == ()
    assert parse(" after_chunk_commit:3=kill; between_renames ;mid_extract=hold:/tmp/a:b=c") == (
        Fault("after_chunk_commit", 3, "kill"),
        Fault("between_renames", None, "kill"),
        Fault("mid_extract", None, "hold", Path("/tmp/a:b=c")),
    )


def test_everything_that_cannot_be_read_is_named_with_what_was_meant() -> None:
    with pytest.raises(FaultsRefused) as refused:
        parse(
            "after_chunk_comit;after_claim=kil;between_renames:2;after_claim:x;after_seal;after_seal=raise;after_stage=hold:"
        )
    assert [(finding.path, finding.advice) for finding in refused.value.findings] == [
        ("after_chunk_comit", "did you mean `after_chunk_commit`?"),
        ("after_claim=kil", "did you mean `kill`?"),
        ("between_renames:2", "write `between_renames`"),
        ("after_claim:x", "write the chunk's index, such as `after_claim:3`"),
        ("after_seal=raise", "name each point and chunk once"),
        ("after_stage=hold:", "did you mean `hold:<path>`?"),
    ]


def test_nothing_happens_without_faults() -> None:
    arm({})
    for point in POINTS:
        reach(point, 1)


def test_a_fault_fires_at_its_chunk_and_once_a_process() -> None:
    environment = {**ALLOWED, "DPONE_FAULT": "after_claim:3=raise"}
    arm(environment)
    reach("after_claim", 2)
    reach("after_stage", 3)
    with pytest.raises(FaultInjected, match="after_claim:3"):
        reach("after_claim", 3)
    arm(environment)
    reach("after_claim", 3)


def test_with_marks_it_fires_once_over_all_processes(tmp_path: Path) -> None:
    environment = {**ALLOWED, "DPONE_FAULT": "after_seal=kill", "DPONE_FAULT_MARKS": str(tmp_path)}
    code = "import os; from dpone_dagster.faultpoints import arm, reach; arm(os.environ); reach('after_seal')"
    runs = [subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **environment}) for _ in range(3)]
    codes = [run.wait() for run in runs]
    assert sorted(codes) == [-signal.SIGKILL, 0, 0]
    assert (tmp_path / "after_seal").read_text() == str(runs[codes.index(-signal.SIGKILL)].pid)


def test_a_hold_ends_with_its_file_and_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faultpoints, "HOLD_SECONDS", 0.0)
    path = tmp_path / "hold"
    arm({**ALLOWED, "DPONE_FAULT": f"after_seal=hold:{path};after_indexes=hold:{path}"})
    reach("after_seal")
    path.touch()
    with pytest.raises(FaultInjected, match="still there"):
        reach("after_indexes")


@pytest.mark.parametrize("command", ["status", "resume"])
@pytest.mark.parametrize("environment", [{"DPONE_FAULT": "after_claim"}, {**ALLOWED, "DPONE_FAULT": "after_clam"}])
def test_a_command_is_refused_before_anything_is_touched(
    command: str, environment: dict[str, str], tmp_path: Path
) -> None:
    manifest = tmp_path / "orders.yaml"
    manifest.write_text(str(make_manifest(4, 2)))
    nowhere = {"DPONE_CONNECTION_PG_OLTP": "postgresql://127.0.0.1:1/a", "DPONE_CONNECTION_PG_DWH": "postgresql:///b"}
    done = subprocess.run(
        [sys.executable, "-m", "dpone_dagster.cli", "backfill", command, str(manifest)],
        env={**os.environ, **nowhere, **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("FAULTS_REFUSED: DPONE_FAULT")
    assert done.stderr.count("FAULTS_REFUSED") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders.yaml"]


def points_in(*folders: str) -> dict[str, bool]:
    """Points that the code of these packages reaches, and whether each call names its chunk."""
    texts = (path.read_text() for folder in folders for path in (PACKAGE / folder).glob("*.py"))
    return {point: bool(chunk) for text in texts for point, chunk in REACHED.findall(text)}


def test_every_point_is_reached_and_the_adapters_reach_the_same_ones() -> None:
    reached = points_in("engine", "postgres", "mssql", "files")
    assert {point for point, chunk in reached.items() if chunk} == set(CHUNK_POINTS)
    assert {point for point, chunk in reached.items() if not chunk} == set(CAMPAIGN_POINTS)
    assert points_in("postgres") == points_in("mssql")
