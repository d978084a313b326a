"""Every row of the type table, live: values at the edges of the source type arrive as they are, or stop the chunk."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from demo.embedded import Embedded
from dpone_dagster.campaign.contract import ColumnOption
from dpone_dagster.campaign.errors import ColumnContractRefused, ValueNotRepresentable
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.typetable import word
from dpone_dagster.campaign.typetable_postgres import REFUSED, RULES
from dpone_dagster.postgres.columns import read_columns
from dpone_dagster.postgres.session import Session
from tests.integration.transfer import Transfer, execute, texts
from tests.integration.type_cases import CASES, NO_OPTION, Case

SOURCE, TARGET = TableRef("src", "t"), TableRef("dst", "t")


@pytest.fixture(scope="module")
def url(postgres: Embedded) -> Iterator[str]:
    url = postgres.recreate("type_table")
    execute(
        url,
        "CREATE SCHEMA src",
        "CREATE SCHEMA dst",
        "CREATE TYPE src.mood AS ENUM ('sad', 'it''s 😀')",
        "CREATE TYPE src.pair AS (a int, b text)",
        "CREATE DOMAIN src.price AS numeric(5,2)",
        "CREATE DOMAIN src.cents AS src.price",
    )
    yield url
    postgres.drop("type_table")


def made(url: str, case: Case, values: tuple[str | None, ...]) -> Transfer:
    execute(
        url,
        "DROP TABLE IF EXISTS src.t, dst.t",
        f"CREATE TABLE src.t (id int PRIMARY KEY, v {case.source})",
        f"CREATE TABLE dst.t (id int PRIMARY KEY, v {case.target})",
    )
    with psycopg.connect(url, autocommit=True) as connection:
        for number, value in enumerate(values):
            connection.execute(f"INSERT INTO src.t SELECT %s, %s::text::{case.source}", (number, value))
    return Transfer(url, SOURCE, url, TARGET, {"v": case.option})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_at_the_edges_arrive_exactly(url: str, case: Case) -> None:
    try:
        transfer = made(url, case, (*case.good, None))
    except psycopg.errors.FeatureNotSupported as error:
        pytest.skip(f"this server is built without it: {error.diag.message_primary}")

    transfer.run()

    given = texts(url, SOURCE)
    arrives = {case.good.index(value): text for value, text in case.arrives}
    assert texts(url, TARGET) == {**given, **arrives}
    assert given[len(case.good)] is None


BAD = [(case, value, reason) for case in CASES for value, reason in case.bad]


@pytest.mark.parametrize(("case", "value", "reason"), BAD, ids=[f"{c}: {v[:40]}" for c, v, _ in BAD])
def test_a_value_without_a_home_stops_the_chunk(url: str, case: Case, value: str, reason: str) -> None:
    transfer = made(url, case, (*case.good, value))

    with pytest.raises(ValueNotRepresentable) as caught:
        transfer.run()

    assert f"({reason})" in caught.value.message
    assert caught.value.findings[0].path == "source.v"
    assert texts(url, TARGET) == {}


@pytest.mark.parametrize(("case", "value", "reason"), BAD, ids=[f"{c}: {v[:40]}" for c, v, _ in BAD])
def test_a_value_without_a_home_becomes_null_where_asked_for(url: str, case: Case, value: str, reason: str) -> None:
    transfer = made(url, case, (*case.good, value, None))
    transfer.options = {"v": ColumnOption("null", case.option.representation)}

    nulled = transfer.run()

    arrived = texts(url, TARGET)
    assert nulled == {"v": 1}
    assert arrived[len(case.good)] is None
    assert arrived[len(case.good) + 1] is None
    assert all(arrived[number] is not None for number in range(len(case.good)))


def test_every_row_of_the_table_is_tried(url: str) -> None:
    tried = {tuple(_type_names(url, case)) for case in CASES if case.option == NO_OPTION}

    assert set(RULES) - tried == set()


def _type_names(url: str, case: Case) -> tuple[str, str]:
    made(url, case, ())
    session = Session(url, "test")
    try:
        found = [read_columns(session, table) for table in (SOURCE, TARGET)]
    finally:
        session.close()
    names = [word(table[2][1].type) for table in found if table is not None]
    return names[0], names[1]


REFUSALS = (
    *((source, target, None) for source, target in REFUSED),
    ("bpchar(3)", "bpchar(5)", None),
    ("bpchar(5)", "bpchar(3)", None),
    ("bit(3)", "bit(5)", None),
    ("interval", "interval(3)", None),
    ("interval", "text", None),
    ("int4", "text", None),
    ("text", "int4", None),
    ("bool", "int4", None),
    ("regclass", "regclass", None),
    ("tsquery", "tsquery", None),
    ("int2vector", "int2vector", None),
    ("src.mood", "src.mood", None),
    ("src.mood", "dst.mood", None),
    ("src.mood[]", "src.mood[]", None),
    ("src.pair", "src.pair", None),
    ("text[]", "varchar(3)[]", None),
    ("int8[]", "int4[]", None),
    ("int4[]", "int4", None),
    ("int4range", "int8range", None),
    ("json", "jsonb", "json"),
    ("json[]", "jsonb", "json"),
    ("src.pair", "jsonb", "json"),
    ("int4", "int4", "text"),
    ("int4[]", "text", "json"),
)


@pytest.mark.parametrize(("source", "target", "representation"), REFUSALS)
def test_a_type_without_an_exact_home_is_refused(
    url: str, source: str, target: str, representation: str | None
) -> None:
    execute(url, "DROP TYPE IF EXISTS dst.mood CASCADE", "CREATE TYPE dst.mood AS ENUM ('sad', 'it''s 😀')")
    option = ColumnOption(representation=representation)  # type: ignore[arg-type]
    transfer = made(url, Case(source, target, (), option=option), ())

    with pytest.raises(ColumnContractRefused) as caught:
        transfer.run()

    assert [finding.path for finding in caught.value.findings] == ["source.v"]
    assert caught.value.findings[0].advice
