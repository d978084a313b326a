"""Digests: unambiguous, order-free, and of odd names and types alike."""

from __future__ import annotations

import hashlib

import psycopg
import pytest
from psycopg import sql

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports.changes import ChangeTarget
from dpone_dagster.ports.source import RowStream
from dpone_dagster.postgres import digests
from dpone_dagster.postgres.changes import PostgresChanges
from dpone_dagster.postgres.session import Session
from tests.contract.conftest import Bytes

TABLE = TableRef("odd %s", 'ta"ble {x}')


def text_of(database: str, *literals: str) -> str:
    values = [sql.SQL(literal) for literal in literals]
    with psycopg.connect(database) as connection:
        row = connection.execute(sql.SQL("SELECT {}").format(digests.canonical_text(values))).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("'a|b'", "'c'"), ("'a'", "'b|c'")),
        (("NULL", "'a'"), ("''", "'a'")),
        (("'~'",), ("NULL",)),
        (("'~0'",), ("'~'",)),
        (("'a~'", "'b'"), ("'a'", "'~b'")),
        (("NULL", "NULL"), ("NULL",)),
        (("'~1'",), ("'|'",)),
    ],
)
def test_two_rows_never_have_one_text(database: str, one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert text_of(database, *one) != text_of(database, *other)


def test_a_uuid_is_its_own_text(database: str) -> None:
    assert text_of(database, "'ABCDEF01-0000-4000-8000-000000000001'::uuid") == "abcdef01-0000-4000-8000-000000000001"


def test_a_keyed_digest_is_sha256_over_secret_and_text(database: str) -> None:
    with psycopg.connect(database) as connection:
        query = sql.SQL("SELECT {}").format(digests.keyed_digest([sql.Literal(42)], "00ff"))
        row = connection.execute(query).fetchone()
    assert row == (hashlib.sha256(b"\x00\xff42").hexdigest(),)


def test_content_digests_ignore_order_and_keep_multiplicity(database: str) -> None:
    session = Session(database, "test")
    contract = odd_table(session)
    name = sql.Identifier(TABLE.schema, TABLE.name)
    seen = []
    for values in ("(1, 'a'), (2, 'b')", "(2, 'b'), (1, 'a')", "(1, 'a'), (1, 'a')", "(1, 'a'), (2, NULL)"):
        session.connection.execute(sql.SQL("TRUNCATE {}").format(name))
        session.connection.execute(sql.SQL("INSERT INTO {} VALUES {}").format(name, sql.SQL(values)))
        seen.append(digests.content_digest(session, TABLE, contract))
    session.connection.execute(sql.SQL("TRUNCATE {}").format(name))
    assert digests.content_digest(session, TABLE, contract) == "0:0"
    assert seen[0] == seen[1]
    assert len(set(seen)) == 3
    assert all(digest.startswith("2:") for digest in seen)
    session.close()


def test_odd_names_are_only_names(database: str) -> None:
    session = Session(database, "test")
    contract = odd_table(session)
    session.connection.execute(
        sql.SQL("INSERT INTO {} VALUES (7, 'x')").format(sql.Identifier(TABLE.schema, TABLE.name))
    )
    changes, into = PostgresChanges(session), ChangeTarget(TABLE, contract)
    (bucket,) = changes.key_buckets(into, 1024)
    with session.transaction():
        assert changes.stage_keys(into, nothing(), 1024, [bucket.bucket]).extra_in_target == 1
        changes.stage_rows(into, nothing())
        assert changes.upsert(into).updated == 0
        assert changes.delete_unmatched(into) == 1
    session.close()


def nothing() -> RowStream:
    """A binary COPY without rows."""
    return Bytes([b"PGCOPY\n\xff\r\n\x00" + bytes(8) + b"\xff\xff"], 0)


def odd_table(session: Session) -> ColumnContract:
    key, value = "k%s", 'v"{y}'
    session.connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(TABLE.schema)))
    session.connection.execute(
        sql.SQL("CREATE TABLE {} ({} integer NOT NULL, {} text)").format(
            sql.Identifier(TABLE.schema, TABLE.name), sql.Identifier(key), sql.Identifier(value)
        )
    )
    bindings = (ColumnBinding(key, key, "integer", "integer"), ColumnBinding(value, value, "text", "text"))
    return ColumnContract(bindings, (key,))
