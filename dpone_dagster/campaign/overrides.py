"""What a command line puts in place of the manifest's own words, before anything is read from them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpone_dagster.campaign.interval import NO_INTERVAL, Interval, read_interval

# Where each override stands, below `sink.strategy.backfill`.
PLACES: Mapping[str, tuple[str, ...]] = {
    "column": ("chunk", "column"),
    "from": ("chunk", "from"),
    "to": ("chunk", "to"),
    "step": ("chunk", "step"),
    "kind": ("chunk", "kind"),
    "buckets": ("chunk", "buckets"),
    "inner_mode": ("inner_mode",),
    "parallel_workers": ("parallel_workers",),
    "max_chunks": ("max_chunks",),
    "backfill_id": ("backfill_id",),
    "retry_policy": ("retry_policy",),
    "state_dir": ("state_dir",),
}
# These make another plan, so a campaign that is there refuses them.
_PLAN = ("column", "from", "to", "step", "kind", "buckets", "inner_mode")
_BACKFILL = ("sink", "strategy", "backfill")


@dataclass(frozen=True)
class RunOptions:
    """How a manifest is read for one command.

    Attributes:
        overrides: Values by the names of `PLACES`.
        interval: What its tokens stand for.
    """

    overrides: Mapping[str, str | int] = field(default_factory=dict)
    interval: Interval = NO_INTERVAL

    @property
    def plan_changes(self) -> tuple[str, ...]:
        """Which of the overrides make another plan."""
        return tuple(name for name in _PLAN if name in self.overrides)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for the processes that read the manifest again."""
        return {"overrides": dict(self.overrides), "interval": self.interval.as_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunOptions:
        """What `as_dict` says."""
        return cls(data["overrides"], read_interval(data["interval"], {}))


AS_WRITTEN = RunOptions()


def overridden(data: object, overrides: Mapping[str, str | int]) -> object:
    """A campaign's plain data with the overrides in it; anything else as it is.

    A `kind` leaves out what the manifest says for another one, and `parallel_workers` what the host lowers them to.

    Args:
        data: What the YAML says.
        overrides: Values by the names of `PLACES`.
    """
    if not overrides or not isinstance(data, Mapping) or not isinstance(_block(data, _BACKFILL), Mapping):
        return data
    changed = copy.deepcopy(dict(data))
    backfill: dict[str, Any] = _block(changed, _BACKFILL)
    if "kind" in overrides and isinstance(backfill.get("chunk"), dict):
        others = ("from", "to", "step") if overrides["kind"] == "uuid" else ("buckets",)
        for key in others:
            backfill["chunk"].pop(key, None)
    host = changed.get("dagster")
    if "parallel_workers" in overrides and isinstance(host, dict):
        host.pop("lanes", None)
    for name, value in overrides.items():
        *parents, last = PLACES[name]
        block = backfill
        for parent in parents:
            inner = block.get(parent)
            block = inner if isinstance(inner, dict) else block.setdefault(parent, {})
        if isinstance(block, dict):
            block[last] = value
    return changed


def _block(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data
