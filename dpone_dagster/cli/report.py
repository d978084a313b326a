"""What a command answers, and its three forms: text for people, JSON for programs, Markdown for tickets."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

import click

from dpone_dagster.campaign.errors import DponeError, Interrupted

Form = Literal["text", "json", "md"]
INTERRUPTED_EXIT_CODE = Interrupted.exit_code


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
        data: The public JSON.
        tables: The details for people.
        notes: Lines below the tables.
        next_commands: What to try next, ready to be pasted.
        exit_code: 0, or 1 where it ran and did not succeed.
    """

    headline: str
    data: Mapping[str, object]
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    next_commands: tuple[str, ...] = ()
    exit_code: int = 0


def answer(form: Form, ask: Callable[[], Report], manifest: Path | None = None) -> NoReturn:
    """Run a command, print its report or its error, and exit.

    Args:
        form: How to print.
        ask: The command.
        manifest: Stands for MANIFEST in the advice of errors.
    """
    try:
        report = ask()
    except DponeError as error:
        _print_error(error, form, manifest)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _print_error(Interrupted("the command was told to stop"), form, manifest)
        sys.exit(INTERRUPTED_EXIT_CODE)
    click.echo(_FORMS[form](report))
    sys.exit(report.exit_code)


def command(*words: str | Path) -> str:
    """A `dpone` command line that works when pasted into the shell that started this program."""
    return shlex.join([_program(), *(str(word) for word in words)])


def pasteable(advice: str, manifest: Path | None) -> str:
    """Advice with the manifest that was asked for in place of MANIFEST, and `dpone` as it was called."""
    if manifest is None:
        return advice
    named = re.sub(r"\bMANIFEST\b", lambda _: shlex.quote(str(manifest)), advice)
    return re.sub(r"\bdpone (?=(backfill|increment|state) )", lambda _: f"{_program()} ", named)


def advised(action: str, manifest: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """An action as (notes, next commands): it is a command or a sentence."""
    said = pasteable(action, manifest)
    return ((), (said,)) if action.startswith("dpone ") else ((said,), ())


def _program() -> str:
    called = Path(sys.argv[0])
    if called.name != "dpone":
        return "dpone"
    found = shutil.which("dpone")
    if found and os.path.realpath(found) == os.path.realpath(called):
        return "dpone"
    inside = called.is_relative_to(Path.cwd())
    return str(called.relative_to(Path.cwd()) if inside else called)


def _print_error(error: DponeError, form: Form, manifest: Path | None) -> None:
    if form == "json":
        facts = error.as_dict() | {"next_step": pasteable(error.advice, manifest)}
        click.echo(json.dumps({"error": facts}, indent=2, ensure_ascii=False))
        return
    text = pasteable(str(error), manifest)
    code, rest = text[: len(error.code)], text[len(error.code) :]
    click.echo(click.style(code, fg="red", bold=True) + rest, err=True)


# ---------------------------------------------------------------- the three forms


def _as_json(report: Report) -> str:
    return json.dumps(report.data, indent=2, ensure_ascii=False)


def _as_text(report: Report) -> str:
    blocks = [click.style(report.headline, bold=True, fg="red" if report.exit_code else None)]
    blocks += [_text_table(table) for table in report.tables]
    if report.notes:
        blocks.append("\n".join(report.notes))
    if report.next_commands:
        blocks.append("\n".join(["next:", *(f"  {line}" for line in report.next_commands)]))
    return "\n\n".join(blocks)


def _text_table(table: Table) -> str:
    shown = [table.columns, *table.rows] if any(table.columns) else table.rows
    widths = [max(len(row[column]) for row in shown) for column in range(len(table.columns))]
    lines = [table.title] if table.title else []
    for row in shown:
        line = "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        lines.append(click.style(line, dim=True) if row is table.columns else line)
    return "\n".join(lines)


def _as_markdown(report: Report) -> str:
    blocks = [f"**{_cell(report.headline)}**", *(_markdown_table(table) for table in report.tables)]
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
