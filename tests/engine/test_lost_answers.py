"""The server did it and its answer never came: the lane finds out, and nothing is taken for lost or done twice.

Verified on Babelfish 4.3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from dpone_dagster.campaign.errors import ConnectionLost
from dpone_dagster.engine.prepare import prepare
from tests.engine.campaign import Seen, finish, lane
from tests.mssql_orders import MssqlOrders, make_mssql_orders
from tests.orders import Orders, make_orders
from tests.servers.proxy import CuttingProxy


@pytest.fixture(params=["postgres", "mssql"])
def orders(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> Orders:
    source = new_database("oltp")
    if request.param == "postgres":
        made = make_orders(source, new_database("dwh"), rows=200, chunks=4)
    else:
        made = make_mssql_orders(source, request.getfixturevalue("mssql_warehouse"), rows=200, chunks=4)
    prepare(made.spec, made.connector, intent="run", run_id="run-1")
    return made


@contextlib.contextmanager
def lost_once(orders: Orders, statement: str) -> Iterator[Orders]:
    """The orders by way of a proxy that throws away the server's first answer to a statement."""
    parts = urlsplit(orders.target_url)
    if isinstance(orders, MssqlOrders):
        if "encrypt=no" not in orders.target_url:
            pytest.skip("the proxy has to read the traffic, which is encrypted")
        host, port, mark = parts.hostname or "", parts.port or 1433, statement.encode("utf-16-le")
    else:
        host, port, mark = parse_qs(parts.query)["host"][0], 5432, statement.encode()
    proxy = CuttingProxy(host, port, mark, "after", times=1)
    login = parts.netloc.rpartition("@")[0]
    url = parts._replace(
        netloc=f"{login}@127.0.0.1:{proxy.port}", query=parts.query if isinstance(orders, MssqlOrders) else ""
    ).geturl()
    yield type(orders)(orders.source_url, url, orders.manifest)
    proxy.close()


def test_a_committed_chunk_is_nobody_elses(orders: Orders) -> None:
    seen = Seen()
    with lost_once(orders, "/* dpone:complete */") as through:
        result = lane(through, seen)
    assert (result.committed, result.failed) == (4, 0)
    assert sorted([*seen.done, *seen.replayed]) == [0, 1, 2, 3]
    finish(orders)
    assert orders.target_rows() == orders.source_rows()


def test_a_claim_that_was_made_unseen_is_given_back(orders: Orders) -> None:
    with lost_once(orders, "/* dpone:claim */") as through, pytest.raises(ConnectionLost):
        lane(through, Seen())
    states = orders.on_target("SELECT state, COUNT(*) FROM system.__dpone__backfill_chunks GROUP BY state")
    assert [tuple(row) for row in states] == [("pending", 4)]
