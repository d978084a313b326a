"""Manifests as files: what is found, what is read, and what a broken file says."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dpone_dagster.campaign.errors import ManifestInvalid
from dpone_dagster.settings import load_manifest, load_spec, manifest_paths, project_root

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders.yaml"


def refused(path: Path) -> ManifestInvalid:
    with pytest.raises(ManifestInvalid) as caught:
        load_spec(path)
    assert caught.value.exit_code == 2
    assert str(path) in caught.value.message
    assert caught.value.advice
    return caught.value


def written(folder: Path, text: str) -> Path:
    path = folder / "campaign.yaml"
    path.write_text(text)
    return path


def test_the_example_is_a_campaign() -> None:
    spec = load_spec(EXAMPLE)
    assert str(spec.source) == "public.orders"
    assert str(spec.target) == "landing.orders"
    assert (spec.source_ref, spec.sink_type, spec.sink_ref) == ("postgres_oltp", "postgres", "postgres_dwh")
    assert (spec.plan.count, spec.chunk.kind, spec.lanes) == (32, "uuid", 4)
    assert (spec.state.schema, spec.handoff_id) == ("system", "orders_v1")
    assert spec.publication.artifact_scope == "campaign"
    assert spec.increment.cron == "30 5 * * *"


def test_dates_arrive_as_they_are_written(tmp_path: Path) -> None:
    chunk = "{column: id, from: 2024-01-31T00:00:00.123456+02:00, to: 2024-03-01, step: 1mo}"
    text = EXAMPLE.read_text().replace("kind: uuid", "").replace("buckets: 32", "")
    path = written(tmp_path, text.replace("chunk:\n        column: id", f"chunk: {chunk}"))
    assert load_spec(path).plan.chunk(0).lower == "2024-01-30T22:00:00.123456+00:00"
    path.write_text(path.read_text().replace(".123456", ".1234567"))
    assert "6 decimals at most" in refused(path).findings[0].advice


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        ("name: [1, 2\nsource: 1\n", "line 2, column 7", "expected"),
        ("name: a\nname: b\n", "line 2, column 1", "key `name` is written twice"),
        ("sink:\n  table: {schema: a, name: b, schema: c}\n", "line 2, column 31", "key `schema` is written twice"),
        ("chunk:\n  from: {{ data_interval_start }}\n", "line 2, column 10", "unhashable key"),
        ("name: a\n---\nname: b\n", "line 2, column 1", "another document"),
        ("name: *nobody\n", "line 1, column 7", "undefined alias"),
        ("name: !!python/object:os.system x\n", "line 1, column 7", "could not determine a constructor"),
        ("name: \x01\n", "", "a character that YAML does not allow"),
        ("", "", "is not a mapping"),
        ("- a\n", "", "is not a mapping"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused_with_its_place(
    tmp_path: Path, text: str, path: str, problem: str
) -> None:
    (finding,) = refused(written(tmp_path, text)).findings
    assert finding.path == path
    assert problem in finding.problem


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("name: a\nname: b\n", "leave one of them"),
        ("sink:\n\ttable: a\n", "indent by spaces"),
        ("name: !!python/object:os.system x\n", "leave the tag"),
        ("name: a\n---\nname: b\n", "one document"),
        ("name: *nobody\n", "the anchor"),
        ("chunk:\n  from: {{ data_interval_start }}\n", "need quotes"),
        ("- a\n", "examples/orders.yaml"),
    ],
)
def test_what_is_no_manifest_gets_advice_that_fits(tmp_path: Path, text: str, advice: str) -> None:
    assert advice in refused(written(tmp_path, text)).findings[0].advice


@pytest.mark.parametrize(
    ("old", "new", "advice"),
    [
        ("source:\n", "source:\n  columns: id\n", "write a list, such as `[a, b]`"),
        ("chunk:\n", "chunk:\n        immutable: [x]\n", "write `true` or `false`"),
    ],
)
def test_values_of_another_kind_get_advice_in_words_of_yaml(tmp_path: Path, old: str, new: str, advice: str) -> None:
    path = written(tmp_path, EXAMPLE.read_text().replace(old, new, 1))
    assert [finding.advice for finding in refused(path).findings] == [advice]


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    assert "cannot be read" in refused(tmp_path / name).findings[0].problem


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_bytes(b"name: \xff\n")
    assert refused(path).findings[0].problem == "is not UTF-8 at byte 6"


def test_findings_of_a_file_keep_their_paths(tmp_path: Path) -> None:
    error = refused(written(tmp_path, EXAMPLE.read_text().replace("inner_mode", "iner_mode")))
    assert [finding.path for finding in error.findings] == ["sink.strategy.backfill.iner_mode"]
    assert "did you mean `inner_mode`?" in str(error)


def test_a_byte_order_mark_and_anchors_are_no_obstacle(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace("unique_key: [id]", "unique_key: &key [id]")
    path = tmp_path / "campaign.yaml"
    path.write_text("\ufeff" + text, encoding="utf-8")
    assert load_manifest(path).dataset == "orders"


# ---------------------------------------------------------------- finding them


def test_the_default_is_the_campaigns_folder(tmp_path: Path) -> None:
    assert manifest_paths({}, tmp_path) == []
    folder = tmp_path / "campaigns"
    (folder / "nested.yaml").mkdir(parents=True)
    for name in ("b.yaml", "a.yml", ".hidden.yaml", "notes.txt", ".gitkeep"):
        (folder / name).touch()
    assert manifest_paths({}, tmp_path) == [folder / "a.yml", folder / "b.yaml"]
    assert manifest_paths({"DPONE_MANIFESTS": " "}, tmp_path) == [folder / "a.yml", folder / "b.yaml"]


def test_files_and_folders_are_named_as_in_a_search_path(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    for path in (folder / "b.yaml", folder / "a.yaml", tmp_path / "single.txt"):
        path.touch()
    named = os.pathsep.join(["single.txt", str(folder), str(folder / "a.yaml"), ""])
    assert manifest_paths({"DPONE_MANIFESTS": named}, tmp_path) == [
        tmp_path / "single.txt",
        folder / "a.yaml",
        folder / "b.yaml",
    ]


def test_a_named_place_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestInvalid) as caught:
        manifest_paths({"DPONE_MANIFESTS": os.pathsep.join(["one", "two"])}, tmp_path)
    assert [finding.path for finding in caught.value.findings] == [str(tmp_path / "one"), str(tmp_path / "two")]
    assert "DPONE_MANIFESTS" in caught.value.advice


def test_reading_and_planning_512_buckets_is_quick_and_loads_neither_dagster_nor_a_driver(tmp_path: Path) -> None:
    path = written(tmp_path, EXAMPLE.read_text().replace("buckets: 32", "buckets: 512"))
    program = textwrap.dedent(
        f"""
        import pathlib, resource, sys
        from dpone_dagster.settings import load_spec
        assert len(list(load_spec(pathlib.Path({str(path)!r})).plan)) == 512
        assert not {{"dagster", "psycopg"}} & sys.modules.keys()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        print(usage.ru_utime + usage.ru_stime)
        """
    )
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = str(tmp_path / "bytecode")  # the first of the two runs compiles
    seconds = [
        float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=environ).stdout)
        for _ in range(2)
    ]
    assert seconds[1] < 0.3


def test_the_project_is_the_nearest_folder_upwards_that_is_one(tmp_path: Path) -> None:
    inner = tmp_path / "project" / "reports" / "may"
    inner.mkdir(parents=True)
    assert project_root(inner) == inner, "nothing upwards is a project"
    (tmp_path / "project" / "workspace.yaml").write_text("")
    assert project_root(inner) == tmp_path / "project"
    (tmp_path / "project" / "reports" / "campaigns").mkdir()
    assert project_root(inner) == tmp_path / "project" / "reports"
    assert project_root(tmp_path / "project") == tmp_path / "project"
