"""A project a test: orders, their manifest, and a Dagster instance with the packaged settings."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from multiprocessing.forkserver import _forkserver
from pathlib import Path

import pytest
from dagster import DagsterInstance

import dpone_dagster
from tests.dagster.daemon import running_daemon
from tests.dagster.project import Project
from tests.dagster.ui import Ui
from tests.mssql_orders import make_either_orders
from tests.orders import Orders

SETTINGS = Path(dpone_dagster.__file__).parent / "dagster.yaml"


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterInstance]:
    """An instance as `make ui` and `dpone` make it."""
    home = tmp_path / "dagster"
    home.mkdir()
    shutil.copy(SETTINGS, home)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with DagsterInstance.get() as instance:
        yield instance


@pytest.fixture
def project(
    orders: Orders, instance: DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    """The orders campaign on that instance."""
    with project_of(orders, instance, tmp_path, monkeypatch) as project:
        yield project


@pytest.fixture(params=["postgres", "mssql"])
def either_project(
    request: pytest.FixtureRequest, instance: DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    """The same, with each kind of target."""
    orders = make_either_orders(request, rows=400, chunks=4)
    with project_of(orders, instance, tmp_path, monkeypatch) as project:
        yield project


@contextlib.contextmanager
def project_of(
    orders: Orders, instance: DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    """A project of its own folder, whose lanes get the orders' environment."""
    folder = tmp_path / "campaigns"
    folder.mkdir()
    for name, value in orders.environment.items():
        monkeypatch.setenv(name, value)
    yield Project(orders, orders.write(folder), instance)
    _forkserver._stop()  # type: ignore[attr-defined]  # the next test's lanes need the next test's environment


@pytest.fixture
def ui(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ui]:
    """The UI over the shipped workspace and the project's manifest."""
    monkeypatch.setenv("DPONE_MANIFESTS", str(project.manifest))
    with running_daemon(project.instance) as daemon:
        yield Ui(daemon)
