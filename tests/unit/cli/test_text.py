"""What people see: short, in colours where they help, and with the command to type next."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dpone_dagster.campaign import errors
from dpone_dagster.campaign.errors import DponeError, Finding, PlanDrift
from dpone_dagster.campaign.ledger import ChunkRecord, ChunkState, Phase
from dpone_dagster.campaign.overrides import RunOptions
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.campaign_run import RunOutcome, outcome_report
from dpone_dagster.cli.commands import dpone
from dpone_dagster.cli.failures import Failure
from dpone_dagster.cli.looking import report_of
from dpone_dagster.cli.report import TYPED_WORDS, Report, Table, answer, answer_error, pasteable
from dpone_dagster.engine.inspect import CampaignStatus
from dpone_dagster.settings import load_spec
from tests.contract.samples import CONTRACT, campaign

EXAMPLE = Path("examples/orders.yaml")
ASKED = Asked(EXAMPLE, RunOptions({"buckets": 4}), ("--buckets", "4"))
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DponeError)]
SCREEN = 24
FAILED_NOW = ChunkRecord(0, ChunkState.FAILED, 1, 1)
FAILED_BEFORE = ChunkRecord(0, ChunkState.FAILED, 1, 1, failed_run_id="run-0")


def printed(capsys: pytest.CaptureFixture[str], report: Report) -> list[str]:
    with pytest.raises(SystemExit):
        answer("text", lambda: report)
    return capsys.readouterr().out.splitlines()


def error_text(capsys: pytest.CaptureFixture[str], error: DponeError, asked: Asked = ASKED) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        answer_error("text", error, asked)
    assert ended.value.code == error.exit_code
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_ends_with_a_command_that_can_be_pasted(
    kind: type[DponeError], capsys: pytest.CaptureFixture[str]
) -> None:
    last = error_text(capsys, kind("it is so", findings=[Finding("a.b", "is wrong", "mend it")]))[-1]
    assert last.startswith(("  next: dpone", "  then: dpone"))
    assert not set("`;") & set(last)
    assert "MANIFEST" not in last


def test_the_next_command_has_the_flags_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert error_text(capsys, errors.TransientFailure("it is so"))[-1] == (
        f"  next: dpone backfill resume {EXAMPLE} --buckets 4"
    )
    drift = error_text(capsys, PlanDrift("it was prepared differently"))
    assert "Leave out --buckets" in drift[-2]
    assert drift[-1] == f"  then: dpone backfill status {EXAMPLE}"
    other_mode = Asked(EXAMPLE, RunOptions({"inner_mode": "replace"}), ("--inner-mode", "replace"))
    told = error_text(capsys, PlanDrift("it was prepared differently"), other_mode)[-2]
    # The same chunks are the same campaign where no id is pinned too.
    assert "Leave out --inner-mode:" in told
    assert "that this campaign was prepared with" in told
    lanes = Asked(EXAMPLE, RunOptions({"parallel_workers": 2}), ("--parallel-workers", "2"))
    assert PlanDrift.next_step in error_text(capsys, PlanDrift("it was prepared differently"), lanes)[-2]


def test_a_failure_with_no_command_of_its_own_says_the_typed_one_again(tmp_path: Path) -> None:
    words = ["backfill", "status", str(tmp_path / "no such.yaml"), "--to", "2024-01-01"]
    lines = CliRunner().invoke(dpone, words).stderr.splitlines()
    assert lines[-1] == f"  then: dpone backfill status '{tmp_path}/no such.yaml' --to 2024-01-01"


@pytest.mark.parametrize(
    ("error", "typed", "then"),
    [
        (errors.BackupRefused("it is"), "backfill drop-backup M --yes", f"backfill status {EXAMPLE} --buckets 4"),
        (errors.RollbackRefused("it is", next_step="Load it anew."), "backfill rollback M", "backfill status"),
        (errors.CancelRefused("it is", next_step="Load it anew."), "backfill cancel M", "backfill status"),
        (errors.CampaignRolledBack("it is"), "backfill resume M", "backfill status"),
        (errors.CampaignRolledBack("it is"), "increment run M", "increment status"),
        (errors.HandoffMissing("it is", next_step="Swap first."), "increment run M", "increment status"),
        (errors.HandoffMissing("it is", next_step="Swap first."), "run M", "increment status"),
        (errors.IncrementRefused("it is"), "increment run M", "increment status"),
        (errors.IncrementRefused("it is", next_step="Raise it."), "increment run M", "increment run M"),
        (errors.GenerationStale("it is"), "backfill run M --execute", "backfill status"),
        (errors.GenerationStale("it is", next_step="Run it again."), "backfill run M --execute", "backfill run M"),
        (errors.CampaignActive("it is", next_step="Wait."), "backfill run M --execute", "backfill run M --execute"),
        (errors.KeyInvalid("it is"), "backfill run M --execute", "backfill run M --execute"),
        (errors.IntervalInvalid("it is"), "backfill plan M --interval-start x", "backfill plan --help"),
        (errors.UsageInvalid("it is"), "backfill plann M", "backfill --help"),
        (errors.RewindRefused("it is"), "state rewind landing.orders --to 1", "state inspect landing.orders"),
    ],
)
def test_the_same_command_is_next_only_where_it_can_succeed(
    error: DponeError, typed: str, then: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = typed.split()
    with click.Context(dpone) as context:
        context.meta[TYPED_WORDS] = words
        context.params["target"] = "landing.orders"
        last = error_text(capsys, error)[-1]
    assert last.startswith((f"  then: dpone {then}", f"  next: dpone {then}"))


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def coloured(**settings: bool) -> bool:
        good = CliRunner().invoke(dpone, ["backfill", "plan", str(EXAMPLE)], **settings).output
        bad = CliRunner().invoke(dpone, ["backfill", "plan", "nowhere.yaml"], **settings).output
        assert ("\x1b[" in good) is ("\x1b[" in bad)
        return "\x1b[" in good

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured(color=True)
    assert not coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured(color=True)


def test_tables_are_cut_to_a_screen_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    many = Table(("chunk",), tuple((str(n),) for n in range(1_500)))
    few = Table(("", ""), tuple((str(n), "fact") for n in range(6)), "facts")
    for tables in ((many,), (few, many), (many, many), (few,), ()):
        report = Report("it is so", {}, tables, ("a note",), ("dpone x", "dpone y"), heartbeat="it goes on")
        lines = printed(capsys, report)
        assert len(lines) <= SCREEN
        cut = [line for line in lines if line.endswith("more, with --format json or md")]
        assert len(cut) == tables.count(many)
        assert [line.endswith("fact") for line in lines].count(True) == 6 * tables.count(few), (
            "a short table stays whole"
        )
        if many in tables:
            assert len(lines) > SCREEN - 3, "the room there is is used"


def test_a_status_is_a_line_a_heartbeat_and_little_more(capsys: pytest.CaptureFixture[str]) -> None:
    spec = load_spec(EXAMPLE)
    moved = datetime(2024, 1, 1, 12, tzinfo=UTC)
    hashes = {"plan_hash": spec.plan_hash(CONTRACT), "config_hash": spec.config_hash(CONTRACT)}
    record = campaign(107, phase=Phase.LOADING, updated_at=moved, **hashes)
    progress = Progress(100, 2, 4, 1, 0, 4_000, 4_000, 8.0, 4.0)
    lines = printed(capsys, report_of(CampaignStatus(spec, record, progress, held=True), Asked(EXAMPLE)))
    assert lines[0].startswith("orders: loading, 4 of 107 chunks, 4,000 rows, 2 running, 1 failed")
    assert lines[1] == (
        "2 running, 100 pending, 1 failed, 1,000 rows/s, 1:43 to go, campaign last moved 2024-01-01 12:00:00+0000"
    )
    assert len(lines) < SCREEN
    # Whoever had the two chunks in hand is dead.
    lines = printed(capsys, report_of(CampaignStatus(spec, record, progress), Asked(EXAMPLE)))
    assert lines[0].startswith("orders: loading, 4 of 107 chunks, 4,000 rows, 2 left in hand, 1 failed")
    assert lines[1] == (
        "nobody works on it, 2 left in hand, 100 pending, 1 failed, campaign last moved 2024-01-01 12:00:00+0000"
    )


def test_a_status_says_who_cancelled_and_why_and_what_was_verified(capsys: pytest.CaptureFixture[str]) -> None:
    spec = load_spec(EXAMPLE)
    hashes = {"plan_hash": spec.plan_hash(CONTRACT), "config_hash": spec.config_hash(CONTRACT)}
    said = {"cancel_requested_by": "ada", "cancel_reason": "lunch", "stop_reason": "chunk 0 failed: X"}
    progress = Progress(100, 2, 4, 1, 0, 4_000, 4_000, 8.0, 4.0)

    def shown(phase: Phase, checks: list[dict[str, Any]], compared: str = "row_count") -> str:
        validation = {"passed": True, "checks": checks} if checks else None
        record = campaign(107, phase=phase, validation=validation, **said, **hashes)
        status = CampaignStatus(replace(spec, verification=compared), record, progress)
        return "\n".join(" ".join(line.split()) for line in printed(capsys, report_of(status, Asked(EXAMPLE))))

    text = shown(Phase.CANCELLED, [])
    assert "cancelled by ada: lunch" in text
    assert "stopped:" not in text
    assert "verification" not in text
    numbers = {"digested_chunks": 107, "source_digest": "1", "target_digest": "1"}
    text = shown(Phase.LOADING, [{"numbers": numbers}], "digest")
    assert "verification digest passed: 107 digested chunks" in text
    assert "cancelled" not in text
    assert "stopped: chunk 0 failed" in text
    text = shown(Phase.LOADING, [{"numbers": {"chunks_with_other_row_counts": 2}}])
    assert "verification row_count warning: 2 chunks with other row counts" in text


@pytest.mark.parametrize(("failed", "exit_code"), [((), 3), ((FAILED_NOW,), 1), ((FAILED_BEFORE,), 3)])
def test_a_run_that_finds_somebody_at_work_ends_as_the_command_that_does(
    failed: tuple[ChunkRecord, ...], exit_code: int
) -> None:
    status = CampaignStatus(load_spec(EXAMPLE), None, Progress(4, 0, 0, 0, 0, 0, 0, 0.0, 0.0), failed=failed)
    lane = Failure("lane_0", "CAMPAIGN_ACTIVE", "another campaign is at work", "wait for it")
    outcome = RunOutcome(False, None, None, 1.0, status, 4, (lane,))
    assert outcome_report(outcome, Asked(EXAMPLE)).exit_code == exit_code


@pytest.mark.parametrize("words", [["plan"], ["run"]])
def test_what_needs_no_server_fits_on_a_screen(words: list[str]) -> None:
    assert len(CliRunner().invoke(dpone, ["backfill", *words, str(EXAMPLE)]).output.splitlines()) <= SCREEN


def test_an_error_as_json_has_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        answer_error("json", errors.TransientFailure("it is so"), ASKED)
    said = json.loads(capsys.readouterr().out)["error"]
    assert said["next_command"] == f"dpone backfill resume {EXAMPLE} --buckets 4"


def test_long_work_shows_a_sign_of_life_on_a_terminal_and_nowhere_else() -> None:
    program = "from dpone_dagster.cli.terminal import waiting\nwith waiting('orders: looking'): print('done')"
    here, there = pty.openpty()
    shown = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=there, text=True, check=True)
    os.close(there)
    assert "orders: looking" in os.read(here, 65_536).decode()
    os.close(here)
    silent = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (shown.stdout, silent.stdout, silent.stderr) == ("done\n", "done\n", "")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("dpone backfill retry", "retry-failed"),
        ("dpone backfill status --ki", "--kind"),
        ("dpone backfill plan --kind uu", "uuid"),
    ],
)
def test_the_shell_completes_commands_flags_and_values(line: str, offered: str) -> None:
    words = line.split()
    asked = {"_DPONE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    program = "from dpone_dagster.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert f"plain,{offered}" in done.stdout.splitlines()


def test_advice_is_made_pasteable_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(Path.cwd() / ".venv/bin/dpone"), "backfill", "status"])
    monkeypatch.setenv("PATH", "/nowhere")
    asked = Asked(EXAMPLE, RunOptions({}), ())
    said = pasteable("mend it; then dpone backfill resume MANIFEST", asked)
    assert said == f"mend it; then .venv/bin/dpone backfill resume {EXAMPLE}"
    assert pasteable(said, asked) == said


def test_a_cell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(("where", "what"), (("chunk 1", "the first line\nand the second"),))
    lines = printed(capsys, Report("orders", {}, tables=(table,)))
    assert any(line.split() == ["chunk", "1", "the", "first", "line", "and", "the", "second"] for line in lines)
