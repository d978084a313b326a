"""What the crash tests have in common: the same orders, with each target in turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.mssql_orders import make_mssql_orders
from tests.orders import Orders, make_orders

MakeOrders = Callable[..., Orders]


@pytest.fixture(params=["postgres", "mssql"])
def make_any_orders(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> MakeOrders:
    """`make_orders` without its databases; skipped where there is no SQL Server."""
    if request.param == "postgres":
        return lambda **sizes: make_orders(new_database("oltp"), new_database("dwh"), **sizes)
    new_mssql_database = request.getfixturevalue("new_mssql_database")
    return lambda **sizes: make_mssql_orders(new_database("oltp"), new_mssql_database("dwh"), **sizes)
