"""Manifests as files: where they are and how they are read. Imports neither Dagster nor a driver."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import yaml

from dpone_dagster.campaign.errors import Finding, ManifestInvalid
from dpone_dagster.campaign.interval import Interval
from dpone_dagster.campaign.manifest_paths import at
from dpone_dagster.campaign.manifests import AnyManifest, parse_any
from dpone_dagster.campaign.overrides import AS_WRITTEN, RunOptions
from dpone_dagster.campaign.spec import CampaignSpec, RouteSpec

MANIFESTS_VARIABLE = "DPONE_MANIFESTS"
DEFAULT_FOLDER = "campaigns"
DAGSTER_FOLDER = Path(".dpone/dagster")
STATE_DIR_VARIABLE = "DPONE_BACKFILL_STATE_DIR"
DEFAULT_STATE_DIR = Path(".dpone/backfill")
_ANY_INTERVAL = RunOptions(
    interval=Interval(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC), dag_run_id="any")
)
Route = TypeVar("Route", bound=RouteSpec)
_SUFFIXES = frozenset({".yaml", ".yml"})
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_COMPONENT = "dpone_dagster.Campaign"


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key written twice and leaves dates as they are written."""

    # YAML's own timestamps lose digits after the sixth decimal without a word.
    yaml_implicit_resolvers = {  # noqa: RUF012  # the class attribute that PyYAML reads
        first: [(tag, form) for tag, form in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """As PyYAML does, but with no key lost to a later one of the same name."""
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                problem = f"key `{key.value}` is written twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def project_root(start: Path) -> Path:
    """The project that a folder belongs to: the nearest one upwards with `campaigns/` or `workspace.yaml`.

    `.dpone` is made there, and relative names in DPONE_MANIFESTS are relative to it.

    Args:
        start: Where a command was given; itself if nothing upwards is a project.
    """
    here = start.resolve()
    marked = (place for place in (here, *here.parents) if _is_project(place))
    return next(marked, here)


def dagster_home() -> Path:
    """The folder of Dagster's own state: the one that `DAGSTER_HOME` names, else the project's."""
    return Path(os.environ.get("DAGSTER_HOME") or project_root(Path.cwd()) / DAGSTER_FOLDER).resolve()


def _is_project(place: Path) -> bool:
    return (place / DEFAULT_FOLDER).is_dir() or (place / "workspace.yaml").is_file()


def placed(spec: Route, environ: Mapping[str, str]) -> Route:
    """The manifest with the folder of its state file, if it has one: what it says, the variable, or the project's.

    Args:
        spec: As the manifest alone says it.
        environ: `DPONE_BACKFILL_STATE_DIR`.
    """
    if not spec.state.in_file:
        return spec
    named = spec.state.folder or environ.get(STATE_DIR_VARIABLE) or DEFAULT_STATE_DIR
    return replace(spec, state=replace(spec.state, folder=project_root(Path.cwd()) / named))


def load_manifest(path: Path, options: RunOptions = AS_WRITTEN) -> AnyManifest:
    """Read one manifest.

    Args:
        path: The YAML file.
        options: What a command puts in place of it, and what its tokens stand for.

    Raises:
        ManifestInvalid: It cannot be read, is not YAML, or does not fit the contract.
    """
    try:
        return parse_any(_manifest_in(_read(path)), options)
    except ManifestInvalid as error:
        raise ManifestInvalid(f"{path}: {error.message}", findings=error.findings, next_step=error.advice) from None


def _manifest_in(found: object) -> object:
    """The file's own content, or what a `defs.yaml` of a Dagster component has under `attributes`."""
    if isinstance(found, Mapping) and found.get("type") == _COMPONENT:
        return found.get("attributes")
    return found


def load_spec(path: Path, options: RunOptions = AS_WRITTEN) -> CampaignSpec:
    """Read one campaign's manifest and resolve every default.

    Args:
        path: The YAML file.
        options: As in `load_manifest`.

    Raises:
        ManifestInvalid: As `load_manifest`, or it has increments only.
        TooManyChunks: The plan has more chunks than `max_chunks`.
    """
    spec = load_route(path, options)
    if isinstance(spec, CampaignSpec):
        return spec
    raise ManifestInvalid(
        f"{path} has the increments of handoff `{spec.handoff_id}` only, and no campaign",
        next_step="Name the campaign's manifest; for this one there is `dpone increment status MANIFEST`.",
    )


def load_route(path: Path, options: RunOptions = AS_WRITTEN) -> RouteSpec:
    """Read one manifest of either kind and resolve every default.

    Args:
        path: The YAML file.
        options: As in `load_manifest`.

    Raises:
        ManifestInvalid: As `load_manifest`.
        TooManyChunks: The plan has more chunks than `max_chunks`.
    """
    return placed(load_manifest(path, options).to_spec(), os.environ)


def load_template(path: Path) -> RouteSpec:
    """As `load_route`; a manifest that is loaded by intervals is read for one that stands for all of them.

    Args:
        path: The YAML file.

    Raises:
        ManifestInvalid: As `load_manifest`.
        TooManyChunks: The plan has more chunks than `max_chunks`.
    """
    return load_route(path, _template_options(_manifest_in(_read_or_none(path))))


def template_of(data: object) -> RouteSpec:
    """As `load_template`, of what somebody else has read.

    Args:
        data: The manifest as plain data.

    Raises:
        ManifestInvalid: It does not fit the contract.
        TooManyChunks: The plan has more chunks than `max_chunks`.
    """
    return placed(parse_any(data, _template_options(data)).to_spec(), os.environ)


def component_paths(folder: Path) -> list[Path]:
    """The files of a `dg` project's campaigns, sorted.

    Args:
        folder: Its `defs`.
    """
    return sorted(path for path in folder.rglob("defs.yaml") if at(_read_or_none(path), "type") == _COMPONENT)


def _template_options(found: object) -> RunOptions:
    return _ANY_INTERVAL if at(found, "dagster.interval") is not None else AS_WRITTEN


def _read_or_none(path: Path) -> object:
    try:
        return _read(path)
    except ManifestInvalid:
        return None  # which `load_route` says in its own words


def manifest_paths(environ: Mapping[str, str], root: Path) -> list[Path]:
    """Find the manifests that this project serves, sorted within each folder, each once.

    Args:
        environ: `DPONE_MANIFESTS` names files and folders, separated as in PATH; `campaigns/` if it is not set.
        root: What relative names are relative to.

    Raises:
        ManifestInvalid: A named file or folder is not there.
    """
    named = [entry for entry in environ.get(MANIFESTS_VARIABLE, "").split(os.pathsep) if entry.strip()]
    places = [root / entry.strip() for entry in named or [DEFAULT_FOLDER]]
    if missing := [place for place in places if named and not place.exists()]:
        raise ManifestInvalid(
            f"{MANIFESTS_VARIABLE} names what is not there",
            findings=[Finding(str(place), "is neither a file nor a folder") for place in missing],
            next_step=f"Correct {MANIFESTS_VARIABLE}: files and folders, separated by `{os.pathsep}`.",
        )
    found = [path for place in places for path in ([place] if place.is_file() else _in_folder(place))]
    return list({path.resolve(): path for path in found}.values())


def _in_folder(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    shown = (path for path in folder.iterdir() if path.suffix in _SUFFIXES and not path.name.startswith("."))
    return sorted(path for path in shown if not path.is_dir())


def _read(path: Path) -> object:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _unreadable(f"cannot be read: {error.strerror}", "name a manifest that is there and readable") from None
    except UnicodeDecodeError as error:
        raise _unreadable(f"is not UTF-8 at byte {error.start}", "save it as UTF-8") from None
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  # a SafeLoader with a stricter mapping
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = f"{error.problem or error.context}"
        advice = next((each for said, each in _ADVICE if said in problem), _YAML_ADVICE)
        raise _unreadable(problem, advice, where) from None
    except yaml.YAMLError:  # a character that YAML does not allow; its text quotes the file
        raise _unreadable("holds a character that YAML does not allow", "save it as plain UTF-8 text") from None


_ADVICE = (
    ("is written twice", "leave one of them"),
    ("'\\t'", "indent by spaces; YAML allows no tab there"),
    ("constructor for the tag", "leave the tag (`!!…`) out: values are plain"),
    ("another document", "leave one document in the file, with no `---` after it"),
    ("undefined alias", "name the anchor (`&…`) before it, or write the text in quotes"),
)
_YAML_ADVICE = "correct the YAML there; texts with `{`, `}`, `#` or `: ` in them need quotes"


def _unreadable(problem: str, advice: str, where: str = "") -> ManifestInvalid:
    return ManifestInvalid("the manifest cannot be read", findings=[Finding(where, problem, advice)])
