"""A `local_file` campaign whose process is killed: the file is whole, and one resume leaves exactly the source's rows.

With a SQL Server target: Verified on Babelfish 4.3. UNVERIFIED on SQL Server.
"""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path

import pytest

from dpone_dagster.campaign.errors import CampaignActive
from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.engine.complete import complete
from dpone_dagster.engine.inspect import status
from tests.crash.test_matrix import CHUNKS, HIT, ROWS, Victim, prove_nothing_is_left
from tests.engine.campaign import Seen, lane, load
from tests.engine.test_direct import direct
from tests.mssql_orders import make_either_orders
from tests.orders import Orders

pytestmark = pytest.mark.slow


@pytest.fixture
def either(request: pytest.FixtureRequest) -> Orders:
    return make_either_orders(request, rows=ROWS, chunks=CHUNKS, lanes=1)


def in_file(orders: Orders, folder: Path, inner_mode: str) -> Orders:
    direct(orders, inner_mode, chunk={"column": "id", "kind": "uuid", "buckets": CHUNKS})
    orders.backfill.update(state={"backend": "local_file"}, state_dir=str(folder / "state"))
    orders.manifest.pop("state", None)
    return orders


def document(orders: Orders, folder: Path) -> dict[str, object]:
    found = json.loads((folder / "state" / f"{orders.spec.run_key}.json").read_text())
    assert isinstance(found, dict)
    return found


def state_of(orders: Orders, folder: Path, index: int) -> object:
    chunks = document(orders, folder)["chunks"]
    assert isinstance(chunks, list)
    return chunks[index]["state"]


@pytest.mark.parametrize(
    ("either", "fault", "mode"),
    [
        ("postgres", f"before_chunk_commit:{HIT}", "replace"),
        ("postgres", f"after_chunk_commit:{HIT}", "replace"),
        ("postgres", f"after_chunk_commit:{HIT}", "incremental_merge"),
        ("mssql", f"after_chunk_commit:{HIT}", "replace"),
    ],
    indirect=["either"],
)
def test_a_chunk_that_died_is_loaded_again_and_is_there_once(
    either: Orders, tmp_path: Path, fault: str, mode: str
) -> None:
    in_file(either, tmp_path, mode)
    if mode == "incremental_merge":
        either.on_target("DELETE FROM landing.orders")
    victim = Victim(either, tmp_path, "run", f"{fault}=kill")
    try:
        assert victim.end() == (-signal.SIGKILL, "")
    finally:
        victim.close()
    assert state_of(either, tmp_path, HIT) == "running"
    seen = load(either, intent="resume", run_id="run-2")
    assert HIT in seen.done
    assert complete(either.spec, either.connector, "run-2") is not None
    assert sorted(either.target_rows(), key=str) == sorted(either.source_rows(), key=str)
    assert status(either.spec, either.connector).phase is Phase.PUBLISHED
    assert either.on_target("SELECT COUNT(*) FROM information_schema.tables WHERE table_name LIKE '%dpone%'")[0][0] == 0
    prove_nothing_is_left(either, "drop", victim)


@pytest.mark.parametrize("either", ["postgres"], indirect=True)
def test_a_lane_is_alone_with_the_table(either: Orders, tmp_path: Path) -> None:
    """Nobody sees a campaign whose state is a file, so its lane lets no other lane in, and comes after it."""
    in_file(either, tmp_path, "replace")
    load(either)
    with contextlib.closing(either.connector.target("another lane")) as other:
        assert other.fence.share_target(either.spec.target, 0)
        either.backfill["backfill_id"] = "another"
        with pytest.raises(CampaignActive, match="another lane"):
            load(either)
    assert not lane(either, Seen()).failed
    with (
        contextlib.closing(either.connector.target("lane")) as one,
        contextlib.closing(either.connector.target("another")) as two,
    ):
        assert one.fence.hold_target(either.spec.target, 0)
        assert not two.fence.share_target(either.spec.target, 0)
        assert not two.fence.hold_target(either.spec.target, 0)
