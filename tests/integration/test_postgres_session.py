"""What a session of PostgreSQL makes of a URL, of a role's own settings, and of a server that says no."""

from __future__ import annotations

import contextlib
from urllib.parse import urlsplit

import psycopg
import pytest

from dpone_dagster.campaign.errors import ConnectionInvalid, LoginRefused
from dpone_dagster.engine.increment import run_increment
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.postgres.session import Session
from tests.engine.campaign import Seen, finish, lane, load
from tests.orders import Orders

HOSTILE = {
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "statement_timeout": "2s",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "2s",
    "transaction_timeout": "2s",
    "search_path": "elsewhere",
    "TimeZone": "Asia/Kolkata",
    "DateStyle": "German",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "quote_all_identifiers": "on",
}


def value_of(session: Session, name: str) -> str:
    row = session.connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def be_hostile(*urls: str) -> None:
    for url in urls:
        with psycopg.connect(url, autocommit=True) as admin:
            known = {name for (name,) in admin.execute("SELECT name FROM pg_settings")}
            for name in HOSTILE.keys() & known:
                database = urlsplit(url).path[1:]
                admin.execute(f"ALTER DATABASE {database} SET {name} = '{HOSTILE[name]}'".encode())


def be_friendly(orders: Orders) -> None:
    # Their own sessions would not live long enough otherwise.
    for url in (orders.source_url, orders.target_url):
        options = "-c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=0"
        with psycopg.connect(url, options=options, autocommit=True) as admin:
            admin.execute(f"ALTER DATABASE {urlsplit(url).path[1:]} RESET ALL".encode())


def test_a_database_whose_settings_are_hostile_is_loaded_exactly(orders: Orders) -> None:
    be_hostile(orders.source_url, orders.target_url)
    load(orders)
    finish(orders)
    run_increment(orders.spec, orders.connector, "inc-1")
    be_friendly(orders)
    assert orders.target_rows() == orders.source_rows()


def test_a_session_lives_as_long_as_it_has_to_whatever_the_database_says(database: str) -> None:
    be_hostile(database)
    with contextlib.closing(Session(database, "test")) as session:
        timeouts = session.connection.execute("SELECT name FROM pg_settings WHERE name ~ '_timeout$'").fetchall()
        ours = [name for (name,) in timeouts if name in HOSTILE]
        assert len(ours) >= 4
        assert {value_of(session, name) for name in ours} == {"0"}


def test_rows_that_a_policy_hides_stop_the_chunk_instead_of_staying_out(orders: Orders) -> None:
    role = urlsplit(orders.source_url).path[1:] + "_reader"
    for statement in (
        f"CREATE ROLE {role} LOGIN",
        f"GRANT SELECT ON public.orders TO {role}",
        "CREATE POLICY paid_ones ON public.orders USING (paid)",
    ):
        orders.on_source(statement)
    as_reader = Orders(orders.source_url.replace("postgres@", f"{role}@"), orders.target_url, orders.manifest)
    prepare(as_reader.spec, as_reader.connector, intent="run", run_id="run-1")
    orders.on_source("ALTER TABLE public.orders ENABLE ROW LEVEL SECURITY")
    seen = Seen()
    assert lane(as_reader, seen).committed == 0
    assert seen.errors


def test_the_urls_own_options_stay_where_ours_do_not_need_them(database: str) -> None:
    given = "&options=-c%20work_mem%3D7MB%20-c%20TimeZone%3DAsia/Kolkata&connect_timeout=3&application_name=mine"
    with contextlib.closing(Session(database + given, "test")) as session:
        assert (value_of(session, "work_mem"), value_of(session, "TimeZone")) == ("7MB", "UTC")
        assert session.connection.info.get_parameters()["connect_timeout"] == "3"
        assert value_of(session, "application_name") == "dpone test"


@pytest.mark.parametrize(
    ("parameter", "words"),
    [("pasword=hunter2", "`pasword` is unknown"), ("sslmode=hunter2", "sslmode"), ("user=%zzhunter2", "not a valid")],
)
def test_a_parameter_that_is_wrong_is_named(parameter: str, words: str) -> None:
    with pytest.raises(ConnectionInvalid, match=words) as caught:
        Session(f"postgresql://localhost:1/db?{parameter}", "test")
    if "sslmode" not in parameter:
        assert "hunter2" not in str(caught.value)


def test_a_role_that_is_not_there_is_a_refused_login(database: str) -> None:
    with pytest.raises(LoginRefused, match="does not exist"):
        Session(database.replace("postgres@", "nobody_at_all@"), "test")


def test_the_server_is_asked_to_notice_within_seconds_that_a_host_vanished(database: str) -> None:
    # A socket of this host has no keep-alives, so that the server shows none here.
    with contextlib.closing(Session(database, "test")) as session:
        options = session.connection.info.get_parameters()["options"]
    for setting in ("idle=10", "interval=5", "count=3"):
        assert f"tcp_keepalives_{setting}" in options
    assert "tcp_user_timeout=20000" in options
