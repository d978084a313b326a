"""A login with few rights on SQL Server is told each that it lacks, and nothing is touched.

Verified on Babelfish 4.3: the portable part of the script, and that each missing right is named. UNVERIFIED on SQL
Server: that the rights are enough for a campaign. The stand-in can grant neither ALTER on a schema nor a right on a
database.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from demo.mssql_server import MssqlServer
from dpone_dagster.campaign.errors import DponeError, RightsMissing
from dpone_dagster.engine.doctor import doctor
from dpone_dagster.engine.prepare import prepare
from dpone_dagster.mssql.session import Session
from dpone_dagster.mssql.target import MssqlTarget
from tests.mssql_orders import MssqlOrders, make_mssql_orders

SCRIPT = Path(__file__).parents[2] / "deploy/mssql/setup.sql"
# Without EXECUTE AS the stand-in checks the owner, whom it does not credit with VIEW DEFINITION.
CHECK = ["EXECUTE AS USER", "DECLARE @lacking nvarchar(2000);", "REVERT; PRINT N'the"]
LOGIN, SECRET = "dpone_poor", "Str0ng-secret!"


@pytest.fixture
def orders(
    new_database: Callable[[str], str], new_mssql_database: Callable[[str], str], mssql: MssqlServer
) -> Iterator[MssqlOrders]:
    made = make_mssql_orders(new_database("oltp"), new_mssql_database("dwh"), rows=10, chunks=2)
    owner_url = made.target_url
    yield made
    made.target_url = owner_url
    with contextlib.closing(Session(owner_url, "test harness")) as owner:
        for statement in (f"DROP USER [{LOGIN}]", f"DROP LOGIN [{LOGIN}]"):
            with contextlib.suppress(DponeError):
                owner.execute(statement)


def run_script(url: str) -> list[str]:
    """Run its batches; returns the first words of those that the stand-in does not know."""
    values = {"database": urlsplit(url).path[1:], "login": LOGIN, "password": SECRET}
    values |= {"target_schema": "landing", "state_schema": "system"}
    script = re.sub(r"\$\(dpone_(\w+)\)", lambda found: values[found[1]], SCRIPT.read_text())
    unknown = []
    with contextlib.closing(Session(url, "test harness")) as owner:
        for batch in re.split(r"^GO$", script, flags=re.MULTILINE):
            try:
                owner.execute(batch.strip() or "SELECT 1", seconds=60)
            except DponeError as error:
                if not re.search("not currently supported|the login lacks", error.message):
                    raise
                unknown.append(" ".join(re.sub(r"--.*", "", batch).split()[:3]))
    return unknown


def as_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{LOGIN}:{SECRET}@{parts.hostname}:{parts.port}"))


def test_each_right_that_is_missing_is_named_and_nothing_is_touched(orders: MssqlOrders, mssql: MssqlServer) -> None:
    unknown = run_script(orders.target_url)
    run_script(orders.target_url)  # again: nothing is there twice
    if mssql.stand_in:
        assert unknown == ["GRANT ALTER ON"] * 2 + ["GRANT CREATE TABLE", "GRANT VIEW DEFINITION"] + CHECK
    else:
        assert unknown == []
        owner = Session(orders.target_url, "test harness")
        owner.execute("REVOKE ALTER ON SCHEMA::landing FROM dpone_campaign")
        owner.execute("REVOKE CREATE TABLE FROM dpone_campaign")
        owner.close()
    tables = "SELECT s.name, t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id"
    before = sorted(orders.on_target(tables))
    owner_url, orders.target_url = orders.target_url, as_login(orders.target_url)
    with pytest.raises(RightsMissing, match="mssql_dwh") as caught:
        prepare(orders.spec, orders.connector, intent="run", run_id="run-1")
    found = {(finding.path, finding.problem) for finding in caught.value.findings}
    assert {("database", "the login lacks CREATE TABLE"), ("schema landing", "the login lacks ALTER")} <= found
    assert found <= {(finding.path, finding.problem) for finding in doctor(orders.spec, orders.connector).findings}
    orders.target_url = owner_url
    assert sorted(orders.on_target(tables)) == before


def test_an_owner_lacks_nothing(orders: MssqlOrders) -> None:
    target = MssqlTarget(orders.target_url, "test", "system")
    assert target.missing_rights(orders.spec.target, "publish") == []
    target.close()
