"""A `direct` campaign whose process is killed at a chunk's points: one resume leaves exactly the source's rows.

With a SQL Server target: Verified on Babelfish 4.3. UNVERIFIED on SQL Server.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.engine.complete import complete
from dpone_dagster.engine.inspect import status
from tests.crash.test_matrix import CHUNKS, HIT, ROWS, Victim, prove_nothing_is_left
from tests.engine.campaign import load
from tests.engine.test_direct import direct
from tests.mssql_orders import make_either_orders
from tests.orders import Orders

pytestmark = pytest.mark.slow

PLAYED = [
    ("postgres", "mid_extract", "replace"),
    ("postgres", "before_chunk_commit", "incremental_append"),
    ("postgres", "after_chunk_commit", "incremental_append"),
    ("postgres", "after_ledger", "incremental_merge"),
    ("mssql", "before_chunk_commit", "replace"),
    ("mssql", "after_chunk_commit", "incremental_append"),
]


@pytest.fixture
def either(request: pytest.FixtureRequest) -> Orders:
    return make_either_orders(request, rows=ROWS, chunks=CHUNKS, lanes=1)


@pytest.mark.parametrize(("either", "point", "mode"), PLAYED, indirect=["either"])
def test_a_death_leaves_a_slice_whole_and_resume_loads_the_rest(
    either: Orders, tmp_path: Path, point: str, mode: str
) -> None:
    direct(either, mode, chunk={"column": "id", "kind": "uuid", "buckets": CHUNKS})
    old = [] if mode == "replace" else either.target_rows()
    victim = Victim(either, tmp_path, "run", f"{point}:{HIT}=kill")
    try:
        assert victim.end() == (-signal.SIGKILL, "")
    finally:
        victim.close()
    committed = either.on_target("SELECT chunk_index FROM system.__dpone__chunk_receipts ORDER BY 1")
    assert ((HIT,) in [tuple(row) for row in committed]) == point.startswith("after")
    load(either, intent="resume", run_id="run-2")
    assert complete(either.spec, either.connector, "run-2") is not None
    expected = sorted([*old, *either.source_rows()], key=lambda row: str(row[0]))
    assert sorted(either.target_rows(), key=lambda row: str(row[0])) == expected
    assert either.on_target("SELECT COUNT(*) FROM system.__dpone__chunk_receipts")[0][0] == CHUNKS
    assert status(either.spec, either.connector).phase is Phase.PUBLISHED
    prove_nothing_is_left(either, "drop", victim)  # no table but the live one
