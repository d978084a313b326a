"""What tests of the PostgreSQL source, and those of the command, have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpone_dagster.postgres.source import PostgresSource
from tests.integration.table_reads import make_table
from tests.operators import Operator
from tests.orders import Orders


@pytest.fixture
def source(database: str) -> Iterator[PostgresSource]:
    """A source with the table `t`."""
    make_table(database)
    source = PostgresSource(database, "test")
    yield source
    source.close()


@pytest.fixture
def operator(orders: Orders, tmp_path: Path) -> Operator:
    return Operator(orders, tmp_path)
