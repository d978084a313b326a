"""`dpone state` and `dpone increment` as an operator runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.commands import dpone
from dpone_dagster.cli.state import checkpoint_report
from dpone_dagster.engine.increment import run_increment
from tests.answers import prove_answer
from tests.engine.campaign import finish, load
from tests.orders import Orders

GUIDE = ["rewind", "--backend", "postgres", "--state-type", "xmin", "landing.orders", "--reason"]


class Project:
    """A folder with `campaigns/`, and somebody at a shell in it."""

    def __init__(self, orders: Orders, folder: Path) -> None:
        self.orders, self.folder = orders, folder
        (folder / "campaigns").mkdir()
        self.manifest = orders.write(folder / "campaigns")

    def json(self, *words: str, exit_code: int = 0) -> dict[str, Any]:
        done = CliRunner().invoke(dpone, [*words, "--format", "json"])
        assert done.exit_code == exit_code, done.output
        answer = json.loads(done.stdout)
        assert isinstance(answer, dict)
        prove_answer(words, answer)
        return answer

    def rewind(self, *words: str, exit_code: int = 0) -> dict[str, Any]:
        return self.json("state", *GUIDE, "range replay", *words, exit_code=exit_code)

    def checkpoint(self) -> list[tuple[Any, ...]]:
        return self.orders.on_target("SELECT xmin, t::text FROM system.__dpone__xmin_checkpoints t")

    def process(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A real one, for what starts a Dagster run; given somewhere inside the project."""
        return subprocess.run(
            [sys.executable, "-m", "dpone_dagster.cli", *words, "--format", "json"],
            cwd=self.manifest.parent,
            env={**{k: v for k, v in os.environ.items() if not k.startswith("DAGSTER_")}, **self.orders.environment},
            text=True,
            capture_output=True,
            timeout=240,
        )


@pytest.fixture
def project(orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in [name for name in os.environ if name.startswith("DPONE_")]:
        monkeypatch.delenv(name)
    for name, value in orders.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return Project(orders, tmp_path)


@pytest.fixture
def increments(project: Project) -> Project:
    """Handed over, and two increments since."""
    load(project.orders)
    finish(project.orders)
    for number in (1, 2):
        project.orders.on_source("UPDATE public.orders SET note = %s WHERE paid", f"change {number}")
        run_increment(project.orders.spec, project.orders.connector, f"inc-{number}")
    return project


def test_a_rewind_as_the_guide_writes_it(increments: Project) -> None:
    project = increments
    evidence = project.folder / ".dpone" / "state" / "rewind-orders.json"
    before = project.checkpoint()
    gates = (
        [],
        ["--approved-by", "data-arch"],
    )
    for half in gates:
        seen = project.rewind("--to", "anchor", *half, "--evidence-output", str(evidence))
        assert seen["outcome"] == "preview"
        assert json.loads(evidence.read_text()) == seen
        assert project.checkpoint() == before
    for nobody in (["--yes"], ["--yes", "--approved-by", ""]):
        refused = CliRunner().invoke(dpone, ["state", *GUIDE, "range replay", "--to", "anchor", *nobody])
        assert (refused.exit_code, "--approved-by" in refused.output) == (2, True)
        assert project.checkpoint() == before
    done = project.rewind("--to", "anchor", "--yes", "--approved-by", "data-arch", "--evidence-output", str(evidence))
    assert json.loads(evidence.read_text()) == done
    assert (done["outcome"], done["approved_by"], done["reason"]) == ("done", "data-arch", "range replay")
    assert int(done["to"]["xid"]) < int(done["from"]["xid"])
    assert project.checkpoint() != before
    assert os.listdir(evidence.parent) == [evidence.name], "nothing half-written stays beside it"
    for secret in project.orders.environment.values():
        assert secret not in evidence.read_text()

    assert project.json("state", "inspect", "landing.orders")["reconciled"] is False
    assert project.rewind("--to", "anchor", exit_code=2)["error"]["code"] == "REWIND_REFUSED"


def test_what_cannot_be_is_refused_and_nothing_moves(increments: Project, tmp_path: Path) -> None:
    project = increments
    before = project.checkpoint()
    at = int(project.json("state", "inspect", "landing.orders")["anchor"]["xid"])
    approved = ("--yes", "--approved-by", "data-arch")
    assert "never moved forward" in project.rewind("--to", str(at + 1), *approved, exit_code=2)["error"]["message"]
    early = project.rewind("--to", "2025-01-01", *approved, exit_code=2)["error"]
    assert early["findings"], "it lists what is recorded"
    (tmp_path / "file").write_text("")
    unwritable = str(tmp_path / "file" / "evidence.json")
    answer = project.rewind("--to", "anchor", *approved, "--evidence-output", unwritable, exit_code=2)
    assert answer["error"]["code"] == "OUTPUT_UNWRITABLE"
    assert "evidence cannot be written" in answer["error"]["message"]
    assert project.json("state", *GUIDE, " ", "--to", "anchor", *approved, exit_code=2)["error"]["message"]
    assert CliRunner().invoke(dpone, ["state", "rewind", "landing.orders", "--to", "anchor"]).exit_code == 2
    assert project.checkpoint() == before


def test_the_target_is_found_among_the_manifests_of_the_project(increments: Project) -> None:
    project = increments
    by_name = project.json("state", "inspect", "landing.orders")
    for words in (
        [str(project.manifest)],
        ["landing.orders", "--manifest", str(project.manifest)],
        ["landing.orders", "--connection", "pg_dwh"],
    ):
        assert project.json("state", "inspect", *words)["anchor"] == by_name["anchor"]
    for words in (
        ["landing.others"],
        ["landing.others", "--manifest", str(project.manifest)],
        ["landing.orders", "--connection", "elsewhere"],
    ):
        error = project.json("state", "inspect", *words, exit_code=2)["error"]
        assert error["code"] == "TARGET_UNKNOWN"
        assert "landing.orders" in json.dumps(error)

    project.orders.manifest["name"] = "twin"
    project.orders.manifest["sink"]["connection_ref"] = "pg_other"
    project.orders.manifest["state"]["connection_ref"] = "pg_other"
    (project.manifest.parent / "twin.yaml").write_text(yaml.safe_dump(project.orders.manifest))
    error = project.json("state", "inspect", "landing.orders", exit_code=2)["error"]
    assert "--connection" in error["next_step"]
    assert project.json("state", "inspect", "landing.orders", "--connection", "pg_dwh") is not None


@pytest.mark.parametrize(
    ("keys", "settled"),
    [
        ({"reconcile_deletes": "first"}, False),
        ({"reconcile_deletes": "never"}, False),
        ({"reconcile_deletes": "always"}, True),
        ({"reconcile_cron": "0 2 * * sun"}, True),
    ],
)
def test_it_is_said_aloud_where_deleted_rows_stay(increments: Project, keys: dict[str, Any], settled: bool) -> None:
    increments.orders.manifest["dagster"] = {"incremental": keys}
    manifest = increments.orders.write(increments.manifest.parent)
    assert increments.json("increment", "status", str(manifest))["settles_deletes"] is settled
    notes = checkpoint_report(Asked(manifest)).notes
    assert any("stay in the target" in note for note in notes) is not settled


@pytest.mark.slow
def test_an_increment_by_hand(project: Project) -> None:
    orders, manifest = project.orders, str(project.manifest)
    refused = project.process("increment", "run", manifest)
    assert refused.returncode == 2
    assert json.loads(refused.stdout)["error"]["code"] == "HANDOFF_MISSING"
    assert not (project.folder / ".dpone").exists()
    load(orders)
    finish(orders)
    status = project.json("increment", "status", manifest)
    assert (status["may_run"], status["reconciled"]) == (True, False)
    orders.on_source("UPDATE public.orders SET note = 'changed' WHERE paid")

    done = project.process("increment", "run", manifest)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["increment"]["updated"] == 1_000
    assert answer["increment"]["lag_transactions"] > 0
    assert orders.target_rows() == orders.source_rows()
    assert (project.folder / ".dpone" / "dagster").is_dir()
    assert Path(answer["log"]).parent == project.folder / ".dpone" / "logs"
    assert os.listdir(project.manifest.parent) == [project.manifest.name]

    orders.on_source("DELETE FROM public.orders WHERE id IN (SELECT id FROM public.orders ORDER BY id LIMIT 10)")
    compared = json.loads(project.process("increment", "run", manifest, "--compare", "keys").stdout)
    assert (compared["outcome"], compared["increment"]["deleted"]) == ("done", 10)

    holder = orders.connector.target("another increment")
    try:
        with holder.transaction():
            holder.fence.lock_target(orders.spec.target, 0)
            held = project.process("increment", "run", manifest)
    finally:
        holder.close()
    assert held.returncode == 3, held.stdout + held.stderr
    (failure,) = json.loads(held.stdout)["failures"]
    assert failure["code"] == "CAMPAIGN_ACTIVE"
    assert "another increment" in failure["message"]
