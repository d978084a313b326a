"""The wire breaks around COMMIT, of a chunk, a publication, a handoff and an increment.

The outcome is found on a new session and said as it is; what was committed is not done again, what was not is never
called committed. With a SQL Server target: Verified on Babelfish 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import get_args

import pytest

from dpone_dagster.campaign.errors import OutcomeUnknown
from dpone_dagster.engine.handoff import commit_handoff
from dpone_dagster.engine.increment import run_increment
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.engine.publish import publish
from dpone_dagster.engine.validate import validate
from tests.engine.campaign import Seen, finish, lane, load
from tests.mssql_orders import MssqlOrders, make_mssql_orders
from tests.orders import Orders, make_orders
from tests.servers.proxy import Moment
from tests.wire import cut_once

MOMENTS = get_args(Moment)


@pytest.fixture(params=["postgres", "mssql"])
def either(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Orders:
    source = new_database("oltp")
    if request.param == "postgres":
        return make_orders(source, new_database("dwh"), rows=100, chunks=2, lanes=1)
    return make_mssql_orders(source, request.getfixturevalue("mssql_warehouse"), rows=100, chunks=2, lanes=1)


def commit_of(orders: Orders) -> str:
    return "COMMIT TRANSACTION" if isinstance(orders, MssqlOrders) else "COMMIT"


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said about unknown outcomes; and nothing that was said calls it rolled back."""
    messages = [record.getMessage() for record in caplog.records]
    assert not any("rolled back" in message for message in messages)
    return [message for message in messages if "outcome unknown" in message]


def found(moment: Moment) -> str:
    return "outcome unknown, found not committed" if moment == "before" else "outcome unknown, found committed"


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_commit_of_a_chunk(either: Orders, caplog: pytest.LogCaptureFixture, moment: Moment) -> None:
    orders = either
    caplog.set_level(logging.WARNING, "dpone_dagster")
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    seen = Seen()
    with cut_once(orders, commit_of(orders), moment, "/* dpone:complete_receipt */") as through:
        lane(through, seen)
    assert (sorted(seen.done), seen.errors) == ([0, 1], {})
    (told,) = said(caplog)
    assert told.endswith(found(moment))
    finish(orders)
    assert orders.target_rows() == orders.source_rows()


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_commit_of_a_publication(either: Orders, caplog: pytest.LogCaptureFixture, moment: Moment) -> None:
    orders = either
    load(orders)
    assert validate(orders.spec, orders.connector, "run-1").passed
    caplog.set_level(logging.WARNING, "dpone_dagster")
    with cut_once(orders, commit_of(orders), moment, "/* dpone:record_publication */") as through:
        receipt = publish(through.spec, through.connector, "run-1")
    assert said(caplog) == [f"publish: {found(moment)}"]
    assert orders.on_target("SELECT COUNT(*) FROM system.__dpone__publications") == [(1,)]
    assert (receipt.actual_rows, orders.target_rows()) == (100, orders.source_rows())


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_commit_of_a_handoff_and_of_an_increment(
    either: Orders, caplog: pytest.LogCaptureFixture, moment: Moment
) -> None:
    orders = either
    load(orders)
    assert validate(orders.spec, orders.connector, "run-1").passed
    publish(orders.spec, orders.connector, "run-1")
    caplog.set_level(logging.WARNING, "dpone_dagster")
    for step, todo, since in (
        ("handoff", commit_handoff, "/* dpone:seed_checkpoint */"),
        ("increment", run_increment, "/* dpone:advance_checkpoint */"),
    ):
        orders.on_source("DELETE FROM public.orders WHERE id IN (SELECT id FROM public.orders ORDER BY id LIMIT 5)")
        caplog.clear()
        with cut_once(orders, commit_of(orders), moment, since) as through:
            if moment == "before":
                with pytest.raises(OutcomeUnknown, match=found(moment)):
                    todo(through.spec, through.connector, f"cut-{step}")
            else:
                todo(through.spec, through.connector, f"cut-{step}")
        assert said(caplog) == [f"{step}: {found(moment)}"]
        if moment == "before":
            todo(orders.spec, orders.connector, f"again-{step}")
    assert orders.target_rows() == orders.source_rows()
    checkpoints = orders.on_target("SELECT revision FROM system.__dpone__xmin_checkpoints")
    assert [revision for (revision,) in checkpoints] == [2]
