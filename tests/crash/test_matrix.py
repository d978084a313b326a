"""Every fault point, each with SIGKILL, with SIGSTOP … release, takeover, SIGCONT, and with an error, on both targets.

However it ends, one `resume` leaves exact content, one receipt a chunk, one publication, and nothing besides; a reader
in a process of its own never sees anything but the old rows or the new ones. `make matrix` plays all of it and writes
docs/matrix.md; a plain test run plays each point with one of the three.
With a SQL Server target: Verified on Babelfish 4.3. UNVERIFIED on SQL Server.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dpone_dagster.campaign.errors import BackupRefused, ReleaseRefused, RollbackRefused
from dpone_dagster.campaign.ledger import ChunkState, Phase
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.release import release
from dpone_dagster.faultpoints import CAMPAIGN_POINTS, CHUNK_POINTS
from dpone_dagster.mssql.stages import label_of
from tests.crash.matrix_results import PAGE_VARIABLE, Case, Results
from tests.crash.observer import Observer, Seen, state_of
from tests.crash.steps import STEPS
from tests.engine.campaign import finish, load
from tests.mssql_orders import MssqlOrders, make_either_orders
from tests.orders import Orders
from tests.waiting import PATIENCE_SECONDS, within

ROWS, CHUNKS, HIT = 60, 3, 1
# The step that meets a point, where it is not the campaign itself; a swap back has its renames too.
LATER = {
    "before_increment_commit": "increment",
    "after_increment_commit": "increment",
    "before_rollback_commit": "rollback",
    "after_rollback_commit": "rollback",
    "before_drop_commit": "drop",
    "after_drop_commit": "drop",
}
# What is published by a swap has its state in tables; tests/unit/files dies there.
NOT_HERE = "mid_state_file"
CASES = [
    *((point, "run") for point in CHUNK_POINTS),
    *((point, LATER.get(point, "run")) for point in CAMPAIGN_POINTS if point != NOT_HERE),
    ("between_renames", "rollback"),
]
ACTIONS = ("kill", "stop", "raise")


def played() -> Iterator[tuple[str, str, str, str]]:
    """(target, point, step, action): all for `make matrix`, else one action a point, and some of those again."""
    for number, (point, step) in enumerate(CASES):
        for action in ACTIONS if PAGE_VARIABLE in os.environ else [ACTIONS[number % 3]]:
            yield "postgres", point, step, action
            if PAGE_VARIABLE in os.environ or number % 8 == 1:
                yield "mssql", point, step, action


@pytest.fixture
def either(request: pytest.FixtureRequest) -> Orders:
    return make_either_orders(request, rows=ROWS, chunks=CHUNKS, lanes=1)


@pytest.fixture(scope="session")
def results() -> Iterator[Results]:
    found = Results()
    yield found
    found.write()


class Victim:
    """One step in a process group of its own, with a fault."""

    def __init__(self, orders: Orders, folder: Path, step: str, fault: str) -> None:
        arguments = [type(orders).__name__, orders.source_url, orders.target_url, str(orders.write(folder))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.steps", *arguments, step, "run-1"],
            env={**os.environ, "DPONE_ALLOW_FAULTS": "1", "DPONE_FAULT": fault},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def stopped(self) -> None:
        """Return when it has stopped itself."""
        _, how = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(how), how

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> tuple[int, str]:
        """Its exit code and the first word it said, once nothing of it is left."""
        said, _ = self._process.communicate(timeout=PATIENCE_SECONDS)
        with pytest.raises(ProcessLookupError):
            os.killpg(self.pid, 0)
        return self._process.returncode, said.partition(" ")[0].strip()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.communicate()


@dataclass
class Play:
    """One case of the matrix."""

    orders: Orders
    step: str
    victim: Victim
    chunk: int | None

    def strike(self, action: str) -> str:
        """Let it be hit and taken over; returns what the victim said in the end."""
        if action == "kill":
            assert self.victim.end() == (-signal.SIGKILL, "")
            self.take_over()
            return ""
        if action == "raise":
            code, said = self.victim.end()
            assert (code, said) == (1, "FAULT_INJECTED" if self.chunk is None else "DPONE_ERROR")
            self.take_over()
            return said
        self.victim.stopped()
        with contextlib.suppress(ReleaseRefused):  # at some points it holds nothing any more
            assert release(self.orders.spec, self.orders.connector, self.chunk, "ada").left == ()
        self.take_over()
        self.victim.go_on()
        return self.victim.end()[1]

    def take_over(self) -> None:
        """What an operator does next, once."""
        if self.step == "run":
            load(self.orders, intent="resume", run_id="run-2")
            finish(self.orders, run_id="run-2")
            return
        # Done twice, a rollback and a drop are refused: that is how they say that they are done.
        with contextlib.suppress(RollbackRefused, BackupRefused):
            STEPS[self.step](self.orders, "run-2")


def begun(orders: Orders, step: str) -> None:
    """Bring the campaign to where the step is next."""
    if step == "run":
        return
    load(orders)
    finish(orders)
    if step == "increment":
        orders.on_source("UPDATE public.orders SET amount = 7 WHERE paid")
        orders.on_source("DELETE FROM public.orders WHERE id IN (SELECT id FROM public.orders ORDER BY id LIMIT 5)")


@pytest.mark.parametrize(("either", "point", "step", "action"), list(played()), indirect=["either"])
def test_whatever_happens_at_a_point_one_resume_ends_it(
    either: Orders, tmp_path: Path, results: Results, point: str, step: str, action: str
) -> None:
    orders = either
    begun(orders, step)
    before, earlier = state_of(orders), orders.target_rows()
    chunk = HIT if point in CHUNK_POINTS and point != "after_ledger" else None
    where = f"{point}:{HIT}" if point in CHUNK_POINTS else point
    with Observer(orders) as observer:
        victim = Victim(orders, tmp_path, step, f"{where}={action}")
        try:
            said = Play(orders, step, victim, chunk).strike(action)
        finally:
            victim.close()
        seen = observer.end()
    prove_content(orders, step, earlier)
    prove_receipts(orders, step)
    prove_nothing_is_left(orders, step, victim)
    prove_observation(seen, before, state_of(orders))
    if action == "stop" and chunk is not None:
        assert said == "LEASE_LOST"
    results.add(Case(server_of(orders), point, step, action, said, seen))


def server_of(orders: Orders) -> str:
    mssql = isinstance(orders, MssqlOrders)
    ((version,),) = orders.on_target("SELECT @@VERSION" if mssql else "SELECT version()")
    named = str(version).splitlines()[0].partition(" on ")[0].strip()
    if "Babelfish" not in named:
        return named
    ((stand_in,),) = orders.on_target("SELECT CAST(SERVERPROPERTY('babelfishversion') AS nvarchar(20))")
    return f"Babelfish {stand_in}, UNVERIFIED on SQL Server"


def prove_content(orders: Orders, step: str, earlier: list[tuple[object, ...]]) -> None:
    backup = orders.spec.backup
    if step == "rollback":
        assert len(orders.target_rows()) == 3
        return
    assert orders.target_rows() == orders.source_rows()
    if step == "run":
        assert orders.rows_of(backup) == earlier


def prove_receipts(orders: Orders, step: str) -> None:
    with contextlib.closing(orders.connector.target("look")) as target:
        chunks = target.ledger.chunks(orders.spec.run_key, ChunkSelection.all(CHUNKS))
    assert {c.state for c in chunks} == {ChunkState.COMMITTED}
    receipts = orders.on_target("SELECT chunk_index FROM system.__dpone__chunk_receipts ORDER BY chunk_index")
    assert [index for (index,) in receipts] == list(range(CHUNKS))
    kinds = orders.on_target("SELECT kind, head FROM system.__dpone__publications ORDER BY sequence")
    assert [tuple(kind) for kind in kinds] == [
        ("publish", "closed"),
        *([("rollback", "closed")] if step == "rollback" else []),
    ]
    phase = Phase.ROLLED_BACK if step == "rollback" else Phase.HANDOFF_COMMITTED
    assert status(orders.spec, orders.connector).phase is phase
    revisions = {"run": {1}, "increment": {2, 3}}.get(step)
    found = {revision for (revision,) in orders.on_target("SELECT revision FROM system.__dpone__xmin_checkpoints")}
    assert revisions is None or (len(found) == 1 and found <= revisions)


def prove_nothing_is_left(orders: Orders, step: str, victim: Victim) -> None:
    """No table but the live one and the one that is retained, no lock, no session of the victim."""
    others = [name for name in tables(orders) if name != "orders"]
    assert len(others) == (0 if step == "drop" else 1), others
    with contextlib.closing(orders.connector.target("look")) as target:
        assert target.fence.lock_campaign(orders.spec.run_key, "exclusive", 5)
        for index in range(CHUNKS):
            assert target.fence.try_lock_chunk(orders.spec.run_key, index)
        with target.transaction():
            target.fence.lock_target(orders.spec.target, 5)
    assert within(PATIENCE_SECONDS, lambda: not sessions(orders, victim)), sessions(orders, victim)


def tables(orders: Orders) -> list[str]:
    if not isinstance(orders, MssqlOrders):
        return orders.tables()
    rows = orders.on_target("SELECT t.name FROM sys.tables AS t WHERE t.schema_id = SCHEMA_ID('landing')")
    return [name for (name,) in rows]


def sessions(orders: Orders, victim: Victim) -> list[object]:
    of_postgres = (
        "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'dpone %' "
        "AND datname = current_database()"
    )
    left: list[object] = list(orders.on_source(of_postgres))
    if not isinstance(orders, MssqlOrders):
        return left + list(orders.on_target(of_postgres))
    left += orders.on_target(
        "SELECT program_name FROM sys.dm_exec_sessions WHERE host_process_id = ? AND program_name LIKE 'dpone %'",
        victim.pid,
    )
    # A bulk session does not say whose process it is, but which try of which chunk it works for.
    label = label_of(orders.spec.run_key, HIT, 1).encode()
    bulk = orders.on_target("SELECT context_info FROM sys.dm_exec_sessions WHERE program_name LIKE 'dpone % bulk'")
    return left + [context for (context,) in bulk if bytes(context or b"").rstrip(b"\0") == label]


def prove_observation(seen: Seen, before: tuple[int, str], after: tuple[int, str]) -> None:
    assert seen.problem == ""
    assert seen.states == tuple(dict.fromkeys((before, after)))
