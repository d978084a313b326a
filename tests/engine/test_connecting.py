"""A server that takes no connection for a moment costs a try, not a step; one that refuses the login is asked once."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from dpone_dagster.campaign.errors import DponeError, LoginRefused, ServerUnreachable
from dpone_dagster.engine.increment import increment_gate, run_increment
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.sessions import opened
from dpone_dagster.mssql.session import Session as MssqlSession
from dpone_dagster.postgres.session import Session
from tests.engine.campaign import finish, load
from tests.orders import Orders
from tests.servers.proxy import MoodyProxy


@contextlib.contextmanager
def moody(url: str, *, refused: int, of: int) -> Iterator[tuple[str, MoodyProxy]]:
    """A way to the server on which some connections end before the server has said a word."""
    parts = urlsplit(url)
    host = parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
    proxy = MoodyProxy(host, parts.port or 5432, refused=refused, of=of)
    login = parts.netloc.rpartition("@")[0]
    query = "" if host.startswith("/") else parts.query
    yield parts._replace(netloc=f"{login}@127.0.0.1:{proxy.port}", query=query).geturl(), proxy
    proxy.close()


def test_every_step_of_a_campaign_survives_a_server_that_hangs_up_on_every_second_caller(orders: Orders) -> None:
    with moody(orders.source_url, refused=1, of=2) as (source, _), moody(orders.target_url, refused=1, of=2) as (to, _):
        through = Orders(source, to, orders.manifest)
        load(through)
        finish(through)
        assert increment_gate(through.spec, through.connector) is None
        run_increment(through.spec, through.connector, "inc-1")
        assert status(through.spec, through.connector).progress.remaining == 0
    assert orders.target_rows() == orders.source_rows()


def test_a_server_that_stays_away_is_asked_three_times(database: str) -> None:
    with moody(database, refused=1, of=1) as (url, proxy):
        with pytest.raises(ServerUnreachable) as caught:
            opened(lambda purpose: Session(url, purpose), "test")
        assert (proxy.connections, caught.value.retryable, caught.value.exit_code) == (3, True, 2)


def test_a_database_that_is_not_there_is_asked_for_once(database: str) -> None:
    with moody(database, refused=0, of=1) as (url, proxy):
        with pytest.raises(LoginRefused, match="does not exist") as caught:
            opened(lambda purpose: Session(url.replace("/db_", "/no_such_"), purpose), "test")
        assert (proxy.connections, caught.value.retryable) == (1, False)


@pytest.mark.parametrize("limit", ["CONNECTION LIMIT 0", "ALLOW_CONNECTIONS false"])
def test_a_database_that_takes_no_connection_now_is_asked_again(
    database: str, new_database: Callable[[str], str], limit: str
) -> None:
    name = urlsplit(database).path[1:]
    with psycopg.connect(new_database("admin"), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name}_app LOGIN")
        admin.execute(f"ALTER DATABASE {name} {limit}")
        tries = []

        def connect(purpose: str) -> Session:
            tries.append(purpose)
            if len(tries) == 2:
                admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true CONNECTION LIMIT -1")
            return Session(database.replace("postgres@", f"{name}_app@"), purpose)

        opened(connect, "test").close()
        assert len(tries) == 2
        admin.execute(f"DROP ROLE {name}_app")


def test_sql_server_too_is_asked_again_where_it_hangs_up_and_once_where_it_refuses(
    new_mssql_database: Callable[[str], str],
) -> None:
    """Verified on Babelfish 4.3."""
    database = new_mssql_database("db")
    with moody(database, refused=1, of=2) as (url, proxy):
        opened(lambda purpose: MssqlSession(url, purpose), "test").close()
        assert proxy.connections == 2
    with moody(database, refused=0, of=1) as (url, proxy):
        wrong = url.replace(urlsplit(url).path, "/no_such_database")
        with pytest.raises(LoginRefused):
            opened(lambda purpose: MssqlSession(wrong, purpose), "test")
        assert proxy.connections == 1
    if "encrypt=no" in database:  # so this server has no TLS
        with moody(database, refused=0, of=1) as (url, proxy):
            with pytest.raises(LoginRefused, match="encrypt=no") as caught:
                opened(lambda purpose: MssqlSession(url.replace("encrypt=no", "encrypt=yes"), purpose), "test")
            assert (proxy.connections, caught.value.retryable) == (1, False)


def test_a_port_where_nobody_listens_is_no_refused_login(database: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for connect in (
            lambda: Session(f"postgresql://x@127.0.0.1:{port}/db", "test"),
            lambda: MssqlSession(f"mssql://x:y@127.0.0.1:{port}/db", "test"),
        ):
            with pytest.raises(DponeError) as caught:
                connect()
            if caught.value.code != "DRIVER_MISSING":
                assert type(caught.value) is ServerUnreachable
