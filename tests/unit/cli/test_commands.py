"""What `dpone` prints and how it exits, for everything that needs no server."""

from __future__ import annotations

import json
import os
from collections.abc import Set
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from docs.answers import ANSWERS
from docs.commands import leaves
from docs.generate import FOLDER
from dpone_dagster.cli.commands import dpone
from tests.answers import prove_answer
from tests.imports import READING_A_MANIFEST, imported

EXAMPLE = Path("examples/orders.yaml")


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(dpone, [str(word) for word in words])


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """The example with 512 chunks."""
    data = yaml.safe_load(EXAMPLE.read_text())
    data["sink"]["strategy"]["backfill"]["chunk"]["buckets"] = 512
    path = tmp_path / "big orders.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def broken(manifest: Path) -> Path:
    data = yaml.safe_load(manifest.read_text())
    data["sink"]["strategy"]["unique_key"] = []
    data["sorce"] = 1
    path = manifest.with_name("broken.yaml")
    path.write_text(yaml.safe_dump(data))
    return path


def test_plan_as_json_has_the_public_names(manifest: Path) -> None:
    result = run("backfill", "plan", manifest, "--format", "json")
    assert result.exit_code == 0
    plan = json.loads(result.output)
    assert plan["chunk_count"] == 512
    assert plan["lanes"] == 4
    assert plan["partitions"]["count"] == 512
    assert plan["chunks"]["first"][0]["lower"] == "00000000-0000-0000-0000-000000000000"
    assert plan["chunks"]["last"][-1] == {
        "index": 511,
        "partition": f"c0511-{plan['run_key'][:4]}",
        "lower": "ff800000-0000-0000-0000-000000000000",
        "upper": "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "upper_inclusive": True,
    }
    assert plan["shadow"].startswith("landing.orders__dpone_shadow_")
    assert plan["backup"].startswith("landing.orders__dpone_backup_")
    assert plan["backfill"]["progress"]["pending"] == 512
    assert {
        "mode", "phase", "validation", "expected_rows", "actual_rows", "duplicate_keys", "receipt_id", "backup_retained"
    } <= plan["backfill"]["publication"].keys()  # fmt: skip


def test_a_plan_says_how_many_runs_a_backfill_is(manifest: Path) -> None:
    assert "runs of one lane" not in run("backfill", "plan", manifest).output
    data = yaml.safe_load(manifest.read_text())
    data["sink"]["strategy"]["backfill"]["parallel_workers"] = 1
    data["dagster"]["mapping"] = {"mode": "summary", "max_items": 40, "max_active": 8, "pool": "dpone_backfill"}
    manifest.write_text(yaml.safe_dump(data))
    said = " ".join(run("backfill", "plan", manifest).output.split())
    assert "40 runs of one lane, 8 at a time in the Dagster pool `dpone_backfill`" in said
    assert "one run of 8 lanes" in said


@pytest.mark.parametrize("form", ["text", "json", "md"])
def test_a_plan_is_the_same_every_time(manifest: Path, form: str) -> None:
    first, second = (run("backfill", "plan", manifest, "--format", form) for _ in range(2))
    assert first.exit_code == 0
    assert first.output == second.output


def test_plan_for_people_is_one_line_a_table_and_the_next_commands(manifest: Path) -> None:
    lines = run("backfill", "plan", manifest).output.splitlines()
    assert lines[0] == "orders: 512 uuid chunks of id, 4 lanes, public.orders → landing.orders"
    assert any("506 more" in line for line in lines)
    assert lines[-3:] == [
        "next:",
        f"  dpone backfill doctor '{manifest}'",
        f"  dpone backfill run '{manifest}' --execute",
    ]


def test_markdown_is_tables_and_a_code_block(manifest: Path) -> None:
    output = run("backfill", "plan", manifest, "--format", "md").output
    assert output.startswith("**orders: 512 uuid chunks")
    assert "| chunk | partition | range of id |\n| --- | --- | --- |\n| 0 | c0000-" in output
    assert output.rstrip().endswith("```")


def test_a_run_without_execute_says_that_nothing_was_touched(manifest: Path) -> None:
    result = run("backfill", "run", manifest)
    assert result.exit_code == 0
    assert result.output.startswith("dry run, nothing was touched.")
    assert json.loads(run("backfill", "run", manifest, "--format", "json").output)["dry_run"] is True


@pytest.mark.parametrize("command", ["plan", "run", "resume", "status", "doctor"])
def test_a_wrong_manifest_names_everything_at_once_and_exits_2(manifest: Path, command: str) -> None:
    result = run("backfill", command, broken(manifest))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("MANIFEST_INVALID: ")
    assert "sorce" in result.stderr
    assert "sink.strategy.unique_key" in result.stderr
    assert "next: " in result.stderr


def test_an_error_as_json_goes_to_standard_output(manifest: Path) -> None:
    result = run("backfill", "plan", broken(manifest), "--format", "json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "MANIFEST_INVALID"
    assert {finding["path"] for finding in error["findings"]} >= {"sorce", "sink.strategy.unique_key"}
    assert error["next_step"]


@pytest.mark.parametrize("json_flag", [("--format", "json"), ("--format=json",)])
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("backfill", "plan", "MANIFEST", "--colour"), "--colour"),
        (("backfill", "plan"), "MANIFEST"),
        (("backfill", "plann", "MANIFEST"), "plann"),
        (("backfill", "cancel", "MANIFEST", "--requested-by", "ada"), "--reason"),
        (("backfill", "rollback", "MANIFEST", "--yes"), "--approved-by"),
        (("backfill", "plan", "MANIFEST", "--kind", "hash"), "hash"),
    ],
)
def test_a_wrong_command_line_is_told_as_json_to_who_asks_for_it(
    manifest: Path, words: tuple[str, ...], named: str, json_flag: tuple[str, ...]
) -> None:
    typed = [str(manifest) if word == "MANIFEST" else word for word in words]
    result = run(*typed, *json_flag)
    assert (result.exit_code, result.stderr) == (2, "")
    answer = json.loads(result.stdout)
    assert answer["error"]["code"] == "USAGE_INVALID"
    assert named in answer["error"]["message"]
    command = "backfill" if words[1] == "plann" else f"backfill {words[1]}"
    assert answer["error"]["next_command"] == f"dpone {command} --help"
    if words[1] != "plann":
        prove_answer(words[:2], answer)
    as_text = run(*typed)
    assert (as_text.exit_code, as_text.stdout) == (2, "")
    assert named in as_text.stderr


@pytest.mark.parametrize("command", [("run", "--execute"), ("resume",), ("status",), ("doctor",)])
def test_a_missing_connection_is_refused_with_its_variable(
    manifest: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPONE_CONNECTION_POSTGRES_OLTP", raising=False)
    monkeypatch.delenv("DPONE_CONNECTIONS_FILE", raising=False)
    result = run("backfill", command[0], manifest, *command[1:])
    assert result.exit_code == 2
    assert "DPONE_CONNECTION_POSTGRES_OLTP" in result.stderr


def test_a_manifest_that_is_not_there(tmp_path: Path) -> None:
    result = run("backfill", "plan", tmp_path / "nowhere.yaml")
    assert result.exit_code == 2
    assert "nowhere.yaml" in result.stderr


def test_check_names_every_wrong_file(manifest: Path) -> None:
    good = run("manifest", "check", manifest, EXAMPLE)
    assert (good.exit_code, good.output.splitlines()[0]) == (0, "2 manifests, nothing wrong")
    bad = run("manifest", "check", manifest, broken(manifest), manifest.with_name("absent.yaml"))
    assert bad.exit_code == 2
    assert "broken.yaml: sorce" in bad.stderr
    assert "absent.yaml" in bad.stderr
    assert f"- {manifest}" not in bad.stderr


def test_check_without_names_takes_what_the_project_serves(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPONE_MANIFESTS", str(manifest))
    assert json.loads(run("manifest", "check", "--format", "json").output)["manifests"][0]["chunks"] == "512"


def test_schema_is_json_schema() -> None:
    schema = json.loads(run("manifest", "schema").output)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert run("manifest", "schema", "--format", "md").output.startswith("```json\n{")


def test_version() -> None:
    assert run("--version").output == "dpone 0.1.0\n"


def test_every_command_has_help() -> None:
    def walk(words: list[str], command: object) -> None:
        assert "--help" in run(*words, "--help").output
        for name, inner in getattr(command, "commands", {}).items():
            assert inner.help, name
            walk([*words, name], inner)

    walk([], dpone)


# The flags of the guide's reference, on every command of a campaign.
OVERRIDES = {
    *("--column", "--from", "--to", "--step", "--kind", "--inner-mode", "--parallel-workers", "--max-chunks"),
    *("--state-dir", "--backfill-id", "--interval-start", "--interval-end", "--execution-date", "--format"),
}


def test_every_command_and_flag_of_the_guide_is_there_and_every_one_is_in_the_papers() -> None:
    page = (FOLDER / "cli.md").read_text()
    found = dict(leaves(dpone))
    wanted = (
        "plan",
        "run",
        "resume",
        "retry-failed",
        "status",
        "cancel",
        "doctor",
        "release",
        "rollback",
        "drop-backup",
        "report",
    )
    assert {*(f"backfill {name}" for name in wanted), "state inspect", "state rewind", "run"} <= found.keys()
    for words, command in found.items():
        section = page.partition(f"## dpone {words} ")[2] or page.partition(f"## dpone {words}\n")[2]
        assert section, f"{words} is undocumented"
        flags = {flag for option in command.params if isinstance(option, click.Option) for flag in option.opts}
        if words.startswith("backfill") or words == "run":
            assert flags >= OVERRIDES, words
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, (words, option.opts)
                where = page if getattr(option, "section", None) else section.partition("\n## ")[0]
                assert all(f"`{flag}" in where for flag in option.opts), (words, option.opts)


def test_every_command_has_a_schema_of_its_json(manifest: Path) -> None:
    assert {words for words, _ in leaves(dpone)} == {*ANSWERS, "manifest schema"}
    for words in (["backfill", "plan"], ["backfill", "run"], ["manifest", "check"]):
        prove_answer(words, json.loads(run(*words, manifest, "--format", "json").output))
        prove_answer(words, json.loads(run(*words, broken(manifest), "--format", "json").output))
    with pytest.raises(AssertionError, match="secret"):
        prove_answer(["manifest", "check"], {"manifests": [], "secret": 1})
    with pytest.raises(AssertionError):
        prove_answer(["manifest", "check"], {})


def test_the_advisor_reads_files_and_does_without_a_server(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPONE_CONNECTION_POSTGRES_OLTP", raising=False)
    before = manifest.read_bytes()
    evidence = manifest.with_name("chunks.json")
    evidence.write_text(json.dumps({"chunks": [{"state": "committed", "rows": 0}] * 20}))
    words = ["backfill", "plan", manifest, "--advisor", "--advisor-evidence", evidence]
    answer = json.loads(run(*words, "--advisor-profile", "speed", "--format", "json").output)
    prove_answer(["backfill", "plan"], answer)
    overrides = answer["advisor"]["recommended_overrides"]
    assert overrides == {
        "sink.strategy.backfill.chunk.buckets": 64,
        "sink.strategy.backfill.parallel_workers": 8,
    }
    lines = run(*words).output.splitlines()
    assert lines[1] == "advisor (balanced): decrease buckets, risk low"
    assert any("was not looked at: CONNECTION_MISSING" in line for line in lines)
    assert lines[-1] == f"  dpone backfill plan '{manifest}' --buckets 64 --backfill-id orders_initial_v1_64"
    assert len(lines) <= 24
    again = run(*words, "--lanes", "2", "--backfill-id", "b").output.splitlines()[-1]
    assert again == f"  dpone backfill plan '{manifest}' --parallel-workers 4 --backfill-id b_64 --buckets 64"
    assert manifest.read_bytes() == before
    for text in ("{", "{}", "[" * 100_000, f'{{"chunks": [{{"rows": 1{"0" * 400}}}]}}'):
        evidence.write_text(text)
        refused = run(*words, "--format", "json")
        assert (refused.exit_code, json.loads(refused.output)["error"]["code"]) == (2, "EVIDENCE_INVALID")


def test_the_shipped_examples_pass_together() -> None:
    checked = run("manifest", "check", *sorted(Path("examples").glob("*.yaml")))
    assert (checked.exit_code, "nothing wrong" in checked.output) == (0, True)


def test_two_names_of_one_flag_are_refused(manifest: Path) -> None:
    refused = run("backfill", "plan", manifest, "--lanes=2", "--parallel-workers", "3")
    assert (refused.exit_code, "are the same flag" in refused.output) == (2, True)


def test_cancel_needs_a_reason_and_a_name(manifest: Path) -> None:
    for words in (["--reason", "x"], ["--requested-by", "ada"]):
        refused = run("backfill", "cancel", manifest, *words)
        assert (refused.exit_code, "Missing option" in refused.output) == (2, True)


def test_flags_and_variables_take_the_manifests_place(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = json.loads(run("backfill", "plan", manifest, "--format", "json").output)
    monkeypatch.setenv("DPONE_INTERVAL_START", "2024-01-01")
    flags = ["--buckets", "16", "--lanes", "2", "--execution-date", "2024-01-02"]
    other = json.loads(run("backfill", "plan", manifest, *flags, "--format", "json").output)
    assert (other["chunk_count"], other["lanes"]) == (16, 2)
    assert (other["run_key"] == plan["run_key"]) is (plan["backfill_id"] is not None)
    assert other["backfill"]["interval"]["start"] == "2024-01-01T00:00:00+00:00"
    assert other["backfill"]["interval"]["logical_date"] == "2024-01-02T00:00:00+00:00"
    lines = run("backfill", "plan", manifest, *flags).output.splitlines()
    again = f"'{manifest}' --buckets 16 --parallel-workers 2 --execution-date 2024-01-02"
    assert lines[-1] == f"  dpone backfill run {again} --execute"
    wrong = run("backfill", "plan", manifest, "--interval-end", "tomorrow", "--format", "json")
    assert (wrong.exit_code, json.loads(wrong.output)["error"]["code"]) == (2, "INTERVAL_INVALID")


# What a start takes is what it imports.
@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["--help"], {"click"}),
        (["backfill", "--help"], {"click"}),
        (["backfill", "plan", "MANIFEST"], READING_A_MANIFEST),
        (["backfill", "status", "MANIFEST"], READING_A_MANIFEST),
    ],
)
def test_a_command_imports_nothing_that_it_does_not_need(words: list[str], needed: Set[str], manifest: Path) -> None:
    unconnected = {name: value for name, value in os.environ.items() if not name.startswith("DPONE_")}
    found = imported([str(manifest) if word == "MANIFEST" else word for word in words], unconnected)
    assert found.packages <= needed
    assert "dpone_dagster.campaign.alerts" not in found.ours
    assert found.sweeps == 0


def test_a_window_says_what_it_leaves_out_and_a_whole_keyspace_nothing(manifest: Path) -> None:
    assert "initial load" not in run("backfill", "plan", manifest).output
    data = yaml.safe_load(manifest.read_text())
    window = {"column": "placed_at", "kind": "date", "from": "2024-01-01", "to": "2024-12-31", "step": "1mo"}
    data["sink"]["strategy"]["backfill"]["chunk"] = window | {"immutable": True}
    manifest.write_text(yaml.safe_dump(data))
    said = "Only rows of public.orders with placed_at from 2024-01-01 to 2025-01-01 exclusive are part of the"
    for words in (("plan",), ("run",)):
        assert said in run("backfill", words[0], manifest).output
