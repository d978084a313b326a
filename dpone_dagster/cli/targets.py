"""Which manifest stands for a target: the file that was named, or the one of this project that loads it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dpone_dagster.campaign.errors import Finding, Refused, TargetUnknown
from dpone_dagster.campaign.spec import RouteSpec
from dpone_dagster.settings import load_template, manifest_paths, project_root


@dataclass(frozen=True)
class Wanted:
    """What a command was told about its target.

    Attributes:
        name: `schema.table`, or a manifest's file.
        manifest: The manifest's file; None to look for it.
        connection: The sink's `connection_ref`, where several databases have such a target.
        backend: The sink's type, likewise.
    """

    name: str
    manifest: Path | None = None
    connection: str | None = None
    backend: str | None = None

    def fits(self, spec: RouteSpec) -> bool:
        """Whether the manifest loads this target."""
        return (
            self.name == str(spec.target)
            and self.connection in (None, spec.sink_ref)
            and self.backend in (None, spec.sink_type)
            and spec.handoff_id is not None
        )


def manifest_of(wanted: Wanted) -> Path:
    """The manifest that loads a target.

    Args:
        wanted: Its name and what else is known.

    Raises:
        TargetUnknown: None does, or several do into different databases.
        ManifestInvalid: The named manifest is broken.
    """
    named = wanted.manifest or (Path(wanted.name) if Path(wanted.name).is_file() else None)
    if named is not None:
        _prove(wanted, named)
        return named
    found: dict[Path, RouteSpec] = {}
    findings: list[Finding] = []
    for path in manifest_paths(os.environ, project_root(Path.cwd())):
        try:
            spec = load_template(path)
        except Refused as error:
            findings.append(Finding(str(path), f"{error.code}: {error.message}"))
            continue
        if wanted.fits(spec):
            found[path] = spec
        else:
            findings.append(Finding(str(path), f"{spec.sink_type} {spec.target} by connection {spec.sink_ref}"))
    if not found:
        raise TargetUnknown(f"no manifest of this project loads {wanted.name} with a handoff", findings=findings)
    if len({(spec.sink_ref, spec.handoff_id) for spec in found.values()}) > 1:
        several = [Finding(str(path), f"connection {spec.sink_ref}") for path, spec in found.items()]
        raise TargetUnknown(
            f"several manifests load {wanted.name}",
            findings=several,
            next_step="Name one: `--manifest FILE` or `--connection REF`.",
        )
    return next(iter(found))


def _prove(wanted: Wanted, path: Path) -> None:
    spec = load_template(path)
    by_file = wanted.manifest is None
    asked = Wanted(str(spec.target) if by_file else wanted.name, None, wanted.connection, wanted.backend)
    if not asked.fits(spec):
        raise TargetUnknown(
            f"{path} loads {spec.sink_type} {spec.target} by connection {spec.sink_ref}"
            f"{'' if spec.handoff_id else ' without a handoff'}, not what was asked for",
            next_step="Correct the target's name, --backend, --connection or --manifest.",
        )
