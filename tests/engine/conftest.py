"""A small campaign with each kind of target."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.orders import Orders, make_orders


@pytest.fixture(params=["postgres", "mssql"])
def either(request: pytest.FixtureRequest) -> Orders:
    """400 orders in 4 chunks, and a live target with an older generation; one kind of target after the other."""
    if request.param == "mssql":
        orders: Orders = request.getfixturevalue("mssql_orders")
        return orders
    new_database: Callable[[str], str] = request.getfixturevalue("new_database")
    return make_orders(new_database("oltp"), new_database("dwh"), rows=400, chunks=4)
