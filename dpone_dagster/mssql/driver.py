"""Finds the Microsoft ODBC driver and loads pyodbc, set up so that no connection is ever pooled."""

from __future__ import annotations

import functools
import importlib.util
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpone_dagster.campaign.errors import DriverMissing

_INSTALL = "pip install 'dpone-dagster[mssql]'"
_INSTALLED_NAMES = ("ODBC Driver 18 for SQL Server", "ODBC Driver 17 for SQL Server")
_ARCHITECTURES = {"amd64": "x86_64", "x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


@functools.cache
def load_pyodbc() -> Any:
    """The pyodbc module, its pooling off: a pooled session would keep its locks.

    Raises:
        DriverMissing: It is not installed, or the system's ODBC driver manager is not.
    """
    try:
        import pyodbc
    except ImportError as error:
        if "libodbc" in str(error):
            raise DriverMissing(
                "the system's ODBC driver manager (libodbc.so.2) is missing",
                next_step="Install it: `apt-get install unixodbc` (Debian, Ubuntu) or `dnf install unixODBC`.",
            ) from None
        raise DriverMissing("the package pyodbc is not installed", next_step=f"Install it: {_INSTALL}.") from None
    pyodbc.pooling = False
    return pyodbc


@functools.cache
def driver_name() -> str:
    """The `Driver` of a connection string: the file that the mssql-python wheel brings, else an installed one's name.

    Raises:
        DriverMissing: There is neither.
    """
    for path in _wheel_drivers():
        return str(path)
    installed = set(load_pyodbc().drivers())
    for name in _INSTALLED_NAMES:
        if name in installed:
            return name
    raise DriverMissing("there is no Microsoft ODBC driver for SQL Server", next_step=f"Install it: {_INSTALL}.")


def _wheel_drivers() -> Iterator[Path]:
    """Driver files of the wheel for this machine, the one for this distribution first."""
    spec = importlib.util.find_spec("mssql_python_odbc")
    if spec is None or spec.origin is None:
        return
    architecture = _ARCHITECTURES.get(platform.machine().lower(), platform.machine())
    libraries = Path(spec.origin).parent / "libs" / "linux"
    for family in dict.fromkeys((*_family(), "debian_ubuntu", "rhel", "suse", "alpine")):
        yield from sorted((libraries / family / architecture / "lib").glob("libmsodbcsql-*.so*"), reverse=True)


def _family() -> Iterator[str]:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return
    names = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    for family, members in (
        ("debian_ubuntu", {"debian", "ubuntu"}),
        ("rhel", {"rhel", "fedora", "centos"}),
        ("suse", {"suse", "sles", "opensuse"}),
        ("alpine", {"alpine"}),
    ):
        if names & members:
            yield family
