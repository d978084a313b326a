"""Evidence files: what a command did, as JSON that is there whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.cli.asked import Asked
from dpone_dagster.settings import DEFAULT_STATE_DIR, project_root


def put_evidence(path: Path, facts: Mapping[str, object]) -> None:
    """Put a file in place, with its folder.

    Args:
        path: Where.
        facts: What is in it.

    Raises:
        OSError: It cannot be written.
    """
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        whole = Path(folder) / path.name
        whole.write_text(text, encoding="utf-8")
        os.replace(whole, path)


def evidence_path(manifest: Asked, spec: CampaignSpec) -> Path:
    """Where a campaign's runs leave their evidence: `<run_key>.execution.json`, the last run's.

    Args:
        manifest: With the folder that a flag or a variable names.
        spec: The campaign; a state file has its evidence beside it.
    """
    folder = spec.state.folder or manifest.state_dir or project_root(Path.cwd()) / DEFAULT_STATE_DIR
    return folder / f"{spec.run_key}.execution.json"
