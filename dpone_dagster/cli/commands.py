"""Every command of `dpone`: its words, its options and its help. The work is imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dpone_dagster.engine.apply import Compare

from dpone_dagster.cli.report import Form, Report, answer

_form = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "md"]),
    default="text",
    show_default=True,
    help="How to print.",
)
_yes = click.option("--yes", is_flag=True, help="Do it; needs --approved-by too.")
_approved_by = click.option("--approved-by", metavar="NAME", help="Who answers for it.")


def _approver(yes: bool, approved_by: str | None) -> str | None:
    """Who answers for it; None for a preview. Whoever says --yes wants no preview, so it is never one."""
    if yes and not approved_by:
        raise click.UsageError("--yes needs --approved-by NAME: say who answers for it")
    return approved_by if yes else None


_manifest = click.argument("manifest", type=click.Path(path_type=Path))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="dpone-dagster", prog_name="dpone", message="%(prog)s %(version)s")
def dpone() -> None:
    """Load one very large PostgreSQL table once, safely, and hand it over to incremental loads.

    Connections are URLs in DPONE_CONNECTION_<REF>, or in the file that DPONE_CONNECTIONS_FILE names.

    Exit codes: 0 done; 1 ran and did not succeed; 2 refused before anything was touched; 3 somebody else holds the
    campaign; 130 interrupted.
    """


@dpone.group()
def backfill() -> None:
    """Plan, run and look at a campaign: one initial load of one table."""


@dpone.group()
def increment() -> None:
    """Load what changed in the source since the handoff, by hand."""


@dpone.group()
def state() -> None:
    """Look at where increments start, and put that back."""


@dpone.group()
def manifest() -> None:
    """Check manifests, and print the schema that editors complete them by."""


@backfill.command()
@_manifest
@_form
def plan(manifest: Path, form: Form) -> None:
    """Show chunks, names and identity. Opens no connection; changes nothing."""

    def ask() -> Report:
        from dpone_dagster.cli.plan import plan_report

        return plan_report(manifest)

    answer(form, ask, manifest)


@backfill.command()
@_manifest
@click.option("--execute", is_flag=True, help="Do it. Without this flag nothing is touched.")
@_form
def run(manifest: Path, execute: bool, form: Form) -> None:
    """Load, validate, publish and hand over, as a Dagster run. A dry run unless --execute is given."""

    def ask() -> Report:
        if not execute:
            from dpone_dagster.cli.plan import dry_run_report

            return dry_run_report(manifest)
        from dpone_dagster.cli.campaign_run import run_report

        return run_report(manifest, "run")

    answer(form, ask, manifest)


@backfill.command()
@_manifest
@_form
def resume(manifest: Path, form: Form) -> None:
    """Finish a campaign that was interrupted, failed or cancelled. What is committed is not read again."""

    def ask() -> Report:
        from dpone_dagster.cli.campaign_run import run_report

        return run_report(manifest, "resume")

    answer(form, ask, manifest)


@backfill.command()
@_manifest
@_form
def status(manifest: Path, form: Form) -> None:
    """Show where a campaign stands. Changes nothing."""

    def ask() -> Report:
        from dpone_dagster.cli.looking import status_report

        return status_report(manifest)

    answer(form, ask, manifest)


@backfill.command()
@_manifest
@click.option("--reason", required=True, help="Why; it is recorded.")
@click.option("--requested-by", metavar="NAME", help="Who asks for it; this login if nobody is named.")
@_form
def cancel(manifest: Path, reason: str, requested_by: str | None, form: Form) -> None:
    """Tell a campaign to stop, wherever it runs. Lanes finish the chunk in hand and claim no more."""

    def ask() -> Report:
        from dpone_dagster.cli.looking import operator
        from dpone_dagster.cli.undoing import cancel_report

        return cancel_report(manifest, reason, requested_by or operator())

    answer(form, ask, manifest)


@backfill.command()
@_manifest
@_yes
@_approved_by
@click.option("--reason", help="Why; it is recorded with the receipt.")
@_form
def rollback(manifest: Path, yes: bool, approved_by: str | None, reason: str | None, form: Form) -> None:
    """Swap the table that was live before back in. A preview, which changes nothing, unless --yes --approved-by."""
    approver = _approver(yes, approved_by)
    if approver and not reason:
        raise click.UsageError("--reason is missing: say why the publication is rolled back")

    def ask() -> Report:
        from dpone_dagster.cli.undoing import rollback_preview, rollback_report

        if approver and reason:
            return rollback_report(manifest, approver, reason)
        return rollback_preview(manifest)

    answer(form, ask, manifest)


@backfill.command()
@_manifest
@click.option("--chunk", type=click.IntRange(min=0), help="The chunk whose holder is meant; every holder otherwise.")
@_yes
@_approved_by
@_form
def release(manifest: Path, chunk: int | None, yes: bool, approved_by: str | None, form: Form) -> None:
    """End the server session of a process that is stopped or cut off and keeps a lock.

    A preview, which changes nothing, unless --yes --approved-by.
    """
    approver = _approver(yes, approved_by)

    def ask() -> Report:
        from dpone_dagster.cli.releasing import release_preview, release_report

        return release_report(manifest, chunk, approver) if approver else release_preview(manifest, chunk)

    answer(form, ask, manifest)


@backfill.command()
@_manifest
@_yes
@_approved_by
@_form
def drop_backup(manifest: Path, yes: bool, approved_by: str | None, form: Form) -> None:
    """Drop the table that the campaign retains. A preview, which changes nothing, unless --yes --approved-by."""
    approver = _approver(yes, approved_by)

    def ask() -> Report:
        from dpone_dagster.cli.undoing import drop_preview, drop_report

        return drop_report(manifest, approver) if approver else drop_preview(manifest)

    answer(form, ask, manifest)


@backfill.command()
@_manifest
@_form
def doctor(manifest: Path, form: Form) -> None:
    """Check servers, tables, plan, locks and state, and name the next action. Changes nothing.

    Exits 0 if nothing is wrong, 1 if something is, 2 if manifest or connection URLs cannot be read at all.
    """

    def ask() -> Report:
        from dpone_dagster.cli.looking import doctor_report

        return doctor_report(manifest)

    answer(form, ask, manifest)


@increment.command("run")
@_manifest
@click.option(
    "--compare",
    type=click.Choice(["policy", "keys", "rows"]),
    default="policy",
    show_default=True,
    help="`keys` settles deletes whatever the manifest says; `rows` compares every row, as after a promotion.",
)
@_form
def increment_run(manifest: Path, compare: Compare, form: Form) -> None:
    """Run one increment now, as a Dagster run. Two at once never write: the second is refused."""

    def ask() -> Report:
        from dpone_dagster.cli.increment_run import increment_report

        return increment_report(manifest, compare)

    answer(form, ask, manifest)


@increment.command("status")
@_manifest
@_form
def increment_status(manifest: Path, form: Form) -> None:
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
@_form
def inspect(target: str, manifest: Path | None, connection: str | None, form: Form) -> None:
    """Show the checkpoint of TARGET (schema.table, or a manifest's file). Changes nothing."""

    def ask() -> Report:
        from dpone_dagster.cli.state import inspect_report
        from dpone_dagster.cli.targets import Wanted

        return inspect_report(Wanted(target, manifest, connection))

    answer(form, ask, manifest)


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
@_yes
@_approved_by
@click.option("--evidence-output", type=click.Path(path_type=Path), help="Write the evidence there, as JSON.")
@_named_manifest
@_connection
@_form
def rewind(target: str, form: Form, **asked: Any) -> None:
    """Put the checkpoint of TARGET (schema.table, or a manifest's file) back; never forward.

    The next increment reads again what came since and compares all keys. A preview, which changes nothing,
    unless --yes --approved-by.
    """
    approver = _approver(asked["yes"], asked["approved_by"])

    def ask() -> Report:
        from dpone_dagster.cli.state import Approval, rewind_report
        from dpone_dagster.cli.targets import Wanted

        wanted = Wanted(target, asked["manifest"], asked["connection"], asked["backend"])
        approval = Approval(approver is not None, asked["approved_by"], asked["evidence_output"])
        return rewind_report(wanted, asked["to"], asked["reason"], approval)

    answer(form, ask, asked["manifest"])


@manifest.command()
@click.argument("manifests", nargs=-1, type=click.Path(path_type=Path))
@_form
def check(manifests: tuple[Path, ...], form: Form) -> None:
    """Name everything that is wrong in these manifests (all that this project serves if none is named)."""

    def ask() -> Report:
        from dpone_dagster.cli.manifests import check_report

        return check_report(manifests)

    answer(form, ask)


@manifest.command()
@_form
def schema(form: Form) -> None:
    """Print the manifest's JSON Schema."""
    from dpone_dagster.cli.manifests import schema_text

    text = schema_text()
    click.echo(f"```json\n{text}\n```" if form == "md" else text)
