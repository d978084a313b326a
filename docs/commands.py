"""The page of commands, from the commands' own help."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from docs.answers import ANSWERS, schema_name
from dpone_dagster.campaign.interval import TOKENS, VARIABLES
from dpone_dagster.cli.commands import dpone

_INTRO = """# Commands

`dpone COMMAND --help` says the same. Every command has `--format text|json|md`: text for people, JSON for programs,
Markdown for tickets. The JSON of each command has a schema in [schemas](schemas). Text is in colours on a terminal
only, and nowhere with [`NO_COLOR`](https://no-color.org); tables are cut to a screen of 24 lines, JSON and
Markdown have them whole.

Exit codes: 0 done; 1 ran and did not succeed; 2 refused before anything was touched; 3 somebody else holds the
campaign; 130 interrupted. An error ends with the command to type next ([all errors](errors.md)): the same
one again only where following its advice makes that succeed, else a look at the campaign, or the command's help.

Rows a second are of two kinds. While a run goes on, its terminal shows its own rate, from its first look at work to the
latest commit. `status`, the summary at the end, the report and Dagster divide all rows of the campaign by the
time since its first claim, pauses and earlier runs included.

## Completion

The shell completes commands, flags, their values and files. Put the line for your shell into its start file:

```sh
eval "$(_DPONE_COMPLETE=bash_source dpone)"                      # ~/.bashrc, bash 4.4 or later
eval "$(_DPONE_COMPLETE=zsh_source dpone)"                       # ~/.zshrc
_DPONE_COMPLETE=fish_source dpone | source                       # ~/.config/fish/config.fish
```
"""
_OVERRIDES = """
`dpone run` and every `dpone backfill` command take these. They are put in place before the manifest is read, so
that what does not fit is refused as if it stood there.

A campaign's identity is `backfill_id` where that is pinned, else the window itself. Other flags for the window
therefore make another campaign, or are refused (`PLAN_DRIFT`) where `backfill_id` pins one that was prepared with
another window. Give the same flags to `status`, `resume` and the others; what a command prints to type next has
them. `--kind` leaves out what the manifest says for another kind, `--parallel-workers` leaves out `dagster.lanes`.
Dagster's pages show the chunks of the manifest as it is written.
"""
_TIMES = """
`dpone run` and every `dpone backfill` command take these, or the variables that a scheduler sets. A flag comes
before its variable; a time without a zone is in UTC; `None` in a variable means that it is not set. Results carry
the interval.

A manifest of `publication.mode: shadow_swap`, or of increments, loads one fixed range and refuses tokens. In others
each is replaced before the manifest is read. `ds` is the day by the logical date's own clock. A window of kind
`date` holds whole days, so `to: "{{ data_interval_end }}"` becomes the last day before the interval's end; write no
kind, or `timestamp`, for columns of times.

Each interval is a campaign of its own, and one that is loaded stays loaded: the same interval again does nothing. With
`backfill_id: "orders_{{ dag_run_id }}"` each run of the scheduler replaces its slice anew, and a retry of that run goes
on where it was.
"""


def commands_page() -> str:
    """Every command and every flag."""
    sections = {getattr(flag, "section", ""): "" for flag in dpone.commands["run"].params}
    window, interval = [name for name in sections if name]
    lines = [_INTRO, f"## {window}", _OVERRIDES, *_flags(dpone.commands["run"], window), ""]
    lines += [f"## {interval}", _TIMES, *_flags(dpone.commands["run"], interval), ""]
    lines += [
        "| token | without a value |",
        "|---|---|",
        *(f"| `{{{{ {n} }}}}` | {way} |" for n, way in TOKENS.items()),
    ]
    lines += ["", f"The variables are {', '.join(f'`{name}`' for name in sorted(VARIABLES.values()))}.", ""]
    for words, command in leaves(dpone):
        lines += _command(words, command)
    return "\n".join(lines)


def leaves(group: click.Group, words: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its words."""
    for name, command in sorted(group.commands.items()):
        here = f"{words} {name}".strip()
        if isinstance(command, click.Group):
            yield from leaves(command, here)
        else:
            yield here, command


def _command(words: str, command: click.Command) -> Iterator[str]:
    arguments = [p.make_metavar(click.Context(command)) for p in command.params if isinstance(p, click.Argument)]
    yield f"## dpone {' '.join([words, *arguments])}"
    yield ""
    for paragraph in (command.help or "").split("\n\n"):
        yield " ".join(paragraph.split())
        yield ""
    yield from _flags(command, "Options")
    if any(getattr(flag, "section", None) for flag in command.params):
        yield ""
        yield "And the flags of the two tables above."
    if words in ANSWERS:
        yield ""
        yield f"JSON: [schemas/{schema_name(words)}](schemas/{schema_name(words)})"
    yield ""


def _flags(command: click.Command, section: str) -> Iterator[str]:
    yield "| flag | what it does |"
    yield "|---|---|"
    for flag in command.params:
        if isinstance(flag, click.Option) and getattr(flag, "section", "Options") == section:
            yield f"| {_cell(_spelling(flag, command))} | {_cell(flag.help or '')} |"


def _spelling(flag: click.Option, command: click.Command) -> str:
    value = "" if flag.is_flag else f" {flag.make_metavar(click.Context(command))}"
    required = ", required" if flag.required else ""
    return f"{', '.join(f'`{name}{value}`' for name in flag.opts)}{required}"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
