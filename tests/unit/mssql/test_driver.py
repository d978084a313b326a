"""Finding the drivers, and saying how to install what is missing."""

from __future__ import annotations

import builtins
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone_dagster.campaign.errors import DriverMissing
from dpone_dagster.mssql import driver

Lose = Callable[[str, str], None]


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Lose:
    """Make the import of a module fail with these words."""
    real = builtins.__import__

    def lose_module(name: str, words: str) -> None:
        def failing(wanted: str, *rest: Any, **more: Any) -> Any:
            if wanted == name:
                raise ImportError(words)
            return real(wanted, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", failing)

    return lose_module


def test_a_missing_package_is_named_with_its_install_command(lose: Lose) -> None:
    lose("pyodbc", "No module named 'pyodbc'")
    with pytest.raises(DriverMissing, match="pyodbc") as caught:
        driver.load_pyodbc.__wrapped__()
    assert "pip install 'dpone-dagster[mssql]'" in caught.value.advice


def test_a_missing_driver_manager_is_told_from_a_missing_package(lose: Lose) -> None:
    lose("pyodbc", "libodbc.so.2: cannot open shared object file: No such file or directory")
    with pytest.raises(DriverMissing, match=r"libodbc\.so\.2") as caught:
        driver.load_pyodbc.__wrapped__()
    assert "unixodbc" in caught.value.advice


def test_the_drivers_file_comes_for_this_distribution_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for family in ("debian_ubuntu", "rhel"):
        folder = tmp_path / "libs" / "linux" / family / "x86_64" / "lib"
        folder.mkdir(parents=True)
        (folder / "libmsodbcsql-18.6.so.2.1").touch()
        found.append(folder / "libmsodbcsql-18.6.so.2.1")
    spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"ID": "rocky", "ID_LIKE": "rhel fedora"})
    assert list(driver._wheel_drivers()) == found[::-1]


def test_the_adapter_imports_without_any_driver() -> None:
    drivers = ("pyodbc", "mssql_python", "pyarrow", "adbc_driver_postgresql", "adbc_driver_manager")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({drivers!r}))\n"  # None there means: not to be had
        "import dpone_dagster.mssql.target, dpone_dagster.wiring"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
