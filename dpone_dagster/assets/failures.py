"""How an error of ours reaches Dagster: with code, findings and next step, and retried only where that can help."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Mapping

from dagster import Backoff, Failure, MetadataValue, OpExecutionContext, RetryPolicy
from dagster._core.storage.tags import MAX_RETRIES_TAG

from dpone_dagster.assets.watchdog import end_with_run
from dpone_dagster.campaign.errors import DponeError, Interrupted

# Also covers a step whose process was killed; a permanent error never gets here (`allow_retries=False`).
RETRIES = RetryPolicy(max_retries=3, delay=2, backoff=Backoff.EXPONENTIAL)
# Nothing is retained by a `direct` campaign, so nobody runs it again but on somebody's word.
NO_RETRIES: Mapping[str, str] = {MAX_RETRIES_TAG: "0"}


def not_run_again(context: OpExecutionContext) -> None:
    """Keep Dagster from running this run again if it dies, whatever started it.

    Our jobs say so by their tags. A run of the UI's *Materialize*, of a backfill or of an automation has none, and
    takes the instance's own number. Dagster reads the tag when the run has failed, and a re-execution inherits it.

    Args:
        context: Of a step.
    """
    if MAX_RETRIES_TAG not in context.run.tags:
        context.instance.add_run_tags(context.run_id, NO_RETRIES)


@contextlib.contextmanager
def shown_to_dagster(*also_retried: type[DponeError]) -> Iterator[None]:
    """Run a use case in this step's process: it ends with its run, and our errors become Dagster's failure.

    An interrupt of Dagster passes untouched.

    Args:
        also_retried: Permanent kinds that are worth another try at this place.

    Raises:
        Failure: For every error of ours.
    """
    end_with_run()
    try:
        yield
    except DponeError as error:
        # A pod that has to go is told to stop; its run goes on, so the step is started again elsewhere, as Dagster does
        # where an interrupt comes through. Where the run itself was told to stop, nobody starts it.
        again = error.retryable or isinstance(error, (Interrupted, *also_retried))
        # `from None`: a driver's own text, which may quote a row, must not be logged as the cause.
        raise failure_of(error, retry=again) from None


def failure_of(error: DponeError, *, retry: bool = False) -> Failure:
    """The failure that a step ends with.

    Args:
        error: What happened.
        retry: Whether the step's retry policy may try again.
    """
    facts: dict[str, MetadataValue] = {
        "code": MetadataValue.text(error.code),
        "next_step": MetadataValue.text(error.advice),
        "raised_at": MetadataValue.text(_place(error)),
    }
    if error.findings:
        facts["findings"] = MetadataValue.md("\n".join(f"* {finding}" for finding in error.findings))
    return Failure(str(error), metadata=facts, allow_retries=retry)


def _place(error: DponeError) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "not raised"
