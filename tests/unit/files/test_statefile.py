"""A state file is whole at every moment; what is torn, another's, or of a newer program is refused."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpone_dagster.campaign.errors import CampaignActive, StateFileBroken, StateVersionNewer, TooManyChunks
from dpone_dagster.campaign.receipts import DIGEST, TARGET_DIGEST, DigestTotals
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.files import statefile
from dpone_dagster.files.ledger import MOST_CHUNKS, FileLedger
from dpone_dagster.files.statefile import StateFile
from tests.contract.samples import RUN_KEY, campaign, plan, receipt, worker
from tests.waiting import PATIENCE_SECONDS, within

EVERY = ChunkSelection.all(4)


def started(folder: Path, chunks: int = 4) -> FileLedger:
    ledger = FileLedger(folder, RUN_KEY)
    ledger.create(campaign(chunks), plan(chunks))
    return ledger


def path_in(folder: Path) -> Path:
    return folder / f"{RUN_KEY}.json"


def edited(folder: Path, **changes: Any) -> None:
    path = path_in(folder)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_people_can_read_it_and_looking_makes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    looking = FileLedger(folder, RUN_KEY)
    assert not looking.provisioned()
    assert looking.campaign(RUN_KEY) is None
    assert looking.progress(RUN_KEY).total == 0
    assert not folder.exists()
    started(folder)
    lines = path_in(folder).read_text().splitlines()
    assert sum('"chunk_index": 2' in line for line in lines) == 1
    assert '"lower": "20"' in next(line for line in lines if '"chunk_index": 2' in line)


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "torn"),
        (lambda path: path.write_text(""), "torn"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "no text"),
        (lambda path: path.write_text('{"a": 1}'), "no state file"),
        (lambda path: path.write_text("[]"), "no state file"),
        (lambda path: edited(path.parent, version="1"), "version"),
        (lambda path: edited(path.parent, chunks=[]), "has 0 chunks"),
        (lambda path: edited(path.parent, chunks=[{"chunk_index": 1}] * 4), "in order"),
        (lambda path: edited(path.parent, campaign={"run_key": "b" * 64}), "another campaign"),
        (lambda path: edited(path.parent, campaign=None), "lacks"),
    ],
)
def test_what_is_not_the_whole_file_is_refused_and_left_as_it_is(tmp_path: Path, break_it: Any, says: str) -> None:
    ledger = started(tmp_path)
    break_it(path_in(tmp_path))
    found = path_in(tmp_path).read_bytes()
    with pytest.raises(StateFileBroken, match=says) as refused:
        ledger.campaign(RUN_KEY)
    assert "move it away" in refused.value.advice
    with pytest.raises(StateFileBroken):
        ledger.set_stop(RUN_KEY, "stop")
    assert path_in(tmp_path).read_bytes() == found


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"state": "pending"', '"state": "comitted"', "chunks.0.state"),
        ('"state": "pending", ', "", "chunks.0.state"),
        ('"epoch": 0', '"epoch": "x"', "chunks.0.epoch"),
        ('"tries": 0', '"tries": 0, "rows": "x"', "chunks.0.rows"),
        ('"tries": 0', '"tries": 0, "seconds": NaN', "chunks.0.seconds"),
        ('"tries": 0', '"tries": 0, "started_at": "yesterday"', "chunks.0.started_at"),
        ('"tries": 0', '"tries": 0, "started_at": "2026-01-02T03:04:05"', "chunks.0.started_at"),
        ('"tries": 0', '"tries": 0, "worker_run_id": "run-1"', "chunks.0"),
        ('"tries": 0', '"tries": 0, "receipt": {}', "chunks.0.receipt.run_key"),
        ('"state": "pending"', '"state": "running"', "chunks.0"),
        ('"phase": "prepared"', '"phase": "foo"', "campaign.phase"),
        ('"live_object_id": ', '"live_object_id": -', "campaign.live_object_id"),
        ('"anchor_timeline": 1', '"anchor_timeline": null', "campaign"),
        ('"target_type": "json"', '"target_type": "jsonb"', "campaign"),
    ],
)
def test_values_that_no_record_can_hold_are_refused_by_their_place(
    tmp_path: Path, old: str, new: str, place: str
) -> None:
    ledger = started(tmp_path)
    path = path_in(tmp_path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    for look in (ledger.campaign, FileLedger(tmp_path, RUN_KEY).progress):
        with pytest.raises(StateFileBroken, match="was edited") as refused:
            look(RUN_KEY)
        assert place in [each.path for each in refused.value.findings]
        assert "move it away" in refused.value.advice


@pytest.mark.parametrize("note", [DIGEST, TARGET_DIGEST])
def test_a_digest_that_is_no_number_is_refused_by_its_place(tmp_path: Path, note: str) -> None:
    ledger = started(tmp_path)
    claimed = ledger.claim(RUN_KEY, ledger.chunks(RUN_KEY, EVERY)[0], worker())
    assert claimed is not None
    assert ledger.complete(claimed, replace(receipt(0), diagnostics={note: "x"}), 1.0)
    with pytest.raises(StateFileBroken) as refused:
        FileLedger(tmp_path, RUN_KEY).digest_totals(RUN_KEY, 5)
    assert [each.path for each in refused.value.findings] == [f"chunks.0.receipt.diagnostics.{note}"]


def test_a_file_of_nothing_but_brackets_is_refused(tmp_path: Path) -> None:
    ledger = started(tmp_path)
    path_in(tmp_path).write_text("[" * 100_000)
    with pytest.raises(StateFileBroken, match="torn"):
        ledger.campaign(RUN_KEY)


def test_a_newer_programs_file_is_refused(tmp_path: Path) -> None:
    ledger = started(tmp_path)
    edited(tmp_path, version=2)
    with pytest.raises(StateVersionNewer, match="version 2"):
        ledger.campaign(RUN_KEY)


def test_unknown_keys_survive_every_move(tmp_path: Path) -> None:
    ledger = started(tmp_path)
    document = json.loads(path_in(tmp_path).read_text())
    document["later"] = {"kept": [1]}
    document["campaign"]["mood"] = "good"
    document["chunks"][0]["colour"] = "blue"
    path_in(tmp_path).write_text(json.dumps(document))
    (seen, *_) = ledger.chunks(RUN_KEY, EVERY)
    claimed = ledger.claim(RUN_KEY, seen, worker())
    assert claimed is not None
    assert ledger.complete(claimed, receipt(0), 1.0)
    document = json.loads(path_in(tmp_path).read_text())
    found = (document["later"], document["campaign"]["mood"], document["chunks"][0]["colour"])
    assert found == ({"kept": [1]}, "good", "blue")
    assert document["chunks"][0]["state"] == "committed"


def test_digests_that_receipts_note_are_summed(tmp_path: Path) -> None:
    ledger = started(tmp_path)
    huge = 10**40
    for index, notes in enumerate(({"digest": str(huge)}, {"digest": "5", "target_digest": "3"}, {})):
        claimed = ledger.claim(RUN_KEY, ledger.chunks(RUN_KEY, EVERY)[index], worker())
        assert claimed is not None
        assert ledger.complete(claimed, replace(receipt(index), diagnostics=notes), 1.0)
    assert ledger.digest_totals(RUN_KEY, 5) == DigestTotals(2, huge + 5, huge + 3, 1, (1,))
    assert ledger.digest_totals(RUN_KEY, 0).first_differing == ()


def test_a_file_that_is_rewritten_with_every_move_has_few_chunks(tmp_path: Path) -> None:
    with pytest.raises(TooManyChunks, match="10,001") as refused:
        started(tmp_path, chunks=MOST_CHUNKS + 1)
    assert "audit_schema" in refused.value.advice
    assert not path_in(tmp_path).exists()


def test_a_change_that_fails_is_not_stored(tmp_path: Path) -> None:
    started(tmp_path)
    before = path_in(tmp_path).read_bytes()
    with pytest.raises(KeyError), StateFile(tmp_path, RUN_KEY).change() as document:
        document["campaign"] = document.pop("campaign")["no such key"]
    assert path_in(tmp_path).read_bytes() == before


def test_a_lock_that_stays_taken_is_an_error_and_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statefile, "_LOCK_SECONDS", 0.2)
    ledger = started(tmp_path)
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with StateFile(tmp_path, RUN_KEY).change():
            held.set()
            let_go.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(PATIENCE_SECONDS)
    with pytest.raises(CampaignActive, match=f"was held for 0.2 s by process {os.getpid()} on ") as taken:
        ledger.set_stop(RUN_KEY, "stop")
    assert f"fuser {tmp_path / RUN_KEY}.lock" in taken.value.advice
    let_go.set()
    thread.join()
    ledger.set_stop(RUN_KEY, "stop")
    with (tmp_path / f"{RUN_KEY}.lock").open("ab") as stranger:
        fcntl.flock(stranger, fcntl.LOCK_EX)
        with pytest.raises(CampaignActive, match="by another process"):
            ledger.set_stop(RUN_KEY, "go")


def _count(folder: Path, times: int) -> None:
    for _ in range(times):
        with StateFile(folder, RUN_KEY).change() as document:
            document["counted"] = document.get("counted", 0) + 1


def test_no_change_of_many_processes_is_lost(tmp_path: Path) -> None:
    started(tmp_path)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_count, args=(tmp_path, 25)) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert json.loads(path_in(tmp_path).read_text())["counted"] == 100


_WRITER = """
import sys
from pathlib import Path
from dpone_dagster.files.statefile import StateFile
file = StateFile(Path(sys.argv[1]), sys.argv[2])
while True:
    with file.change() as document:
        document["counted"] = document.get("counted", 0) + 1
        document["filling"] = "x" * (document["counted"] % 7 * 100_000)
"""


def test_a_writer_that_is_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    started(tmp_path)
    file = StateFile(tmp_path, RUN_KEY)
    counted = 0
    for _ in range(6):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path), RUN_KEY])
        try:
            assert within(PATIENCE_SECONDS, lambda seen=counted: (file.read() or {}).get("counted", 0) > seen + 3)
        finally:
            writer.kill()
            assert writer.wait() == -signal.SIGKILL
        document = file.read()
        assert document is not None
        assert document["counted"] > counted
        assert document["filling"] == "x" * (document["counted"] % 7 * 100_000)
        counted = document["counted"]


def test_a_death_in_the_middle_of_a_write_leaves_the_file_of_before(tmp_path: Path) -> None:
    started(tmp_path)
    before = path_in(tmp_path).read_bytes()
    stop = "from pathlib import Path; import os; from dpone_dagster import faultpoints; faultpoints.arm(os.environ);"
    stop += "from dpone_dagster.files.ledger import FileLedger;"
    stop += f"FileLedger(Path({str(tmp_path)!r}), {RUN_KEY!r}).set_stop({RUN_KEY!r}, 'stop')"
    faults = {"DPONE_ALLOW_FAULTS": "1", "DPONE_FAULT": "mid_state_file"}
    died = subprocess.run([sys.executable, "-c", stop], env={**os.environ, **faults}, check=False)
    assert died.returncode == -signal.SIGKILL
    assert path_in(tmp_path).read_bytes() == before
    assert path_in(tmp_path).with_suffix(".json.new").exists()  # it was in the middle
    ledger = FileLedger(tmp_path, RUN_KEY)
    ledger.set_stop(RUN_KEY, "stop")
    record = ledger.campaign(RUN_KEY)
    assert record is not None
    assert record.stop_reason == "stop"
