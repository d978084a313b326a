"""A small orders table, its target and its manifest: what most end-to-end tests load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import yaml

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.manifest import parse_manifest
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.connections import Connections
from dpone_dagster.ports.target import Connector
from dpone_dagster.wiring import open_connector
from tests.waiting import PATIENCE_SECONDS, within

COLUMNS = """
    id uuid NOT NULL,
    amount numeric(18,2),
    placed_at timestamptz NOT NULL,
    note text,
    paid boolean NOT NULL,
    detail jsonb
"""
ROWS = """
    SELECT md5(n::text || %(salt)s)::uuid,
           (n %% 100000)::numeric / 100,
           timestamptz '2024-01-01 00:00:00+00' + n * interval '1 second',
           CASE n %% 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'naïve 😀 ' || n ELSE 'order ' || n END,
           n %% 2 = 0,
           jsonb_build_object('n', n, 'tags', jsonb_build_array('a', n %% 7))
    FROM generate_series(1, %(rows)s) n
"""

_SPREAD = """
    UPDATE public.orders
    SET placed_at = timestamptz '2024-03-29 00:00:00+00'
                  + mod(('x' || left(md5(id::text), 4))::bit(16)::int, 96) * interval '1 hour'
"""


@dataclass
class Orders:
    """Source and target databases with an orders table, and the manifest that loads one into the other."""

    source_url: str
    target_url: str
    manifest: dict[str, Any]

    chunks: ClassVar[dict[str, Any]] = {"column": "id", "kind": "uuid", "buckets": 4}
    one_chunk: ClassVar[dict[str, Any]] = {**chunks, "buckets": 1}

    @property
    def spec(self) -> CampaignSpec:
        return parse_manifest(self.manifest).to_spec()

    @property
    def environment(self) -> Mapping[str, str]:
        ends = (("source", self.source_url), ("sink", self.target_url))
        return {f"DPONE_CONNECTION_{self.manifest[end]['connection_ref'].upper()}": url for end, url in ends}

    @property
    def connector(self) -> Connector:
        return open_connector(self.spec, Connections.from_environment(self.environment))

    @property
    def backfill(self) -> dict[str, Any]:
        """The manifest's `backfill` block, to be changed by a test."""
        return self.manifest["sink"]["strategy"]["backfill"]

    def write(self, folder: Path) -> Path:
        """Write the manifest into a folder and return its path."""
        path = folder / "orders.yaml"
        path.write_text(yaml.safe_dump(self.manifest, sort_keys=False))
        return path

    def on_source(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        return _run(self.source_url, statement, parameters)

    def on_target(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        return _run(self.target_url, statement, parameters)

    def source_counters(self, query: str) -> list[tuple[Any, ...]]:
        """A look into `pg_stat_*`, once all that was done here before is counted."""
        return _counters(self.source_url, query)

    def target_counters(self, query: str) -> list[tuple[Any, ...]]:
        """The same on the target."""
        return _counters(self.target_url, query)

    def spread(self) -> None:
        """Spread the source's rows over March 29 to April 1, the first instants of each day among them."""
        self.on_source(_SPREAD)

    def add_orders(self, count: int, day: str) -> None:
        """Add new rows of one day to the source."""
        self.on_source(
            "INSERT INTO public.orders SELECT gen_random_uuid(), 1, %s, 'new', true FROM generate_series(1, %s)",
            day,
            count,
        )

    def source_rows(self) -> list[tuple[Any, ...]]:
        return self.on_source("SELECT * FROM public.orders ORDER BY id")

    def target_rows(self, table: str = "landing.orders") -> list[tuple[Any, ...]]:
        return self.on_target(f"SELECT * FROM {table} ORDER BY id")

    def rows_of(self, table: TableRef) -> list[tuple[Any, ...]]:
        """Rows of another table of the target."""
        return self.target_rows(f'"{table.schema}"."{table.name}"')

    def index_names(self) -> list[str]:
        """Of the live table."""
        query = "SELECT indexname FROM pg_indexes WHERE schemaname = 'landing' AND tablename = 'orders' ORDER BY 1"
        return [name for (name,) in self.on_target(query)]

    def tables(self) -> list[str]:
        """Names of the target's tables."""
        rows = self.on_target("SELECT table_name FROM information_schema.tables WHERE table_schema = 'landing'")
        return sorted(name for (name,) in rows)

    def digests(self) -> tuple[str, str]:
        """Order-free digests of source and live table."""
        connector = self.connector
        source, target = connector.source("test"), connector.target("test")
        try:
            record = target.ledger.campaign(self.spec.run_key)
            assert record is not None
            contract = ColumnContract.from_dict(record.contract)
            return (
                source.content_digest(self.spec.source, contract),
                target.tables.content_digest(self.spec.target, contract),
            )
        finally:
            source.close()
            target.close()


def _run(url: str, statement: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []


def _counters(url: str, query: str) -> list[tuple[Any, ...]]:
    # A session adds what it did to the counters as its last act, after its client has gone on.
    others = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    assert within(PATIENCE_SECONDS, lambda: _run(url, others, ()) == [(0,)])
    return _run(url, query, ())


def make_orders(source_url: str, target_url: str, *, rows: int, chunks: int = 8, lanes: int = 2) -> Orders:
    """Create the source with `rows` rows and a live target that holds an older generation of three rows."""
    with psycopg.connect(source_url, autocommit=True) as source:
        source.execute(f"CREATE TABLE public.orders ({COLUMNS}, PRIMARY KEY (id))")
        source.execute(f"INSERT INTO public.orders {ROWS}", {"rows": rows, "salt": "new"})
        source.execute("ANALYZE public.orders")
    with psycopg.connect(target_url, autocommit=True) as target:
        target.execute("CREATE SCHEMA landing")
        target.execute(f"CREATE TABLE landing.orders ({COLUMNS}, CONSTRAINT orders_pkey PRIMARY KEY (id))")
        target.execute("CREATE INDEX orders_placed_at ON landing.orders (placed_at)")
        target.execute(f"INSERT INTO landing.orders {ROWS}", {"rows": 3, "salt": "old"})
    return Orders(source_url, target_url, make_manifest(chunks, lanes))


def make_manifest(chunks: int, lanes: int) -> dict[str, Any]:
    """The manifest of a campaign from one to the other PostgreSQL database, to be changed by a test."""
    return {
        "name": "orders",
        "source": {
            "type": "postgres",
            "connection_ref": "pg_oltp",
            "table": {"schema": "public", "name": "orders"},
            "options": {
                "incremental_strategy": "xmin",
                "xmin_execution": {"mode": "initial", "handoff_id": "orders_v1"},
            },
        },
        "sink": {
            "type": "postgres",
            "connection_ref": "pg_dwh",
            "table": {"schema": "landing", "name": "orders"},
            "strategy": {
                "mode": "backfill",
                "unique_key": ["id"],
                "only_new_rows": False,
                "backfill": {
                    "inner_mode": "incremental_append",
                    "backfill_id": "orders_1",
                    "parallel_workers": lanes,
                    "state": {"backend": "audit_schema", "schema": "system", "require_distributed_lock": True},
                    "publication": {"mode": "shadow_swap", "artifact_scope": "campaign"},
                    "chunk": {"column": "id", "kind": "uuid", "buckets": chunks},
                },
            },
        },
        "state": {"type": "postgres", "connection_ref": "pg_dwh", "atomicity": "target_atomic"},
    }
