"""What a command answers, and its three forms: text for people, JSON for programs, Markdown for tickets."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

import click

from dpone_dagster.campaign.errors import DponeError, Interrupted, PlanDrift
from dpone_dagster.cli.aftererrors import following
from dpone_dagster.cli.asked import Asked

Form = Literal["text", "json", "md"]
INTERRUPTED_EXIT_CODE = Interrupted.exit_code
# Where a command's context keeps what was typed after `dpone`.
TYPED_WORDS = "dpone.words"
_SCREEN_LINES = 24
# A blank line, and the one that says how many rows are left out.
_FRAME_LINES = 2
_FEWEST_ROWS = 3
_COMMAND = re.compile(r"\bdpone (?:backfill|increment|state|run) [^`;.]*\bMANIFEST\b[^`;.]*")


@dataclass(frozen=True)
class Table:
    """A small table; `title` stands above it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""


@dataclass(frozen=True)
class Report:
    """The answer of a command.

    Attributes:
        headline: The one line that says it all.
        heartbeat: A second one where something is at work or was: how far, how fast, since when.
        data: The public JSON.
        tables: The details for people.
        notes: Lines below the tables.
        next_commands: What to try next, ready to be pasted.
        exit_code: 0; 1 where it ran and did not succeed; 3 where somebody else was at work.
    """

    headline: str
    data: Mapping[str, object]
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    next_commands: tuple[str, ...] = ()
    exit_code: int = 0
    heartbeat: str = ""


def answer(form: Form, ask: Callable[[], Report], manifest: Asked | None = None) -> NoReturn:
    """Run a command, print its report or its error, and exit.

    Args:
        form: How to print.
        ask: The command.
        manifest: Stands for MANIFEST in the advice of errors.
    """
    try:
        report = ask()
    except DponeError as error:
        answer_error(form, error, manifest)
    except KeyboardInterrupt:
        answer_error(form, Interrupted("the command was told to stop"), manifest)
    say(_FORMS[form](report))
    sys.exit(report.exit_code)


def answer_error(form: Form, error: DponeError, manifest: Asked | None = None) -> NoReturn:
    """Print an error and exit as it says.

    Args:
        form: How to print.
        error: What happened.
        manifest: Stands for MANIFEST in its advice.
    """
    advice = pasteable(advice_for(error, manifest), manifest)
    then = _next_command(error, manifest)
    if form == "json":
        facts = error.as_dict() | {"next_step": advice, "next_command": then}
        say(json.dumps({"error": facts}, indent=2, ensure_ascii=False))
    else:
        code = click.style(error.code, fg="red", bold=True)
        found = (f"  - {pasteable(str(finding), manifest)}" for finding in error.findings)
        only_the_command = advice.strip("`.") == then
        ending = (f"  next: {then}",) if only_the_command else (f"  next: {advice}", f"  then: {then}")
        say("\n".join([f"{code}: {error.message}", *found, *ending]), err=True)
    sys.exit(error.exit_code)


def say(text: str, *, err: bool = False) -> None:
    """Print; in colours on a terminal only, and nowhere with NO_COLOR (https://no-color.org)."""
    click.echo(text, err=err, color=False if os.environ.get("NO_COLOR") else None)


def command(*words: str | Path | Asked) -> str:
    """A `dpone` command line that works when pasted into the shell that started this program."""
    flat = (part for word in words for part in (word.words if isinstance(word, Asked) else (str(word),)))
    return shlex.join([_program(), *flat])


def pasteable(advice: str, manifest: Asked | None) -> str:
    """Advice with the manifest that was asked for in place of MANIFEST, and `dpone` as it was called."""
    if manifest is None:
        return advice
    named = re.sub(r"\bMANIFEST\b", lambda _: shlex.join(manifest.words), advice)
    return re.sub(r"(?<![\w/])dpone (?=(backfill|increment|state|run) )", lambda _: f"{_program()} ", named)


def advice_for(error: DponeError, manifest: Asked | None) -> str:
    """An error's advice; where flags have made another plan, that they have."""
    if error.code == PlanDrift.code and manifest is not None and manifest.options.plan_changes:
        return manifest.another_plan
    return error.advice


def _next_command(error: DponeError, manifest: Asked | None) -> str:
    """The command to type next: the one of the advice, else what follows an error of its kind."""
    if error.code == PlanDrift.code and manifest is not None and manifest.options.plan_changes:
        return command("backfill", "status", manifest.path)
    if manifest is not None and (found := _COMMAND.search(error.advice)):
        return pasteable(found[0].strip(), manifest)
    context = click.get_current_context(silent=True)
    typed = tuple(context.meta.get(TYPED_WORDS, ())) if context else ()
    return _following(error, manifest, context, typed)


def _following(error: DponeError, manifest: Asked | None, context: click.Context | None, typed: tuple[str, ...]) -> str:
    kind = following(error)
    of_increments = kind == "increments" or (kind == "campaign" and typed[:1] == ("increment",))
    if kind == "help" and context is not None:
        return command(*_command_words(context.find_root().command, typed), "--help")
    if kind == "checkpoint" and context is not None and "target" in context.params:
        named = [(f"--{name}", context.params.get(name)) for name in ("manifest", "connection")]
        flags = (word for flag, value in named if value is not None for word in (flag, str(value)))
        return command("state", "inspect", context.params["target"], *flags)
    if of_increments and manifest is not None:
        return command("increment", "status", manifest.path)
    if kind == "campaign" and manifest is not None:
        return command("backfill", "status", manifest)
    return command(*typed)


def _command_words(known: click.Command, typed: Sequence[str]) -> Iterator[str]:
    """The words of what was typed that name a command."""
    for word in typed:
        if not isinstance(known, click.Group) or word not in known.commands:
            return
        known = known.commands[word]
        yield word


def advised(action: str, manifest: Asked) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """An action as (notes, next commands): it is a command or a sentence, which may name some."""
    said = pasteable(action, manifest)
    program = re.escape(_program())
    if re.match(rf"{program} (backfill|increment|state|run) ", said):
        return (), (said,)
    words = re.escape(shlex.join(manifest.words))
    return (said,), tuple(
        re.findall(rf"{program} (?:backfill|increment|state|run) [a-z-]+ {words}(?: --[a-z-]+)*", said)
    )


def _program() -> str:
    called = Path(sys.argv[0])
    if called.name != "dpone":
        return "dpone"
    found = shutil.which("dpone")
    if found and os.path.realpath(found) == os.path.realpath(called):
        return "dpone"
    inside = called.is_relative_to(Path.cwd())
    return str(called.relative_to(Path.cwd()) if inside else called)


# ---------------------------------------------------------------- the three forms


def _as_json(report: Report) -> str:
    return json.dumps(report.data, indent=2, ensure_ascii=False)


def _as_text(report: Report) -> str:
    headline = click.style(report.headline, bold=True, fg="red" if report.exit_code else None)
    top = [f"{headline}\n{report.heartbeat}" if report.heartbeat else headline]
    bottom = ["\n".join(report.notes)] if report.notes else []
    if report.next_commands:
        bottom.append("\n".join(["next:", *(f"  {line}" for line in report.next_commands)]))
    around = sum(block.count("\n") + 2 for block in (*top, *bottom))
    tables = map(_text_table, report.tables, _rows_that_fit(report.tables, _SCREEN_LINES - around))
    return "\n\n".join([*top, *tables, *bottom])


def _rows_that_fit(tables: Sequence[Table], lines: int) -> list[int]:
    """How many rows of each table are shown: all of them, or fewer of the longest, though never none.

    A table that is cut anyway is cut first, so that short ones stay whole.
    """
    room = lines - sum(_FRAME_LINES + any(table.columns) + bool(table.title) for table in tables)
    rows = [min(len(table.rows), max(_FEWEST_ROWS, room)) for table in tables]
    while sum(rows) > room and max(rows) > _FEWEST_ROWS:
        cuttable = (number for number, shown in enumerate(rows) if shown > _FEWEST_ROWS)
        rows[max(cuttable, key=lambda number: (len(tables[number].rows), rows[number]))] -= 1
    return rows


def _text_table(table: Table, shown_rows: int) -> str:
    rows = [tuple(" ".join(cell.split()) for cell in row) for row in table.rows[:shown_rows]]
    shown = [table.columns, *rows] if any(table.columns) else rows
    widths = [max((len(row[column]) for row in shown), default=0) for column in range(len(table.columns))]
    lines = [table.title] if table.title else []
    for row in shown:
        line = "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        lines.append(click.style(line, dim=True) if row is table.columns else line)
    if left_out := len(table.rows) - len(rows):
        lines.append(f"  … {left_out:,} more, with --format json or md")
    return "\n".join(lines)


def _as_markdown(report: Report) -> str:
    heartbeat = [_cell(report.heartbeat)] if report.heartbeat else []
    blocks = [f"**{_cell(report.headline)}**", *heartbeat, *(_markdown_table(table) for table in report.tables)]
    if report.notes:
        blocks.append("\n".join(f"* {_cell(note)}" for note in report.notes))
    if report.next_commands:
        blocks.append("\n".join(["```sh", *report.next_commands, "```"]))
    return "\n\n".join(blocks)


def _markdown_table(table: Table) -> str:
    head = [_markdown_row(table.columns), _markdown_row(["---"] * len(table.columns))]
    lines = [*head, *(_markdown_row(row) for row in table.rows)]
    return "\n".join([f"### {_cell(table.title)}", "", *lines] if table.title else lines)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


_FORMS: Mapping[Form, Callable[[Report], str]] = {"text": _as_text, "json": _as_json, "md": _as_markdown}
