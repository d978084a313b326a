"""`local_file` as an operator uses it: run, die in the middle, status, cancel, resume; no table but the live one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.operators import Operator
from tests.orders import Orders


@pytest.fixture
def at_shell(orders: Orders, tmp_path: Path) -> Operator:
    orders.manifest["source"].pop("options", None)
    orders.manifest.pop("state", None)
    orders.backfill.pop("publication", None)
    orders.backfill.pop("parallel_workers", None)
    orders.backfill.update(inner_mode="replace", state={"backend": "local_file"})
    orders.manifest["dagster"] = {}
    return Operator(orders, tmp_path)


def state(operator: Operator) -> dict[str, Any]:
    (path,) = (
        path for path in (operator.folder / ".dpone" / "backfill").glob("*.json") if "execution" not in path.name
    )
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found


def test_a_campaign_whose_state_is_a_file(at_shell: Operator) -> None:
    operator, orders = at_shell, at_shell.orders
    planned = operator.json("plan")["backfill"]
    assert (planned["state_path"], planned["state_cache_status"]) == (None, "unavailable")
    assert operator.json("status")["phase"] == "planned"
    assert not (operator.folder / ".dpone" / "backfill").exists(), "looking must not create anything"

    operator.environment |= {"DPONE_ALLOW_FAULTS": "1", "DPONE_FAULT": "after_chunk_commit:3=kill"}
    operator.run("run", "--execute")
    del operator.environment["DPONE_FAULT"]
    assert state(operator)["chunks"][3]["state"] == "running"
    cancelled = operator.json("cancel", "--reason", "lunch", "--requested-by", "ada")
    assert cancelled["phase"] == "cancelled"
    assert operator.json("run", "--execute", exit_code=2)["error"]["code"] == "CAMPAIGN_CANCELLED"

    done = operator.json("resume")
    assert done["outcome"] == "done"
    backfill = done["backfill"]
    assert (backfill["state_backend"], backfill["state_cache_status"]) == ("local_file", "authoritative")
    assert json.loads(Path(backfill["state_path"]).read_text()) == state(operator)
    assert backfill["state_capabilities"]["distributed_lock"] is False
    assert backfill["state_authority"]["campaigns_table"] is None
    assert orders.source_rows() == orders.target_rows()
    assert operator.json("status")["phase"] == "published"
    assert operator.json("run", "--execute")["outcome"] == "done"
    assert operator.state() == {}
    assert operator.json("doctor")["findings"] == []
    report = operator.run("report")
    assert report.returncode == 0, report.stderr

    whole = Path(backfill["state_path"]).read_bytes()
    Path(backfill["state_path"]).write_bytes(whole[:-30])
    assert operator.json("status", exit_code=2)["error"]["code"] == "STATE_FILE_BROKEN"
    assert operator.json("run", "--execute", exit_code=2)["error"]["code"] == "STATE_FILE_BROKEN"

    anew = ("--state-dir", "elsewhere")
    assert operator.json("status", *anew)["phase"] == "planned"
    done = operator.json("run", "--execute", *anew)["backfill"]
    assert Path(done["state_path"]).parent == operator.folder / "elsewhere"
    assert done["progress"]["committed"] == 8
    assert orders.source_rows() == orders.target_rows()
