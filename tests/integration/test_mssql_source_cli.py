"""`dpone backfill` with a source on SQL Server: real processes, into either kind of server.

Verified on Babelfish 4.3. UNVERIFIED on SQL Server.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.test_direct import direct, within
from tests.mssql_source import make_from_mssql
from tests.operators import Operator

pytestmark = pytest.mark.slow

NewDatabase = Callable[[str], str]
DAY = ("--interval-start", "2024-03-30T00:00:00+00:00", "--interval-end", "2024-03-31T00:00:00+00:00")


@pytest.fixture
def to_postgres(new_database: NewDatabase, new_mssql_database: NewDatabase, tmp_path: Path) -> Operator:
    orders = make_from_mssql(new_mssql_database("oltp"), new_database("dwh"), rows=400, lanes=1)
    return Operator(direct(orders, "incremental_append"), tmp_path)


@pytest.fixture
def to_mssql(new_mssql_database: NewDatabase, tmp_path: Path) -> Operator:
    orders = make_from_mssql(new_mssql_database("oltp"), new_mssql_database("dwh"), rows=400, lanes=1)
    chunk = {"column": "placed_at", "kind": "timestamp", "step": "12h"}
    bounds = {"from": "{{ data_interval_start }}", "to": "{{ data_interval_end }}"}
    return Operator(direct(orders, "partition_replace", chunk={**chunk, **bounds}), tmp_path)


def test_a_process_that_is_killed_before_a_commit_leaves_nothing_doubled_and_nothing_lost(
    to_postgres: Operator,
) -> None:
    operator, orders = to_postgres, to_postgres.orders
    old = orders.target_rows()
    assert operator.json("plan")["chunk_count"] == 4
    fault = {"DPONE_ALLOW_FAULTS": "1", "DPONE_FAULT": "before_chunk_commit:2=kill"}
    operator.environment |= fault
    assert operator.run("run", "--execute").returncode == 1
    loaded = [index for (index,) in orders.on_target("SELECT chunk_index FROM system.__dpone__chunk_receipts")]
    assert 2 not in loaded
    days = [row for index in loaded for row in within(orders.source_rows(), 29 + index, 29 + index)]
    assert sorted(orders.target_rows()) == sorted([*old, *days])
    for name in fault:
        operator.environment.pop(name)
    done = operator.json("resume")
    assert (done["backfill"]["progress"]["committed"], done["backfill"]["verification"]["status"]) == (4, "passed")
    assert sorted(orders.target_rows()) == sorted([*old, *orders.source_rows()])


def test_one_interval_replaces_its_own_rows_alone(to_mssql: Operator) -> None:
    operator, orders = to_mssql, to_mssql.orders
    old = orders.target_rows()
    assert operator.json("plan", *DAY)["chunk_count"] == 2
    done = operator.json("run", "--execute", *DAY)
    assert (done["outcome"], done["backfill"]["publication"]["inner_mode"]) == ("done", "partition_replace")
    assert sorted(orders.target_rows()) == sorted([*old, *within(orders.source_rows(), 30, 30)])
