"""Flags that several commands share, in the sections of their help, and how they become what a command is asked for."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.report import TYPED_WORDS, answer_error

Body = Callable[..., None]


class Flag(click.Option):
    """An option with the section of the help that it stands in."""

    def __init__(self, *declarations: Any, section: str = "Options", **settings: Any) -> None:
        super().__init__(*declarations, **settings)
        self.section = section


class Command(click.Command):
    """A command whose help has its flags in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, the command's own flags first."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for flag in self.get_params(ctx):
            record = flag.get_help_record(ctx) if isinstance(flag, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(flag, "section", "Options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Group(click.Group):
    """A group of such commands; the outermost one keeps the words that were typed."""

    command_class = Command
    group_class = type

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As click does, and the words are kept for the advice to type them again."""
        typed = list(args)
        context = super().make_context(info_name, args, parent, **extra)
        context.meta.setdefault(TYPED_WORDS, typed)
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """As click does; who asks for JSON gets what is wrong with the command line as JSON too."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if not _asks_for_json(ctx.meta[TYPED_WORDS]):
                raise
            from dpone_dagster.campaign.errors import UsageInvalid

            answer_error("json", UsageInvalid(error.format_message()))


def _asks_for_json(words: Sequence[str]) -> bool:
    """Read by hand: click has no values where it could not parse."""
    return "--format=json" in words or ("--format", "json") in itertools.pairwise(words)


form = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "md"]),
    default="text",
    show_default=True,
    help="How to print.",
)
execute = click.option("--execute", is_flag=True, help="Do it. Without this flag nothing is touched.")
yes = click.option("--yes", is_flag=True, help="Do it; needs --approved-by too.")
approved_by = click.option("--approved-by", metavar="NAME", help="Who answers for it.")


def approver(confirmed: bool, name: str | None) -> str | None:
    """Who answers for it; None for a preview. Whoever says --yes wants no preview, so it is never one."""
    if confirmed and not name:
        raise click.UsageError("--yes needs --approved-by NAME: say who answers for it")
    return name if confirmed else None


# ---------------------------------------------------------------- a campaign's manifest, and what is said beside it

_WINDOW = "In place of the manifest's words"
_INTERVAL = "What {{ tokens }} stand for"
_OVERRIDES: tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...] = (
    (("--column",), "column", {"metavar": "NAME", "help": "The chunk column."}),
    (("--from",), "from", {"metavar": "VALUE", "help": "Where the window starts."}),
    (("--to",), "to", {"metavar": "VALUE", "help": "Where it ends: inclusive, but exclusive for kind timestamp."}),
    (("--step",), "step", {"help": "Nh, Nd, Nw, Nmo, Ny, or a whole number.", "metavar": "STEP"}),
    (("--kind",), "kind", {"type": click.Choice(["date", "timestamp", "integer", "uuid"]), "help": "Of the chunks."}),
    (("--buckets",), "buckets", {"type": int, "metavar": "N", "help": "Chunks, for kind uuid."}),
    (("--inner-mode",), "inner_mode", {"metavar": "MODE", "help": "How a chunk is written."}),
    (("--parallel-workers", "--lanes"), "parallel_workers", {"type": int, "metavar": "N", "help": "Lanes, 1 to 64."}),
    (("--max-chunks",), "max_chunks", {"type": int, "metavar": "N", "help": "Refuse a plan with more."}),
    (("--backfill-id",), "backfill_id", {"metavar": "ID", "help": "Pin the campaign's identity."}),
)
_TIMES = (
    ("--interval-start", "start", "First instant of the run's interval."),
    ("--interval-end", "end", "First instant after it."),
    ("--execution-date", "logical_date", "The run's logical date; its start if left out."),
)
_VARIABLES = {"start": "DPONE_INTERVAL_START", "end": "DPONE_INTERVAL_END", "logical_date": "DPONE_LOGICAL_DATE"}


def on_campaign(body: Body) -> Body:
    """Give a command MANIFEST with every override and the interval; the body gets it all as one `Asked`."""

    @functools.wraps(body)
    def command(manifest: Path, form: Any, **given: Any) -> None:
        from dpone_dagster.campaign.errors import DponeError
        from dpone_dagster.campaign.interval import read_interval
        from dpone_dagster.campaign.overrides import RunOptions

        _refuse_two_spellings(click.get_current_context().meta[TYPED_WORDS])
        overrides = {name: given.pop(f"put_{name}") for _, name, _ in _OVERRIDES}
        times = {name: given.pop(f"time_{name}") for _, name, _ in _TIMES}
        state_dir = given.pop("state_dir")
        chosen = {name: value for name, value in overrides.items() if value is not None}
        placed = {"state_dir": str(state_dir.resolve())} if state_dir is not None and _typed_state_dir() else {}
        try:
            options = RunOptions({**chosen, **placed}, read_interval(times, os.environ))
        except DponeError as error:
            answer_error(form, error, Asked(manifest))
        body(Asked(manifest, options, _typed_again(chosen, times, state_dir), state_dir), form=form, **given)

    flags: list[Callable[[Body], Body]] = [_MANIFEST, *_override_flags(), _STATE_DIR, *_time_flags(), form]
    flagged: Body = command
    for flag in reversed(flags):
        flagged = flag(flagged)
    return flagged


_MANIFEST = click.argument("manifest", type=click.Path(path_type=Path))
_STATE_DIR = click.option(
    "--state-dir",
    cls=Flag,
    section=_WINDOW,
    type=click.Path(path_type=Path, file_okay=False),
    envvar="DPONE_BACKFILL_STATE_DIR",
    show_envvar=True,
    help="Where a run leaves its evidence, and a `local_file` its state; .dpone/backfill if left out.",
)


def _refuse_two_spellings(typed: Sequence[str]) -> None:
    """Two names of one flag: click would take the later one without a word."""
    flags = {word.partition("=")[0] for word in typed}
    for spellings, _, _ in _OVERRIDES:
        if len(both := flags.intersection(spellings)) > 1:
            raise click.UsageError(f"{' and '.join(sorted(both))} are the same flag: give one of them")


def _override_flags() -> list[Callable[[Body], Body]]:
    return [
        click.option(*spellings, f"put_{name}", cls=Flag, section=_WINDOW, **settings)
        for spellings, name, settings in _OVERRIDES
    ]


def _time_flags() -> list[Callable[[Body], Body]]:
    return [
        click.option(
            flag,
            f"time_{name}",
            cls=Flag,
            section=_INTERVAL,
            metavar="TIME",
            help=f"{text}  [env var: {_VARIABLES[name]}]",
        )
        for flag, name, text in _TIMES
    ]


def _typed_again(
    overrides: Mapping[str, str | int], times: Mapping[str, str | None], state_dir: Path | None
) -> tuple[str, ...]:
    """The flags as they are typed; what came by a variable is there the next time too."""
    words: list[str] = []
    for spellings, name, _ in _OVERRIDES:
        if name in overrides:
            words += [spellings[0], str(overrides[name])]
    for flag, name, _ in _TIMES:
        if (time := times[name]) is not None:
            words += [flag, time]
    if state_dir is not None and _typed_state_dir():
        words += ["--state-dir", str(state_dir)]
    return tuple(words)


def _typed_state_dir() -> bool:
    return click.get_current_context().get_parameter_source("state_dir") is ParameterSource.COMMANDLINE


def on_manifest(body: Body) -> Body:
    """Give a command MANIFEST as it is written."""

    @functools.wraps(body)
    def command(manifest: Path, **given: Any) -> None:
        body(Asked(manifest), **given)

    return _MANIFEST(form(command))
