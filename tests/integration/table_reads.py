"""A table `t` of 1,000 rows, and reads of all of it by one chunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.watermark import Anchor
from dpone_dagster.ports.source import ChunkRead
from dpone_dagster.postgres.source import PostgresSource
from tests.integration.transfer import PLAN, execute
from tests.waiting import PATIENCE_SECONDS, within

TABLE = TableRef("public", "t")
CONTRACT = ColumnContract(
    (ColumnBinding("id", "id", "integer", "integer"), ColumnBinding("v", "v", "text", "text")), ("id",)
)


def make_table(url: str) -> None:
    """1,000 rows of a key and a text."""
    execute(
        url,
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 1000) n",
    )


def read_of(source: PostgresSource, columns: tuple[str, ...] | None = None, anchor: Anchor | None = None) -> ChunkRead:
    digest = source.describe(TABLE, columns).digest
    bindings = tuple(c for c in CONTRACT.columns if columns is None or c.source in columns)
    contract = replace(CONTRACT, columns=bindings)
    return ChunkRead(TABLE, PLAN.chunk(0), "id", contract, digest, anchor, "00", "pgcopy", "run chunk=0")


def rows(source: PostgresSource, read: ChunkRead) -> int:
    with source.read_chunk(read) as stream:
        size = sum(len(block) for block in stream)
        assert size == stream.bytes
        return stream.rows


def until(condition: Callable[[], bool]) -> None:
    assert within(PATIENCE_SECONDS, condition)
