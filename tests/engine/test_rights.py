"""A login that may not do what a campaign does is told so first, and once; so is a server that refuses a login."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from dpone_dagster.campaign.errors import RightsMissing
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.inspect import status
from dpone_dagster.engine.prepare import prepare
from tests.engine.campaign import finish, load
from tests.orders import Orders

OWNER = "dpone_owner"


@pytest.fixture
def poor(orders: Orders) -> Iterator[Orders]:
    """The orders by a login that owns the live table and has no right on the state tables of somebody else."""
    prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    orders.on_target(f"CREATE ROLE {OWNER} LOGIN")
    orders.on_target(f"GRANT USAGE, CREATE ON SCHEMA landing TO {OWNER}")
    for table in (orders.spec.target, orders.spec.shadow):
        orders.on_target(f'ALTER TABLE {table.schema}."{table.name}" OWNER TO {OWNER}')
    yield replace(orders, target_url=orders.target_url.replace("postgres@", f"{OWNER}@"))
    orders.on_target(f"REASSIGN OWNED BY {OWNER} TO CURRENT_USER")
    orders.on_target(f"DROP OWNED BY {OWNER}")
    orders.on_target(f"DROP ROLE {OWNER}")


@pytest.mark.parametrize(
    ("granted", "lacking"),
    [
        ((), "schema system: the login lacks USAGE"),
        (("USAGE ON SCHEMA system",), "table system.__dpone__schema_version: the login lacks SELECT"),
        (
            ("USAGE ON SCHEMA system", "SELECT ON system.__dpone__schema_version"),
            "table system.__dpone__backfill_campaigns: the login lacks SELECT",
        ),
    ],
)
def test_rights_on_the_state_tables_are_asked_for_first(
    orders: Orders, poor: Orders, granted: tuple[str, ...], lacking: str
) -> None:
    for right in granted:
        orders.on_target(f"GRANT {right} TO {OWNER}")
    for intent in ("run", "resume", "join"):
        with pytest.raises(RightsMissing) as refusal:
            prepare(poor.spec, poor.connector, intent=intent, run_id="run-2")
        assert lacking in str(refusal.value)
    assert doctor(poor.spec, poor.connector).findings == refusal.value.findings
    orders.on_target(f"GRANT USAGE ON SCHEMA system TO {OWNER}")
    orders.on_target(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA system TO {OWNER}")
    assert doctor(poor.spec, poor.connector).findings == ()
    load(poor, intent="resume")
    finish(poor)
    assert orders.target_rows() == orders.source_rows()


def test_who_may_not_read_the_state_tables_is_told_the_right(poor: Orders) -> None:
    with pytest.raises(RightsMissing, match="USAGE ON SCHEMA system"):
        status(poor.spec, poor.connector)


@pytest.mark.parametrize("side", ["source_url", "target_url"])
def test_one_fault_of_a_server_is_one_finding(orders: Orders, side: str) -> None:
    away = replace(orders, **{side: urlsplit(getattr(orders, side))._replace(path="/no_such").geturl()})
    (finding,) = doctor(away.spec, away.connector).findings
    assert "LOGIN_REFUSED" in finding.problem
