"""`make certify` in small: a real campaign, killed twice, and a report that says what it did not measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import pytest

from certify import certification, procedure
from certify.certification import certify
from certify.measurements import CRASHES
from certify.parameters import Asked, CertifyRefused
from certify.report import Report
from certify.route import opened_route
from certify.verdict import Result, Verdict
from dpone_dagster.campaign.errors import DponeError, Interrupted

SIZE = {"ROWS": "2000", "CHUNKS": "16", "LANES": "2", "LARGE": "0"}


@pytest.fixture
def environ(new_database: Callable[[str], str]) -> Mapping[str, str]:
    """Two databases that are not empty, by their connection_refs."""
    urls = {"OLTP": new_database("oltp"), "DWH": new_database("dwh")}
    for url in urls.values():
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA landing CREATE TABLE orders (id int)")
    return {f"DPONE_CONNECTION_{ref}": url for ref, url in urls.items()} | SIZE | {"SOURCE": "oltp", "TARGET": "dwh"}


def schemas(environ: Mapping[str, str]) -> set[tuple[str, str]]:
    """(connection, schema) of every schema that is not the server's own."""
    found = set()
    for ref in ("OLTP", "DWH"):
        with psycopg.connect(environ[f"DPONE_CONNECTION_{ref}"]) as connection:
            rows = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema)'")
            found |= {(ref, name) for (name,) in rows}
    return found


@pytest.mark.slow
def test_a_small_certification_is_incomplete_and_leaves_nothing(
    environ: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = {point: CRASHES[point] for point in ("after_chunk_commit", "between_renames")}
    monkeypatch.setattr(procedure, "CRASHES", played)  # each costs a start of Dagster
    before, folder = schemas(environ), tmp_path / "certify"
    asked = Asked.from_environment(environ)
    with opened_route(asked, environ) as route:
        report = certify(route, asked, folder)
    printed = (folder / "commands.log").read_text(errors="replace")[-4_000:]
    assert report.problems == (), printed
    assert {c.name: c.result for c in report.criteria if c.result is not Result.HELD} == {
        "chunks": Result.MISSING,
        "lanes": Result.MISSING,
        "chunk times": Result.MISSING,
        "large chunks": Result.MISSING,
        **{f"crash {where}": Result.MISSING for point, where in CRASHES.items() if point not in played},
    }, (report.criteria, printed)
    assert report.verdict is Verdict.INCOMPLETE
    measured = report.measurements
    assert [(crash.point, crash.killed) for crash in measured.crashes] == [(point, True) for point in played]
    assert [step.command.split()[2] for step in measured.operator_steps] == ["run", "resume", "resume"]
    assert measured.chunk_times is not None
    # A chunk that is taken up by its receipt has no time of its own; the other lane may have been at that point too.
    assert measured.chunk_times.chunks in (14, 15)
    assert Report.model_validate_json((folder / "report.json").read_text()) == report
    assert "postgresql://" not in (folder / "report.json").read_text()
    assert schemas(environ) == before


@pytest.mark.parametrize(("ref", "schema"), [("OLTP", "dpone_certify_source"), ("DWH", "dpone_certify_state")])
def test_a_schema_that_is_there_already_is_left_alone(
    environ: Mapping[str, str], tmp_path: Path, ref: str, schema: str
) -> None:
    with psycopg.connect(environ[f"DPONE_CONNECTION_{ref}"], autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema} CREATE TABLE orders (id int)".encode())
    before, asked = schemas(environ), Asked.from_environment(environ)
    (tmp_path / "report.json").write_text("of an earlier one")
    with opened_route(asked, environ) as route, pytest.raises(CertifyRefused, match=schema):
        certify(route, asked, tmp_path)
    assert schemas(environ) == before
    assert (tmp_path / "report.json").exists()


def test_who_is_told_to_stop_stops() -> None:
    found = certification._Found()
    with found.noting():
        raise DponeError("the server is full")
    with pytest.raises(Interrupted), found.noting():
        raise Interrupted("told to stop")
    assert len(found.problems) == 1
