"""The demos write to databases, so they must never reach anybody else's; and they refuse before they touch anything."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import on_mssql, on_postgres, place, run
from demo.compose import PORT, Compose
from dpone_dagster.campaign.errors import ServerUnreachable
from dpone_dagster.connections import Connections

COMPOSE_FILE = place.ROOT / "deploy" / "compose.yaml"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which no demo ever ran, and an environment that names no server."""
    monkeypatch.setattr(place, "ROOT", tmp_path)
    monkeypatch.delenv(on_mssql.VARIABLE, raising=False)
    return tmp_path


def put_command(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("demo", "seen"), [(on_postgres.PLACE, {"POSTGRES_DWH"}), (on_mssql.PLACE, {"POSTGRES_DWH", "MSSQL_DWH"})]
)
def test_a_demo_sees_its_own_connections_only(demo: place.Place, seen: set[str], checkout: Path) -> None:
    demo.write_connections({"postgres_dwh": "postgresql:///demo"})
    assert demo.connections.is_relative_to(checkout)
    assert demo.connections.stat().st_mode & 0o777 == 0o600
    environment = demo.environment(
        {
            "PATH": "/bin",
            "DPONE_CONNECTION_POSTGRES_DWH": "postgresql:///production",
            "DPONE_CONNECTION_MSSQL_DWH": "mssql://u:p@host/dwh",
            "DPONE_CONNECTIONS_FILE": "/etc/production.yaml",
        }
    )
    assert environment["PATH"] == "/bin"
    assert Connections.from_environment(environment).urls.keys() == seen
    assert Connections.from_environment(environment).url("postgres_dwh", "postgres").reveal() == "postgresql:///demo"


@pytest.mark.parametrize(("uid", "mode", "inside"), [(0, 0o755, True), (0, 0o700, False), (1000, 0o700, True)])
def test_as_root_the_cluster_lies_where_the_servers_user_can_reach_it(
    uid: int, mode: int, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as checkout:
        Path(checkout).chmod(mode)
        monkeypatch.setattr(place, "ROOT", Path(checkout))
        monkeypatch.setattr(os, "geteuid", lambda: uid)
        assert place.data_dir().is_relative_to(checkout) is inside


def test_without_server_and_engine_it_says_once_what_to_do_and_touches_nothing(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_command(checkout / "bin", "docker", "exit 1")  # installed, but its engine does not answer
    monkeypatch.setenv("PATH", str(checkout / "bin"))
    assert run.main("mssql") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("CONNECTION_MISSING: there is no SQL Server for the demo")
    assert said.err.count("next:") == 1
    assert not (checkout / ".dpone").exists()
    assert not place.data_dir().exists()


def test_a_url_that_cannot_be_used_is_refused_without_its_secret(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(on_mssql.VARIABLE, "mssql://sa:hidden@host:1433")
    assert run.main("mssql") == 2
    said = capsys.readouterr()
    assert "names no database" in said.err
    assert "hidden" not in said.out + said.err
    assert not (checkout / ".dpone").exists()


def test_the_first_engine_that_answers_gets_a_password_that_only_the_owner_can_read(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_command(checkout / "bin", "docker", "exit 1")
    put_command(checkout / "bin", "podman", f'echo "$MSSQL_SA_PASSWORD $*" >> {checkout}/seen')
    monkeypatch.setenv("PATH", f"{checkout / 'bin'}:/bin:/usr/bin")
    compose = Compose(COMPOSE_FILE, checkout / "made" / "sa-password")
    assert not compose.down(volumes=False), "it was never started from here"
    engine = compose.engine()
    assert engine == ("podman", "compose")
    compose.up(engine)
    assert compose.down(volumes=True)
    secret = compose.secret()
    assert (checkout / "made" / "sa-password").stat().st_mode & 0o777 == 0o600
    calls = [line for line in (checkout / "seen").read_text().splitlines() if not line.endswith(" ps")]
    assert calls == [f"{secret} compose --file {COMPOSE_FILE} {call}" for call in ("up --detach", "down --volumes")]


def test_an_engine_that_fails_is_an_error_with_a_next_step(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_command(checkout / "bin", "docker-compose", "exit 3")
    monkeypatch.setenv("PATH", str(checkout / "bin"))
    with pytest.raises(ServerUnreachable, match="docker-compose"):
        Compose(COMPOSE_FILE, checkout / "sa-password").up(("docker-compose",))


def test_the_container_listens_on_this_machine_only_and_its_password_is_not_in_the_file() -> None:
    service = yaml.safe_load(COMPOSE_FILE.read_text())["services"]["sqlserver"]
    assert service["ports"] == [f"127.0.0.1:{PORT}:1433"]
    assert service["environment"]["MSSQL_SA_PASSWORD"].startswith("${MSSQL_SA_PASSWORD:?")
    assert " -C " in service["healthcheck"]["test"][1]


def test_the_examples_differ_by_their_target_only() -> None:
    def read(name: str) -> dict[str, Any]:
        manifest: dict[str, Any] = yaml.safe_load((place.ROOT / "examples" / name).read_text())
        return manifest

    twin = read("orders.yaml")
    twin["name"] = "orders_mssql"
    for part in ("sink", "state"):
        twin[part] |= {"type": "mssql", "connection_ref": "mssql_dwh"}
    assert read("orders_mssql.yaml") == twin
