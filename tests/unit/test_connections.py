"""Connections: found by reference, checked against the manifest's kind of server, and never shown."""

from __future__ import annotations

import copy
import pickle
import traceback
from pathlib import Path

import pytest

from dpone_dagster.campaign.errors import ConnectionInvalid, ConnectionMissing
from dpone_dagster.connections import Connections, ConnectionUrl, ServerKind

URL = "postgresql://loader:hunter2@db.example:5432/dwh"


def test_a_variable_resolves_a_reference_whatever_its_case() -> None:
    connections = Connections.from_environment({"DPONE_CONNECTION_POSTGRES_DWH": f" {URL}\n", "HOME": "/"})
    assert connections.url("postgres_dwh", "postgres").reveal() == URL
    assert connections.url("Postgres_DWH", "postgres").reveal() == URL


@pytest.mark.parametrize("text", ["postgres_dwh: {url}\n", '{{"postgres_dwh": "{url}"}}'])
def test_a_file_resolves_a_reference_and_a_variable_wins(tmp_path: Path, text: str) -> None:
    file = tmp_path / "connections.yaml"
    file.write_text(text.format(url=URL))
    environ = {"DPONE_CONNECTIONS_FILE": str(file)}
    assert Connections.from_environment(environ).url("postgres_dwh", "postgres").reveal() == URL
    environ["DPONE_CONNECTION_POSTGRES_DWH"] = "postgresql:///other"
    assert Connections.from_environment(environ).url("postgres_dwh", "postgres").reveal() == "postgresql:///other"


@pytest.mark.parametrize("environ", [{}, {"DPONE_CONNECTION_POSTGRES_DWH": "  "}])
def test_a_reference_without_a_url_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(ConnectionMissing) as caught:
        Connections.from_environment(environ).url("postgres_dwh", "postgres")
    assert caught.value.code == "CONNECTION_MISSING"
    assert caught.value.exit_code == 2
    assert caught.value.findings[0].path == "DPONE_CONNECTION_POSTGRES_DWH"
    assert "DPONE_CONNECTION_POSTGRES_DWH" in caught.value.advice


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("postgres://u:p@h/d", "postgres"),
        ("postgresql://postgres@/name?host=%2Ftmp%2Fsock", "postgres"),
        ("postgresql:///?dbname=d", "postgres"),
        ("postgresql://?service=dwh", "postgres"),
        ("mssql://u:p@h:1433/d?encrypt=yes", "mssql"),
    ],
)
def test_a_url_that_fits_is_taken(url: str, kind: ServerKind) -> None:
    assert Connections.from_environment({"DPONE_CONNECTION_X": url}).url("x", kind).reveal() == url


@pytest.mark.parametrize(
    ("url", "kind", "problem"),
    [
        ("loader:hunter2@db", "postgres", "is not a URL"),
        ("host=db password=hunter2", "postgres", "is not a URL"),
        ("mssql://u:hunter2@h/d", "postgres", "scheme is `mssql`, but the manifest says type `postgres`"),
        (URL, "mssql", "scheme is `postgresql`, but the manifest says type `mssql`"),
        ("postgresql://u:hun/ter2@h/d", "postgres", "host or port cannot be read"),
        ("postgresql://u:hunter2@h:abc/d", "postgres", "host or port cannot be read"),
        ("postgresql://u:hunter2@[h/d", "postgres", "host or port cannot be read"),
        ("postgresql://u:hunter2@h/", "postgres", "names no database"),
        ("mssql://u:hunter2@h", "mssql", "names no database"),
        ("mssql:///d?password=hunter2", "mssql", "names no host"),
    ],
)
def test_a_url_that_does_not_fit_is_refused_without_its_secret(url: str, kind: ServerKind, problem: str) -> None:
    with pytest.raises(ConnectionInvalid) as caught:
        Connections.from_environment({"DPONE_CONNECTION_X": url}).url("x", kind)
    error = caught.value
    assert (error.code, error.exit_code) == ("CONNECTION_INVALID", 2)
    assert error.findings[0].path == "DPONE_CONNECTION_X"
    assert problem in error.findings[0].problem
    assert f"{'mssql' if kind == 'mssql' else 'postgresql'}://user" in error.findings[0].advice
    assert "hunter2" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 'postgresql://u:hunter2@h/d\n", "not valid YAML or JSON at line"),
        ("- postgresql://u:hunter2@h/d\n", "not a mapping"),
        ("a: {url: hunter2}\n", "not a mapping"),
        ("a: postgresql://u:hunter2@h/d\nA: postgresql://u:hunter2@h/e\n", "twice"),
        ("", "not a mapping"),
    ],
)
def test_a_wrong_file_is_refused_without_its_content(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "connections.yaml"
    file.write_text(text)
    with pytest.raises(ConnectionInvalid) as caught:
        Connections.from_environment({"DPONE_CONNECTIONS_FILE": str(file)})
    assert caught.value.findings[0].path == str(file)
    assert problem in caught.value.findings[0].problem
    assert "DPONE_CONNECTIONS_FILE" in caught.value.advice
    shown = "".join(traceback.format_exception(caught.value))
    assert "hunter2" not in shown


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConnectionInvalid, match="cannot be read"):
        Connections.from_environment({"DPONE_CONNECTIONS_FILE": str(tmp_path / name)})


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "connections.yaml"
    file.write_bytes(b"a: \xff")
    with pytest.raises(ConnectionInvalid, match="is not UTF-8"):
        Connections.from_environment({"DPONE_CONNECTIONS_FILE": str(file)})


def test_no_text_form_shows_the_secret() -> None:
    url = ConnectionUrl(URL)
    connections = Connections.from_environment({"DPONE_CONNECTION_X": URL})
    for text in (repr(url), str(url), f"{url}", repr(connections), str(connections), repr({"a": url})):
        assert "hunter2" not in text
        assert "postgresql://***" in text
    assert copy.deepcopy(url) == pickle.loads(pickle.dumps(url)) == url
    assert len({url, ConnectionUrl(URL), ConnectionUrl("x")}) == 2


def test_an_unencoded_at_sign_is_refused_before_a_driver_takes_a_password_for_a_host() -> None:
    connections = Connections.from_environment({"DPONE_CONNECTION_X": "postgresql://u:p@hunter2@127.0.0.1/db"})
    with pytest.raises(ConnectionInvalid, match="%40") as refusal:
        connections.url("x", "postgres")
    assert "hunter2" not in str(refusal.value)
