"""A small campaign with each kind of target."""

from __future__ import annotations

import pytest

from tests.mssql_orders import make_either_orders
from tests.mssql_source import ROUTES, make_route
from tests.orders import Orders


@pytest.fixture(params=["postgres", "mssql"])
def either(request: pytest.FixtureRequest) -> Orders:
    """400 orders in 4 chunks, and a live target with an older generation; one kind of target after the other."""
    return make_either_orders(request, rows=400, chunks=4)


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest) -> Orders:
    """400 orders in 4 chunks, and a live target with an older generation; one pair of servers after the other."""
    return make_route(request, rows=400)
