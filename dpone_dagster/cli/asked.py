"""A manifest as a command line asks for it: the file, and what its flags say beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpone_dagster.campaign.overrides import AS_WRITTEN, RunOptions


@dataclass(frozen=True)
class Asked:
    """What a command is about.

    Attributes:
        path: The manifest's file.
        options: Overrides and interval.
        flags: The same as they are typed, for the command to type next.
        state_dir: Where evidence goes; None for the project's own folder.
    """

    path: Path
    options: RunOptions = AS_WRITTEN
    flags: tuple[str, ...] = field(default=())
    state_dir: Path | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """How the same is asked for again."""
        return (str(self.path), *self.flags)

    @property
    def another_plan(self) -> str:
        """What to do where the campaign was prepared with another plan than the flags say, pinned or not."""
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in self.options.plan_changes)
        return (
            f"Leave out {flags}: that makes another plan than the one that this campaign was prepared with; or name a "
            "new campaign by --backfill-id."
        )

    def retyped(self, flags: Mapping[str, str]) -> Asked:
        """The same, with these flags as they are typed in place of what they were or besides.

        Args:
            flags: Values by the first spelling of each.
        """
        typed = {**dict(zip(self.flags[::2], self.flags[1::2], strict=True)), **flags}
        return replace(self, flags=tuple(word for pair in typed.items() for word in pair))

    def having(self, overrides: Mapping[str, str | int]) -> Asked:
        """The same with more in place of the manifest's words.

        Args:
            overrides: Values by the names of `campaign.overrides.PLACES`.
        """
        return replace(self, options=replace(self.options, overrides={**self.options.overrides, **overrides}))
