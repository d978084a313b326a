"""What a command does for its Dagster run before it imports Dagster, which takes half a second."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path

import yaml

from dpone_dagster.campaign.errors import DagsterHomeInvalid
from dpone_dagster.cli.terminal import output_to
from dpone_dagster.forking import start_fork_server
from dpone_dagster.settings import dagster_home, project_root

LOG_FOLDER = Path(".dpone/logs")


def prove_home() -> None:
    """The folder of Dagster's own state can be used, or made; nothing is made yet.

    Raises:
        DagsterHomeInvalid: It cannot, or its settings are no YAML.
    """
    home = dagster_home()
    settings = home / "dagster.yaml"
    there = next(place for place in (home, *home.parents) if place.exists())
    if not there.is_dir():
        raise DagsterHomeInvalid(f"{there} is no folder")
    try:
        if settings.exists():
            yaml.safe_load(settings.read_bytes())
        elif not os.access(there, os.W_OK):
            raise DagsterHomeInvalid(f"{there} cannot be written, and {settings} is not there")
    except OSError as error:
        raise DagsterHomeInvalid(f"{settings}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise DagsterHomeInvalid(f"{settings} is no YAML: {' '.join(str(error).split())}") from None


def prepare_home() -> Path:
    """The folder of Dagster's own state, with our settings in it unless it has its own; named in the environment."""
    home = dagster_home()
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists():
        with as_file(files("dpone_dagster") / "dagster.yaml") as packaged:
            shutil.copy(packaged, settings)
    os.environ["DAGSTER_HOME"] = str(home)
    return home


def start_steps(job: str) -> Path:
    """Let the process that steps are forked from import what they need; this one may import Dagster meanwhile.

    Args:
        job: Of the run, by which its log is named.

    Returns:
        The run's log, to which that process and all of its children print.
    """
    prepare_home()
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    log = project_root(Path.cwd()) / LOG_FOLDER / f"{job}-{moment}-{os.getpid()}.log"
    with output_to(log):
        start_fork_server(os.environ)
    return log
