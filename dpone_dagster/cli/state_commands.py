"""`dpone increment`, `state` and `manifest`: their commands' words, flags and help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dpone_dagster.engine.apply import Compare

from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.options import Group, approved_by, approver, form, on_manifest, yes
from dpone_dagster.cli.report import Form, Report, answer, say


@click.group(cls=Group)
def increment() -> None:
    """Load what changed in the source since the handoff, by hand."""


@click.group(cls=Group)
def state() -> None:
    """Look at where increments start, and put that back."""


@click.group(cls=Group)
def manifest() -> None:
    """Check manifests, and print the schema that editors complete them by."""


@increment.command("run")
@on_manifest
@click.option(
    "--compare",
    type=click.Choice(["policy", "keys", "rows"]),
    default="policy",
    show_default=True,
    help="`keys` settles deletes whatever the manifest says; `rows` compares every row, as after a promotion.",
)
def increment_run(manifest: Asked, compare: Compare, form: Form) -> None:
    """Run one increment now, as a Dagster run. Two at once never write: the second is refused."""

    def ask() -> Report:
        from dpone_dagster.cli.increment_run import increment_report

        return increment_report(manifest, compare)

    answer(form, ask, manifest)


@increment.command("status")
@on_manifest
def increment_status(manifest: Asked, form: Form) -> None:
    """Show where the increments stand, and whether one may run (`may_run`). Changes nothing.

    Exits 0 if it could be told, whichever it is.
    """

    def ask() -> Report:
        from dpone_dagster.cli.state import checkpoint_report

        return checkpoint_report(manifest)

    answer(form, ask, manifest)


_target = click.argument("target")
_named_manifest = click.option(
    "--manifest", "manifest", type=click.Path(path_type=Path), help="Its manifest; looked for in this project if not."
)
_connection = click.option(
    "--connection", help="The sink's connection_ref, where several databases have such a target."
)


@state.command()
@_target
@_named_manifest
@_connection
@form
def inspect(target: str, manifest: Path | None, connection: str | None, form: Form) -> None:
    """Show the checkpoint of TARGET (schema.table, or a manifest's file). Changes nothing."""

    def ask() -> Report:
        from dpone_dagster.cli.state import inspect_report
        from dpone_dagster.cli.targets import Wanted

        return inspect_report(Wanted(target, manifest, connection))

    answer(form, ask, Asked(manifest) if manifest else None)


@state.command()
@_target
@click.option("--backend", type=click.Choice(["postgres", "mssql"]), help="The sink's type, to be sure.")
@click.option("--state-type", type=click.Choice(["xmin"]), default="xmin", show_default=True, help="What to rewind.")
@click.option(
    "--to",
    required=True,
    help="`anchor` (the campaign's own), a 64-bit transaction id, or a date or time (UTC if it names no zone): "
    "the latest recorded anchor at or before it.",
)
@click.option("--reason", required=True, help="Why; goes into the evidence.")
@yes
@approved_by
@click.option("--evidence-output", type=click.Path(path_type=Path), help="Write the evidence there, as JSON.")
@_named_manifest
@_connection
@form
def rewind(target: str, form: Form, **asked: Any) -> None:
    """Put the checkpoint of TARGET (schema.table, or a manifest's file) back; never forward.

    The next increment reads again what came since and compares all keys. A preview, which changes nothing,
    unless --yes --approved-by.
    """
    answers_for_it = approver(asked["yes"], asked["approved_by"])

    def ask() -> Report:
        from dpone_dagster.cli.state import Approval, rewind_report
        from dpone_dagster.cli.targets import Wanted

        wanted = Wanted(target, asked["manifest"], asked["connection"], asked["backend"])
        approval = Approval(answers_for_it is not None, asked["approved_by"], asked["evidence_output"])
        return rewind_report(wanted, asked["to"], asked["reason"], approval)

    answer(form, ask, Asked(asked["manifest"]) if asked["manifest"] else None)


@manifest.command()
@click.argument("manifests", nargs=-1, type=click.Path(path_type=Path))
@form
def check(manifests: tuple[Path, ...], form: Form) -> None:
    """Name everything that is wrong in these manifests (all that this project serves if none is named)."""

    def ask() -> Report:
        from dpone_dagster.cli.manifests import check_report

        return check_report(manifests)

    answer(form, ask)


@manifest.command()
@form
def schema(form: Form) -> None:
    """Print the manifest's JSON Schema."""
    from dpone_dagster.cli.manifests import schema_text

    text = schema_text()
    say(f"```json\n{text}\n```" if form == "md" else text)
