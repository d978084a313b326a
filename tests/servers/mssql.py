"""A SQL Server for the tests: the one that is named, else a private stand-in that is started, else none."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace

import pytest

from demo.mssql_server import STAND_IN, URL_VARIABLE, MssqlServer, named_server, start_stand_in

SKIPPED = "no SQL Server"
# Workers of one run share a server that is named, so each has databases of its own.
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
_DRIVERS = ("pyodbc", "mssql_python", "adbc_driver_postgresql")
HOW_TO = (
    f"set {URL_VARIABLE}=mssql://login:secret@host:1433/master?encrypt=yes to a server whose login may create databases"
)


def open_server() -> MssqlServer:
    """The first of: the server that the environment names, the private stand-in; skips if there is neither."""
    for package in _DRIVERS:
        try:
            importlib.import_module(package)
        except ImportError as error:
            pytest.skip(f"{SKIPPED} driver: {error}")
    if url := os.environ.get(URL_VARIABLE):
        return replace(named_server(url), suffix=_WORKER)
    if STAND_IN.exists():
        return replace(start_stand_in(), suffix=_WORKER)
    pytest.skip(SKIPPED)
