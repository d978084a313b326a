"""A login that may do little: what provisioning needs, and what locks tell it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from dpone_dagster.campaign.errors import DponeError, RightsMissing
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.selection import ChunkSelection
from dpone_dagster.postgres.fence import PostgresFence
from dpone_dagster.postgres.ledger import PostgresLedger
from dpone_dagster.postgres.rights import missing_rights
from dpone_dagster.postgres.session import Session
from tests.contract.samples import RUN_KEY, campaign, plan, worker


@pytest.fixture
def login(database: str) -> Iterator[str]:
    """URL of a login without any right of its own."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("CREATE ROLE dpone_poor LOGIN")
        yield make_conninfo(database, user="dpone_poor")
        admin.execute("DROP OWNED BY dpone_poor")
        admin.execute("DROP ROLE dpone_poor")


def test_the_schema_may_be_made_by_somebody_else(database: str, login: str) -> None:
    session = Session(login, "poor")
    ledger = PostgresLedger(session, "system")
    assert not ledger.provisioned()
    with pytest.raises(DponeError, match="42501: permission denied for database"):
        ledger.provision()
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA system")
        admin.execute("GRANT USAGE, CREATE ON SCHEMA system TO dpone_poor")
    ledger.provision()
    assert ledger.provisioned()
    session.close()


def test_a_holder_of_another_login_is_named_by_its_claim(database: str, login: str) -> None:
    lane, poor = Session(database, "lane 0"), Session(login, "poor")
    ledger, fence = PostgresLedger(lane, "system"), PostgresFence(lane, "system")
    ledger.provision()
    with lane.transaction():
        ledger.create(campaign(2), plan(2))
    lane.connection.execute("GRANT USAGE ON SCHEMA system TO dpone_poor")
    lane.connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA system TO dpone_poor")
    assert fence.lock_campaign(RUN_KEY, "shared", 0)
    (unclaimed,) = PostgresFence(poor, "system").holders(RUN_KEY)
    assert (unclaimed.session_id, unclaimed.name, unclaimed.login_at) == (lane.pid, "dpone lane 0", None)
    assert "logged in" not in str(unclaimed)

    assert fence.try_lock_chunk(RUN_KEY, 1)
    (seen,) = ledger.chunks(RUN_KEY, ChunkSelection(((1, 2),)))
    assert ledger.claim(RUN_KEY, seen, worker()) is not None
    (claimed,) = ledger.chunks(RUN_KEY, ChunkSelection(((1, 2),)))
    held = PostgresFence(poor, "system").holders(RUN_KEY)
    assert sorted(holder.lock for holder in held) == ["campaign (shared)", "chunk 1"]
    assert {holder.login_at for holder in held} == {claimed.session_login_at}
    lane.close()
    poor.close()


def test_who_may_not_end_a_session_is_told_the_role(database: str, login: str) -> None:
    lane, poor = Session(database, "lane 0"), Session(login, "poor")
    assert PostgresFence(lane, "system").lock_campaign(RUN_KEY, "exclusive", 0)
    fence = PostgresFence(poor, "system")
    (unseen,) = fence.holders(RUN_KEY)
    with pytest.raises(RightsMissing, match="pg_read_all_stats"):
        fence.end_session(RUN_KEY, unseen)
    (holder,) = PostgresFence(lane, "system").holders(RUN_KEY)
    lane.connection.execute("GRANT pg_read_all_stats TO dpone_poor")
    with pytest.raises(RightsMissing, match="pg_signal_backend"):
        fence.end_session(RUN_KEY, holder)
    assert [seen.session_id for seen in fence.holders(RUN_KEY)] == [lane.pid]
    lane.close()
    poor.close()


def missing(session: Session) -> list[tuple[str, str]]:
    table = TableRef("landing", "orders")
    return [(f.path, f.problem.removeprefix("the login lacks ")) for f in missing_rights(session, table, "system")]


def test_each_right_that_is_missing_is_named(database: str, login: str) -> None:
    poor = Session(login, "poor")
    owned = [("table landing.orders", "ownership")]
    assert missing(poor) == [(f"database {poor.connection.info.dbname}", "CREATE")]
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA landing CREATE TABLE orders (id int)")
        admin.execute("CREATE SCHEMA system")
        both = [(f"schema {schema}", right) for schema in ("landing", "system") for right in ("CREATE", "USAGE")]
        assert missing(poor) == both + owned
        admin.execute("GRANT USAGE, CREATE ON SCHEMA landing, system TO dpone_poor")
        assert missing(poor) == owned
        admin.execute("ALTER TABLE landing.orders OWNER TO dpone_poor")
        assert missing(poor) == []
        lead = Session(database, "lead")
        PostgresLedger(lead, "system").provision()
        lead.close()
        admin.execute("REVOKE CREATE ON SCHEMA system FROM dpone_poor")
        state = missing(poor)
        assert ("table system.__dpone__chunk_receipts", "INSERT") in state
        assert {right for _, right in state} == {"SELECT", "INSERT", "UPDATE"}
        admin.execute("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA system TO dpone_poor")
        assert missing(poor) == []
    poor.close()
