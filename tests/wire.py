"""The orders by way of a wire that breaks once, at a chosen statement."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.mssql_orders import MssqlOrders
from tests.orders import Orders
from tests.servers.proxy import CuttingProxy, Moment


@contextlib.contextmanager
def cut_once(orders: Orders, statement: str, moment: Moment, since: str = "") -> Iterator[Orders]:
    """The orders by way of a proxy that cuts the connection at the first such statement, `since` another one."""
    parts = urlsplit(orders.target_url)
    if isinstance(orders, MssqlOrders):
        if "encrypt=no" not in orders.target_url:
            pytest.skip("the proxy has to read the traffic, which is encrypted")
        host, port, encoding = parts.hostname or "", parts.port or 1433, "utf-16-le"
    else:
        host, port, encoding = parse_qs(parts.query)["host"][0], 5432, "utf-8"
    mark, earlier = statement.encode(encoding), since.encode(encoding)
    proxy = CuttingProxy(host, port, mark, moment, times=1, since=earlier)
    login = parts.netloc.rpartition("@")[0]
    url = parts._replace(
        netloc=f"{login}@127.0.0.1:{proxy.port}", query=parts.query if isinstance(orders, MssqlOrders) else ""
    ).geturl()
    yield type(orders)(orders.source_url, url, orders.manifest)
    proxy.close()
