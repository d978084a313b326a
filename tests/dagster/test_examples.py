"""The example projects: their definitions load as `dagster dev -f` loads them, and their campaigns come to an end."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
from dagster import DagsterInstance, Definitions

EXAMPLES = Path(__file__).parents[2] / "examples"
TABLES = {
    "events": "business_date date NOT NULL, event_id bigint NOT NULL, note text, PRIMARY KEY (business_date, event_id)",
    "orders": "order_no bigint NOT NULL PRIMARY KEY, amount numeric(18,2)",
}
ROWS = {
    "events": "SELECT date '2024-01-01' + n % 14, n, 'event ' || n FROM generate_series(1, 100) n",
    "orders": "SELECT n, n FROM generate_series(1, 100) n",
}


@pytest.fixture
def urls(new_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Source and target, as the examples' manifests name them."""
    source, target = new_database("oltp"), new_database("dwh")
    with psycopg.connect(source, autocommit=True) as oltp, psycopg.connect(target, autocommit=True) as dwh:
        dwh.execute("CREATE SCHEMA landing")
        for name, columns in TABLES.items():
            oltp.execute(f"CREATE TABLE public.{name} ({columns})")
            oltp.execute(f"INSERT INTO public.{name} {ROWS[name]}")
            dwh.execute(f"CREATE TABLE landing.{name} ({columns})")
    monkeypatch.setenv("DPONE_CONNECTION_POSTGRES_OLTP", source)
    monkeypatch.setenv("DPONE_CONNECTION_POSTGRES_DWH", target)
    return source, target


def loaded(example: str) -> ModuleType:
    path = EXAMPLES / example / "definitions.py"
    spec = importlib.util.spec_from_file_location(f"examples_{example}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(definitions: Definitions, job: str) -> None:
    with DagsterInstance.ephemeral() as instance:
        assert definitions.resolve_job_def(job).execute_in_process(instance=instance).success


def rows_of(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def test_a_window_of_days_catches_up_and_a_tick_too_many_changes_nothing(urls: tuple[str, str]) -> None:
    source, target = urls
    definitions: Definitions = loaded("catchup").defs
    schedule = definitions.resolve_schedule_def("events_catch_up")
    assert schedule.job_name == "events_campaign"
    run(definitions, schedule.job_name)
    everything = "SELECT * FROM {}.events ORDER BY 1, 2"
    assert rows_of(target, everything.format("landing")) == rows_of(source, everything.format("public"))
    state = "SELECT chunk_index, epoch, rows, receipt_id FROM system.__dpone__backfill_chunks ORDER BY 1"
    before = rows_of(target, state)
    assert len(before) == 14
    run(definitions, schedule.job_name)
    assert rows_of(target, state) == before
    assert rows_of(target, "SELECT count(*) FROM system.__dpone__publications") == [(1,)]


def test_a_window_is_given_by_parameters_and_each_is_a_campaign_of_its_own(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, target = urls
    for step, chunks in ((25, 2), (10, 5)):
        for name, value in {"ORDERS_FROM": "11", "ORDERS_TO": "60", "ORDERS_STEP": str(step)}.items():
            monkeypatch.setenv(name, value)
        run(loaded("parameterised").defs, "orders_campaign")
        assert rows_of(target, "SELECT min(order_no), max(order_no), count(*) FROM landing.orders") == [(11, 60, 50)]
        newest = "SELECT chunk_count FROM system.__dpone__backfill_campaigns ORDER BY created_at DESC LIMIT 1"
        assert rows_of(target, newest) == [(chunks,)]
    assert rows_of(target, "SELECT count(*) FROM system.__dpone__publications") == [(2,)]
