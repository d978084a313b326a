"""The demo writes to databases, so it must never reach anybody else's."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from demo import place
from dpone_dagster.connections import Connections


def test_the_demo_sees_its_own_connections_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "CONNECTIONS", tmp_path / "connections.yaml")
    (tmp_path / "connections.yaml").write_text("postgres_dwh: postgresql:///demo\n")
    seen = place.environment(
        {"PATH": "/bin", "DPONE_CONNECTION_POSTGRES_DWH": "postgresql:///production", "DPONE_CONNECTION_OTHER": "x"}
    )
    assert seen["PATH"] == "/bin"
    assert Connections.from_environment(seen).urls.keys() == {"POSTGRES_DWH"}
    assert Connections.from_environment(seen).url("postgres_dwh", "postgres").reveal() == "postgresql:///demo"


@pytest.mark.parametrize(("uid", "mode", "inside"), [(0, 0o755, True), (0, 0o700, False), (1000, 0o700, True)])
def test_as_root_the_cluster_lies_where_the_servers_user_can_reach_it(
    uid: int, mode: int, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as checkout:
        Path(checkout).chmod(mode)
        monkeypatch.setattr(place, "ROOT", Path(checkout))
        monkeypatch.setattr(place, "FOLDER", Path(checkout) / ".dpone" / "demo")
        monkeypatch.setattr(os, "geteuid", lambda: uid)
        assert place.data_dir().is_relative_to(checkout) is inside
