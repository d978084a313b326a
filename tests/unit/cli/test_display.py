"""Rate and time to go, as shown while a run goes on."""

from __future__ import annotations

import io
from pathlib import Path

from dpone_dagster.campaign.ledger import Phase
from dpone_dagster.campaign.progress import Progress
from dpone_dagster.cli.display import Heartbeat, Pace, Sample
from dpone_dagster.settings import load_spec

EXAMPLE = Path("examples/orders.yaml")


def progress(committed: int, rows: int, *, running: int = 0, failed: int = 0) -> Progress:
    return Progress(10 - committed - running - failed, running, committed, failed, 0, rows, rows, 0.0, 0.0)


def test_before_the_first_commit_there_is_no_rate() -> None:
    pace = Pace()
    assert pace.sample(Phase.PREPARED, progress(0, 0), 0.0).eta_seconds is None
    assert pace.sample(Phase.LOADING, progress(0, 0, running=2), 5.0).rows_per_second == 0.0


def test_starting_up_does_not_slow_the_rate() -> None:
    pace = Pace()
    pace.sample(Phase.PREPARED, progress(0, 0), 0.0)
    pace.sample(Phase.PREPARED, progress(0, 0), 100.0)
    pace.sample(Phase.LOADING, progress(0, 0, running=2), 101.0)
    seen = pace.sample(Phase.LOADING, progress(2, 2_000, running=2), 104.0)
    assert seen.rows_per_second == 500.0
    assert seen.eta_seconds == 16.0


def test_a_resumed_campaign_is_judged_by_this_run_alone() -> None:
    pace = Pace()
    pace.sample(Phase.LOADING, progress(5, 5_000_000, running=1), 0.0)
    seen = pace.sample(Phase.LOADING, progress(6, 5_000_100, running=1), 10.0)
    assert seen.rows_per_second == 10.0
    assert seen.eta_seconds == 40.0


def test_between_two_commits_the_rate_stands_still() -> None:
    pace = Pace()
    pace.sample(Phase.LOADING, progress(0, 0, running=1), 0.0)
    first = pace.sample(Phase.LOADING, progress(1, 100, running=1), 1.0)
    later = pace.sample(Phase.LOADING, progress(1, 100, running=1), 60.0)
    assert later.rows_per_second == first.rows_per_second == 100.0


def test_a_heartbeat_is_one_line_with_everything_in_it() -> None:
    stream = io.StringIO()
    sample = Sample(Phase.LOADING, progress(4, 1_234_567, running=2, failed=1), 98_765.4, 3_725.0)
    Heartbeat(load_spec(EXAMPLE), stream).update(sample)
    assert stream.getvalue() == (
        "orders: loading, 4/10 chunks, 1,234,567 rows, 98,765 rows/s, 1 failed, 1:02:05 to go\n"
    )
