"""What a Dagster instance's settings mean for lanes, read from its `dagster.yaml` without Dagster.

https://docs.dagster.io/deployment/oss/dagster-yaml
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from dpone_dagster.campaign.errors import Finding

_FREE = "run_monitoring.free_slots_after_run_end_seconds"


def slot_warnings(home: Path, lanes: int) -> Iterator[Finding]:
    """What keeps lanes waiting for slots of a pool that are not used.

    Args:
        home: The instance's folder, which may not be there yet: `dpone` copies its own settings into it.
        lanes: Of the manifest.
    """
    path = home / "dagster.yaml"
    if not path.is_file():
        if home.is_dir():
            yield _unset(home, "it has no dagster.yaml, so a run that dies keeps its slots for ever")
        return
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        yield Finding(str(path), "it cannot be read as YAML, so what Dagster makes of it is not known", "mend it")
        return
    monitoring, pools = _block(settings, "run_monitoring"), _block(settings, "concurrency", "pools")
    seconds = monitoring.get("free_slots_after_run_end_seconds")
    if monitoring.get("enabled") is not True:
        yield _unset(path, "`run_monitoring.enabled` is not true, so a run that dies stays and keeps its slots")
    elif seconds is None or seconds == 0:
        yield _unset(path, f"`{_FREE}` is not set, so a run that dies keeps its slots for ever")
    if pools.get("granularity") == "run":
        yield Finding(
            str(path),
            "`concurrency.pools.granularity: run` counts runs and not lanes",
            "set it to `op`: a slot is a lane then",
        )
    limit = pools.get("default_limit")
    if isinstance(limit, int) and limit < lanes:
        yield Finding(
            str(path),
            f"`concurrency.pools.default_limit` is {limit}, and the manifest has {lanes} lanes: some will wait",
            "raise the limit, or give the manifest fewer lanes",
        )


def _unset(place: Path, problem: str) -> Finding:
    return Finding(str(place), problem, f"set `run_monitoring.enabled: true` and `{_FREE}: 60`, and restart the daemon")


def _block(settings: object, *names: str) -> Mapping[str, Any]:
    for name in names:
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings if isinstance(settings, Mapping) else {}
