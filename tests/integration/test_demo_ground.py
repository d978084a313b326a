"""`make demo-mssql` may be pointed at a real database: what it did not make there stays as it is.

Verified on Babelfish 4.3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from demo import ground
from demo.ground import Ground, NotTheDemos
from demo.on_mssql import PLACE
from demo.place import ROOT
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql import ddl
from dpone_dagster.mssql.catalog import GENERATION_PROPERTY
from dpone_dagster.mssql.ledger import MssqlLedger
from dpone_dagster.mssql.provisioning import provision
from dpone_dagster.mssql.session import Session
from dpone_dagster.settings import load_spec
from tests.contract.samples import campaign, plan

OLD_ROWS = 100
SPEC = load_spec(ROOT / PLACE.manifest)


@pytest.fixture
def session(new_mssql_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(ground, "OLD_ROWS", OLD_ROWS)
    with contextlib.closing(Session(new_mssql_database("demo"), "test")) as opened:
        yield opened


def their_table(session: Session, name: str) -> None:
    session.execute(f"CREATE TABLE {name} (id int NOT NULL)")
    session.execute(f"INSERT INTO {name} VALUES (7)")


def objects(session: Session) -> list[tuple[int, str]]:
    return [(int(i), name) for i, name in session.rows("SELECT object_id, name FROM sys.tables ORDER BY name")]


def test_it_makes_its_own_table_anew_and_leaves_a_neighbour_alone(session: Session) -> None:
    demo = Ground(SPEC)
    demo.provision(session)
    their_table(session, "landing.customers")
    session.execute(ddl.add_property(TableRef("landing", "customers"), GENERATION_PROPERTY, "published by dpone"))
    before = session.value("SELECT OBJECT_ID('landing.orders')")
    session.execute("DELETE FROM landing.orders")
    demo.provision(session)
    assert session.value("SELECT COUNT(*) FROM landing.orders") == OLD_ROWS
    assert session.value("SELECT OBJECT_ID('landing.orders')") != before
    assert session.rows("SELECT id FROM landing.customers") == [(7,)]


@pytest.mark.parametrize("schema", ["landing", "system"])
def test_a_schema_without_the_mark_is_nobodys_but_its_owners(session: Session, schema: str) -> None:
    session.execute(f"EXEC (N'CREATE SCHEMA {schema}')")
    their_table(session, f"{schema}.orders")
    before = objects(session)
    with pytest.raises(NotTheDemos, match=f"{schema}: is a schema that this demo did not make") as refused:
        Ground(SPEC).provision(session)
    assert refused.value.exit_code == 2
    assert objects(session) == before
    assert session.rows(f"SELECT id FROM {schema}.orders") == [(7,)]


def test_a_table_that_took_the_demos_name_is_left_alone(session: Session) -> None:
    Ground(SPEC).provision(session)
    session.execute("DROP TABLE landing.orders")
    their_table(session, "landing.orders")
    their_table(session, f"landing.{SPEC.backup.name}")
    before = objects(session)
    with pytest.raises(NotTheDemos) as refused:
        Ground(SPEC).provision(session)
    assert {finding.path for finding in refused.value.findings} == {"landing.orders", str(SPEC.backup)}
    assert objects(session) == before
    assert session.rows("SELECT id FROM landing.orders") == [(7,)]


def test_the_state_of_another_campaign_is_left_alone(session: Session) -> None:
    Ground(SPEC).provision(session)
    provision(session, SPEC.state.schema)
    ledger = MssqlLedger(session, SPEC.state.schema)
    with session.transaction():
        ledger.create(campaign(2, run_key=SPEC.run_key), plan(2))
    Ground(SPEC).leftovers(session)  # its own campaign is no obstacle
    with session.transaction():
        ledger.create(campaign(2, dataset="invoices"), plan(2))
    before = objects(session)
    with pytest.raises(NotTheDemos, match="the state of another campaign, `invoices`"):
        Ground(SPEC).provision(session)
    assert objects(session) == before
