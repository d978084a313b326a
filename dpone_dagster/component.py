"""A campaign as a Dagster component: a folder with a `defs.yaml` whose `attributes` are the manifest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dagster as dg
from dagster.components.component.component import ComponentTypeSpec
from pydantic import BaseModel, RootModel

from dpone_dagster.campaign.errors import ManifestInvalid
from dpone_dagster.campaign.manifest import Manifest
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.campaign_definitions import build_alerts, build_intervals, build_manifest
from dpone_dagster.jobs import executor_for
from dpone_dagster.settings import component_paths, load_template, template_of

_FILE = "defs.yaml"


class ManifestAttributes(RootModel[dict[str, Any]]):
    """What stands under `attributes`, as it is written.

    Its schema is the manifest's, for `dg check yaml` and for editors. The rules are the manifest's own, which name
    every mistake at once, in words of ours.
    """

    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
        """The manifest's."""
        return Manifest.model_json_schema(by_alias=True)


class Campaign(dg.Component):
    """A campaign: one large PostgreSQL table, loaded once, published by a swap and handed over to increments.

    Args:
        spec: The campaign.
    """

    def __init__(self, spec: CampaignSpec) -> None:
        self.spec = spec

    @classmethod
    def get_spec(cls) -> ComponentTypeSpec:
        """What `dg list components` shows."""
        return ComponentTypeSpec(
            description="Load one large PostgreSQL table once, safely, and hand it over to incremental loads.",
            produces=["asset", "asset_check", "job", "schedule", "sensor", "resource"],
        )

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Whose schema `dg check yaml` holds `attributes` to."""
        return ManifestAttributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Campaign:
        """Read the manifest.

        Args:
            attributes: As they are written.
            context: Where the folder is.

        Raises:
            ManifestInvalid: All that is wrong, each with its path.
        """
        spec = template_of(attributes.root if isinstance(attributes, ManifestAttributes) else {})
        if not isinstance(spec, CampaignSpec):
            raise ManifestInvalid(
                f"{_file(context)} has increments only",
                next_step="Set them under `dagster.incremental` of the campaign's own component.",
            )
        return cls(spec)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Assets, jobs, schedule and sensors, as for a manifest of `campaigns/`. Opens no connection.

        Args:
            context: Where the folder is; shown with the shadow.
        """
        if self.spec.interval is not None:
            return build_intervals(self.spec, self.spec.interval, _file(context))
        return build_manifest(self.spec, _file(context))


def project_definitions(folder: Path) -> dg.Definitions:
    """What the campaigns of a `dg` project have in common: the sensors that tell people, and the executor.

    A campaign's own job brings its executor; partition backfills run under the project's.

    Args:
        folder: The project's `defs`.

    Raises:
        ManifestInvalid: A campaign of it is broken.
    """
    specs = [load_template(path) for path in component_paths(folder)]
    return dg.Definitions.merge(build_alerts(specs), dg.Definitions(executor=executor_for(specs, os.environ)))


def _file(context: dg.ComponentLoadContext) -> Path:
    return context.path / _FILE if context.path.is_dir() else context.path
