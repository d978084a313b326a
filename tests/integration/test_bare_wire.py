"""The bench's tables and its bare wire, on a real server: what it compares with must load every row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from benchmarks.campaigns import Campaigns
from benchmarks.cases import OURS, Case
from benchmarks.ground import SOURCE_DATABASE, PostgresGround
from benchmarks.others import WIRE_TABLE, Others
from benchmarks.tables import SOURCE_SCHEMA, fill_source, source_name
from demo.embedded import Embedded


@pytest.fixture
def source(postgres: Embedded) -> Iterator[str]:
    url = postgres.recreate(SOURCE_DATABASE)
    yield url
    postgres.drop(SOURCE_DATABASE)


@pytest.mark.parametrize(
    "name", ["pg-narrow-int-1k-4c-2l", "pg-wide-uuid-1k-4c-2l", "pg-mb-int-3-1c-1l", "pg-sparse-int-1k-4c-1l"]
)
def test_the_bare_wire_loads_every_row_of_the_source(
    name: str, postgres: Embedded, source: str, tmp_path: Path
) -> None:
    case = Case.parse(name)
    assert fill_source(postgres, SOURCE_DATABASE, case) > 0
    ground = PostgresGround(postgres)
    ground.make(case)
    try:
        manifest = Campaigns(tmp_path, source, ground.url).manifest(case, OURS)
        measures = Others(tmp_path, source, ground.url).wire(case, manifest)
        assert ground.rows(WIRE_TABLE) == case.rows
        assert _digest(ground.url, str(WIRE_TABLE)) == _digest(source, f"{SOURCE_SCHEMA}.{source_name(case)}")
    finally:
        ground.drop()
    assert {"seconds", "load_seconds", "index_seconds", "client_cpu_seconds"} <= measures.keys()


def test_a_source_that_is_there_is_not_made_again(postgres: Embedded, source: str) -> None:
    case = Case.parse("pg-narrow-int-1k-4c-2l")
    fill_source(postgres, SOURCE_DATABASE, case)
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("DELETE FROM bench.narrow_int_1k WHERE id = 1")
        fill_source(postgres, SOURCE_DATABASE, case)
        assert connection.execute("SELECT count(*) FROM bench.narrow_int_1k").fetchone() == (999,)


def _digest(url: str, table: str) -> tuple[object, ...] | None:
    with psycopg.connect(url) as connection:
        query = f"SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} AS t"
        return connection.execute(query.encode()).fetchone()
