"""Our errors as Dagster sees them: what may be tried again, what never is, and what must not be told."""

from __future__ import annotations

import traceback

import psycopg
import pytest
from dagster import DagsterExecutionInterruptedError, Failure

from dpone_dagster.assets.failures import shown_to_dagster
from dpone_dagster.campaign.errors import CampaignActive, ConnectionLost, Finding, KeyInvalid


def test_a_permanent_error_is_never_tried_again_and_carries_everything() -> None:
    findings = [Finding("landing.orders.id", "is nullable", "declare it NOT NULL"), Finding("x", "is missing")]
    with pytest.raises(Failure) as caught, shown_to_dagster():
        raise KeyInvalid("rows could be left out", findings=findings)
    failure = caught.value
    assert failure.allow_retries is False
    assert failure.metadata["code"].value == "KEY_INVALID"
    assert failure.metadata["next_step"].value == KeyInvalid.next_step
    assert "landing.orders.id" in str(failure.metadata["findings"].value)
    assert "x: is missing" in str(failure.metadata["findings"].value)
    assert "test_failures.py" in str(failure.metadata["raised_at"].value)
    assert str(failure.description).startswith("KEY_INVALID: rows could be left out")


def test_what_may_succeed_when_tried_again_is() -> None:
    with pytest.raises(Failure) as caught, shown_to_dagster():
        raise ConnectionLost("the server went away")
    assert caught.value.allow_retries is True
    with pytest.raises(Failure) as caught, shown_to_dagster():
        raise CampaignActive("held by a lane")
    assert caught.value.allow_retries is False
    with pytest.raises(Failure) as caught, shown_to_dagster(CampaignActive):
        raise CampaignActive("held by a lane")
    assert caught.value.allow_retries is True


def test_a_drivers_own_text_stays_out_of_the_event_log() -> None:
    error = KeyInvalid("23505")
    error.__cause__ = psycopg.errors.UniqueViolation("Key (email)=(somebody@example.org) already exists")
    with pytest.raises(Failure) as caught, shown_to_dagster():
        raise error
    assert "somebody" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("interrupt", [DagsterExecutionInterruptedError, KeyboardInterrupt])
def test_an_interrupt_passes_as_it_is(interrupt: type[BaseException]) -> None:
    with pytest.raises(interrupt), shown_to_dagster():
        raise interrupt
