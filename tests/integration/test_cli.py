"""`dpone backfill` as an operator runs it: real processes, real servers, a Dagster instance of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from dpone_dagster.engine.sessions import target_session
from tests.engine.campaign import finish, load
from tests.imports import READING_A_MANIFEST, imported
from tests.operators import Operator
from tests.orders import Orders
from tests.pages import HtmlPage
from tests.waiting import PATIENCE_SECONDS, within


@contextlib.contextmanager
def source_held(orders: Orders) -> Iterator[None]:
    """While it lasts no lane gets a row: each waits for the table."""
    with psycopg.connect(orders.source_url) as holder:
        holder.execute("LOCK TABLE public.orders IN ACCESS EXCLUSIVE MODE")
        yield


def wait_for(condition: Callable[[], bool]) -> None:
    assert within(PATIENCE_SECONDS, condition)


def lanes_wait(orders: Orders, process: subprocess.Popen[str] | None = None) -> bool:
    """Whether a lane waits for the source; the process that its lanes belong to must not end meanwhile."""
    if process is not None:
        assert process.poll() is None, process.communicate()
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return bool(orders.on_source(waiting)[0][0])


def locks(orders: Orders) -> int:
    return int(orders.on_target("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")[0][0])


def test_a_campaign_from_the_first_plan_to_a_second_run(operator: Operator) -> None:
    orders = operator.orders
    assert operator.json("plan")["chunk_count"] == 8
    assert operator.json("run")["dry_run"] is True
    assert operator.json("doctor")["next_action"].startswith("dpone backfill run ")
    assert operator.json("status")["phase"] == "planned"
    assert operator.state() == {}, "looking must not create anything"

    done = operator.json("run", "--execute")
    assert done["outcome"] == "done"
    assert orders.source_rows() == orders.target_rows()
    progress, publication = done["backfill"]["progress"], done["backfill"]["publication"]
    assert (progress["committed"], progress["rows_loaded"], progress["failed"]) == (8, 2_000, 0)
    assert (publication["phase"], publication["validation"]) == ("handoff_committed", "passed")
    assert [publication[name] for name in ("expected_rows", "actual_rows", "duplicate_keys")] == [2_000, 2_000, 0]
    assert publication["backup_retained"] is True
    assert done["run_id"] in Path(done["log"]).read_text()

    before = operator.state()
    operation = {"operation_status": "succeeded", "selected_chunks": 8}
    assert operator.json("status")["backfill"] | operation == done["backfill"]
    assert json.loads(Path(done["evidence"]).read_text()) == done
    looked = imported(["backfill", "status", str(operator.manifest)], operator.environment)
    assert looked.sweeps == 0
    assert looked.packages == READING_A_MANIFEST | {"psycopg", "psycopg_binary"}
    seen = operator.json("doctor")
    assert (seen["findings"], seen["warnings"]) == ([], [])
    settings = operator.folder / ".dpone" / "dagster" / "dagster.yaml"
    shipped = settings.read_text()
    settings.write_text(shipped.replace("free_slots_after_run_end_seconds: 60", ""))
    (warning,) = operator.json("doctor")["warnings"]
    assert warning["path"] == str(settings)
    assert "1 warning" in operator.run("doctor").stdout
    settings.write_text(shipped)
    again = operator.run("run", "--execute")
    assert again.returncode == 0
    assert again.stdout.startswith("nothing to do, the campaign is finished")
    assert publication["receipt_id"] in again.stdout
    assert operator.state() == before
    assert len(operator.dagster_runs()) == 1


def test_a_bad_value_fails_its_chunk_by_name_and_resume_finishes_on_a_terminal(operator: Operator) -> None:
    orders = operator.orders
    orders.backfill["verification"] = "digest"  # which makes the first to meet the value another statement
    orders.write(operator.folder)
    orders.on_target("ALTER TABLE landing.orders ALTER COLUMN note TYPE varchar(40)")
    first = "id = (SELECT min(id::text)::uuid FROM public.orders)"
    orders.on_source(f"UPDATE public.orders SET note = repeat('secret ', 10) WHERE {first}")
    failed = operator.json("run", "--execute", exit_code=1)
    assert failed["outcome"] == "failed"
    assert len(failed["failures"]) == 1, failed["failures"]
    (failure,) = failed["failures"]
    assert (failure["place"], failure["code"]) == ("chunk 0", "VALUE_NOT_REPRESENTABLE")
    assert "note" in failure["message"]
    assert "secret" not in json.dumps(failed) + Path(failed["log"]).read_text()
    assert orders.on_target("SELECT count(*) FROM landing.orders") == [(3,)]
    status = operator.run("status")
    assert "chunk  state   tries  code" in status.stdout
    assert f"dpone backfill resume {operator.manifest}" in status.stdout

    orders.on_source(f"UPDATE public.orders SET note = 'short' WHERE {first}")
    # As loud as Dagster gets: then its run worker, which is the command's own process, logs too.
    (operator.folder / ".dpone/dagster/dagster.yaml").write_text("python_logs: {python_log_level: DEBUG}\n")
    screen = on_a_terminal(operator, "resume")
    assert orders.source_rows() == orders.target_rows()
    assert "8/8" in screen
    assert "handoff_committed" in screen
    assert " - dagster - " not in screen, "Dagster's log belongs into its file"
    (evidence,) = (operator.folder / ".dpone/backfill").glob("*.execution.json")
    compared = json.loads(evidence.read_text())["backfill"]["verification"]
    assert (compared["status"], compared["compared"], compared["digested_chunks"]) == ("passed", "digest", 8)
    assert compared["source_digest"] == compared["target_digest"]
    assert operator.json("status")["backfill"]["verification"] == compared


def on_a_terminal(operator: Operator, *words: str) -> str:
    """Run a command on a terminal of its own; what it showed."""
    here, there = pty.openpty()
    process = operator.start(*words, stdin=there, stdout=there, stderr=there)
    os.close(there)
    screen = b""
    with contextlib.suppress(OSError):  # how Linux says that nobody has the terminal open any more
        while block := os.read(here, 65_536):
            screen += block
    os.close(here)
    assert process.wait(PATIENCE_SECONDS) == 0, screen.decode()
    return screen.decode()


def test_a_blocked_campaign_names_its_red_check_wherever_one_looks(operator: Operator) -> None:
    operator.orders.on_source("DELETE FROM public.orders")
    done = operator.json("run", "--execute", exit_code=1)
    (failure,) = done["failures"]
    assert (failure["place"], failure["code"]) == ("not_empty", "VALIDATION_BLOCKED")
    assert failure["message"] == "the source was empty and landing.orders is not"
    assert "new `backfill_id`" in failure["next_step"]
    status, doctor = operator.json("status"), operator.json("doctor", exit_code=1)
    (finding,) = status["findings"]
    assert (finding["path"], finding["problem"]) == ("not_empty", failure["message"])
    assert doctor["findings"] == [finding]
    assert doctor["next_action"] == status["recommended_action"] == done["recommended_action"] == failure["next_step"]
    for words, exit_code in (("status", 0), ("doctor", 1)):
        seen = operator.run(words)
        assert (seen.returncode, "nothing wrong" in seen.stdout) == (exit_code, False)
        assert failure["message"] in seen.stdout
    assert "resume" not in operator.run("status").stdout


def test_stopped_then_killed_and_resumed(operator: Operator) -> None:
    orders = operator.orders
    with source_held(orders):
        stopped = operator.start("run", "--execute")
        wait_for(lambda: lanes_wait(orders, stopped))
        stopped.send_signal(signal.SIGTERM)
        _, err = stopped.communicate(timeout=PATIENCE_SECONDS)
        assert stopped.returncode == 130, err
        assert "INTERRUPTED" in err
        assert "dpone backfill resume" in err
        assert locks(orders) == 0
        wait_for(lambda: not lanes_wait(orders))  # the source sees in two seconds that its clients are gone

        killed = operator.start("resume")
        wait_for(lambda: lanes_wait(orders, killed))
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
    assert [run.is_finished for run in operator.dagster_runs()] == [False, True], "nobody could say that it is dead"

    assert operator.run("resume").returncode == 0
    assert orders.source_rows() == orders.target_rows()
    assert [run.status.value for run in operator.dagster_runs()] == ["SUCCESS", "FAILURE", "CANCELED"]


def test_cancelled_while_at_work_refused_to_run_and_resumed(operator: Operator) -> None:
    orders = operator.orders
    with source_held(orders):
        first = operator.start("run", "--execute")
        wait_for(lambda: lanes_wait(orders, first))
        asked = ("--reason", "wrong table", "--requested-by", "ada")
        assert operator.json("cancel", *asked)["phase"] == "cancelled"
    _, err = first.communicate(timeout=PATIENCE_SECONDS)
    assert first.returncode == 1, err
    (run,) = operator.dagster_runs()
    assert run.tags["dagster/max_retries"] == "0"
    status = operator.json("status")
    assert (status["phase"], status["cancel_reason"]) == ("cancelled", "wrong table")
    assert status["recommended_action"].endswith(f"resume {operator.manifest}")
    assert operator.json("run", "--execute", exit_code=2)["error"]["code"] == "CAMPAIGN_CANCELLED"

    assert operator.run("resume").returncode == 0
    assert orders.source_rows() == orders.target_rows()
    assert operator.json("cancel", *asked, exit_code=2)["error"]["code"] == "CANCEL_REFUSED"


def test_a_held_campaign_is_refused_with_3_and_its_holder(operator: Operator) -> None:
    orders = operator.orders
    with source_held(orders):
        first = operator.start("run", "--execute")
        wait_for(lambda: lanes_wait(orders, first))
        second = operator.json("run", "--execute", exit_code=3)
        assert second["error"]["code"] == "CAMPAIGN_ACTIVE"
        assert "lane" in second["error"]["message"]
        assert operator.json("status")["holders"]
        preview = operator.json("release")
        assert (preview["preview"], bool(preview["sessions"])) == (True, True)
        first.send_signal(signal.SIGINT)
        assert first.wait(PATIENCE_SECONDS) == 130
        first.communicate()
    with target_session(orders.connector, "lane 0 run-9") as stopped:
        assert stopped.fence.lock_campaign(orders.spec.run_key, "shared", 0)
        done = operator.json("release", "--yes", "--approved-by", "ada")
    assert (done["preview"], done["approved_by"], done["still_held_by"]) == (False, "ada", [])
    assert ["lane 0 run-9" in session for session in done["sessions"]] == [True]
    assert operator.json("release", exit_code=2)["error"]["code"] == "RELEASE_REFUSED"


def _lose_the_server(operator: Operator) -> None:
    url = "postgresql://nobody:hunter2@127.0.0.1:1/nowhere"
    operator.environment["DPONE_CONNECTION_PG_OLTP"] = url


def _drop_the_source(operator: Operator) -> None:
    operator.orders.on_source("DROP TABLE public.orders")


def _drop_the_target(operator: Operator) -> None:
    operator.orders.on_target("DROP TABLE landing.orders")


def _loosen_the_key(operator: Operator) -> None:
    operator.orders.on_target("ALTER TABLE landing.orders DROP CONSTRAINT orders_pkey")
    operator.orders.on_target("ALTER TABLE landing.orders ALTER COLUMN id DROP NOT NULL")


def _name_a_file_as_home(operator: Operator) -> None:
    operator.environment["DAGSTER_HOME"] = str(operator.manifest)


def _break_the_settings(operator: Operator) -> None:
    home = operator.folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("storage: [")
    operator.environment["DAGSTER_HOME"] = str(home)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_name_a_file_as_home, "DAGSTER_HOME_INVALID"),
        (_break_the_settings, "DAGSTER_HOME_INVALID"),
        (_lose_the_server, "SERVER_UNREACHABLE"),
        (_drop_the_source, "TABLE_MISSING"),
        (_drop_the_target, "TARGET_NOT_PROVISIONED"),
        (_loosen_the_key, "KEY_INVALID"),
    ],
)
def test_refusals_exit_2_and_create_nothing(operator: Operator, spoil: Callable[[Operator], None], code: str) -> None:
    spoil(operator)
    done = operator.run("run", "--execute")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith(f"{code}: ")
    assert ("pg_oltp: " in done.stderr) == (code == "SERVER_UNREACHABLE"), "which one it is that cannot be had"
    assert "next: " in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert operator.state() == {}
    assert not (operator.folder / ".dpone").exists()


def test_settings_that_dagster_does_not_take_are_one_clear_error(operator: Operator) -> None:
    home = operator.folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("storage: {floppy: {}}\n")
    operator.environment["DAGSTER_HOME"] = str(home)
    done = operator.run("run", "--execute")
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"\nDAGSTER_HOME_INVALID: Dagster does not open its state in {home}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_report_is_a_whole_file_or_a_refusal(operator: Operator) -> None:
    page = operator.folder / "orders-report.html"
    planned = operator.json("report")
    assert (planned["output"], planned["verdict"], planned["bytes"]) == (page.name, "Not prepared", page.stat().st_size)
    assert "Not prepared" in HtmlPage(page.read_text()).text
    assert operator.state() == {}
    load(operator.orders)
    finish(operator.orders)
    before, files = operator.state(), sorted(operator.folder.iterdir())
    told = operator.run("report")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("orders: handoff_committed, 8 of 8 chunks, 2,000 rows → orders-report.html")
    text = HtmlPage(page.read_text()).text
    assert "2,000 rows are live as landing.orders" in text
    assert f"dpone backfill rollback {operator.manifest}" in text
    assert operator.state() == before
    assert sorted(operator.folder.iterdir()) == files
    assert "<!doctype html>" in operator.run("report", "--output", "/dev/stdout").stdout

    refused = operator.json("report", "--output", str(operator.manifest / "report.html"), exit_code=2)["error"]
    assert refused["code"] == "OUTPUT_UNWRITABLE"
    assert "cannot be written" in refused["message"]
    assert "--output FILE" in refused["next_step"]


def test_rollback_and_drop_backup_are_previews_until_somebody_answers_for_them(operator: Operator) -> None:
    old = operator.orders.target_rows()
    load(operator.orders)
    finish(operator.orders)
    before = operator.state()
    preview = operator.json("rollback")
    assert (preview["preview"], preview["checkpoint"]) == (True, None)
    assert operator.json("rollback", "--approved-by", "ada") == preview
    assert operator.json("drop-backup", "--approved-by", "ada")["preview"] is True
    for words in ("rollback", "drop-backup", "release"):
        nobody = operator.run(words, "--yes")
        assert (nobody.returncode, nobody.stdout, "--approved-by" in nobody.stderr) == (2, "", True), words
    without_reason = operator.run("rollback", "--yes", "--approved-by", "ada")
    assert (without_reason.returncode, "--reason" in without_reason.stderr) == (2, True)
    assert operator.state() == before

    done = operator.json("rollback", "--yes", "--approved-by", "ada", "--reason", "wrong prices")
    assert done == done | {"preview": False, "approved_by": "ada", "reason": "wrong prices", "rows": len(old)}
    assert operator.orders.target_rows() == old
    again = operator.json("rollback", "--yes", "--approved-by", "ada", "--reason", "twice", exit_code=2)
    assert again["error"]["code"] == "ROLLBACK_REFUSED"
    refused = operator.json("resume", exit_code=2)["error"]
    assert (refused["code"], "new `backfill_id`" in refused["next_step"]) == ("CAMPAIGN_ROLLED_BACK", True)
    assert operator.json("status")["backfill"]["publication"]["rollback"]["approved_by"] == "ada"
    assert "rolled back by ada: wrong prices" in operator.run("status").stdout
    assert operator.json("drop-backup", "--yes", "--approved-by", "grace")["backup"] == done["rolled_back"]
    assert operator.orders.tables() == ["orders"]
