"""Audit rows: what each run did to a dataset, step by step, for people who look into the state schema."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Literal

from dpone_dagster.campaign.errors import DponeError, Interrupted
from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.ports.target import Target


@contextlib.contextmanager
def audited(
    spec: RouteSpec, target: Target, run_id: str, kind: Literal["campaign", "increment"], step: str
) -> Iterator[dict[str, object]]:
    """Record one step of a run with its duration, outcome and facts.

    Args:
        spec: The campaign.
        target: The session of the step; its rows are written outside the step's transactions.
        run_id: The run, which is also the load's id.
        kind: What the run does.
        step: `prepare`, `validate`, `publish`, `handoff` or `increment`.

    Yields:
        Facts to store with the step; the block fills them.
    """
    target.ledger.start_load(run_id, spec.dataset, kind, run_id)
    started = time.monotonic()
    facts: dict[str, object] = {}
    try:
        yield facts
    except BaseException as error:
        code = _code_of(error)
        with contextlib.suppress(DponeError):  # the step's own error is the one to show
            target.ledger.record_step(run_id, step, "failed", time.monotonic() - started, {**facts, "code": code})
            target.ledger.finish_load(run_id, "failed", {"step": step, "code": code})
        raise
    target.ledger.record_step(run_id, step, "succeeded", time.monotonic() - started, facts)
    target.ledger.finish_load(run_id, "succeeded", {"step": step, **facts})


def _code_of(error: BaseException) -> str:
    if isinstance(error, DponeError):
        return error.code
    return DponeError.code if isinstance(error, Exception) else Interrupted.code  # what the host raises to stop a step
