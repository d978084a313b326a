"""What tests of the PostgreSQL source have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpone_dagster.postgres.source import PostgresSource
from tests.integration.table_reads import make_table


@pytest.fixture
def source(database: str) -> Iterator[PostgresSource]:
    """A source with the table `t`."""
    make_table(database)
    source = PostgresSource(database, "test")
    yield source
    source.close()
