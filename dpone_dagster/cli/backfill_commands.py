"""`dpone backfill`: its commands' words, flags and help. The work is imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dpone_dagster.campaign.advisor import Profile

from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.options import Group, approved_by, approver, execute, on_campaign, yes
from dpone_dagster.cli.report import Form, Report, answer


@click.group(cls=Group)
def backfill() -> None:
    """Plan, run and look at a campaign: one initial load of one table.

    Every command takes the flags that stand in place of the manifest's words. With another window and no pinned
    `backfill_id` that is another campaign; with a pinned one it is refused (PLAN_DRIFT) before data moves.
    """


@backfill.command()
@on_campaign
@click.option(
    "--advisor", is_flag=True, help="Say what the campaign's ledger, if it answers, tells about step and lanes."
)
@click.option(
    "--advisor-profile",
    type=click.Choice(["balanced", "worker_safety", "source_safety", "speed"]),
    default="balanced",
    show_default=True,
    help="Whom the advisor spares.",
)
@click.option(
    "--advisor-evidence",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON of load steps, chunks or a certification report; may be repeated.",
)
def plan(
    manifest: Asked, advisor: bool, advisor_profile: Profile, advisor_evidence: tuple[Path, ...], form: Form
) -> None:
    """Show chunks, names and identity. Opens no connection without --advisor; changes nothing."""

    def ask() -> Report:
        if advisor or advisor_evidence:
            from dpone_dagster.cli.advising import advised_plan_report

            return advised_plan_report(manifest, advisor_profile, advisor_evidence)
        from dpone_dagster.cli.plan import plan_report

        return plan_report(manifest)

    answer(form, ask, manifest)


@backfill.command()
@on_campaign
@execute
def run(manifest: Asked, execute: bool, form: Form) -> None:
    """Load, validate, publish and hand over, as a Dagster run. A dry run unless --execute is given."""

    def ask() -> Report:
        if not execute:
            from dpone_dagster.cli.plan import dry_run_report

            return dry_run_report(manifest)
        from dpone_dagster.cli.campaign_run import run_report

        return run_report(manifest, "run")

    answer(form, ask, manifest)


@backfill.command()
@on_campaign
def resume(manifest: Asked, form: Form) -> None:
    """Finish a campaign that was interrupted, failed or cancelled. What is committed is not read again."""

    def ask() -> Report:
        from dpone_dagster.cli.campaign_run import run_report

        return run_report(manifest, "resume")

    answer(form, ask, manifest)


@backfill.command()
@on_campaign
@execute
def retry_failed(manifest: Asked, execute: bool, form: Form) -> None:
    """Load the failed chunks again, and only those. A dry run unless --execute is given.

    Exits 0 if every one of them is committed, whatever other chunks are left; `resume` finishes the campaign.
    """

    def ask() -> Report:
        from dpone_dagster.cli.retry import retry_preview, retry_report

        return retry_report(manifest) if execute else retry_preview(manifest)

    answer(form, ask, manifest)


@backfill.command()
@on_campaign
def status(manifest: Asked, form: Form) -> None:
    """Show where a campaign stands. Changes nothing."""

    def ask() -> Report:
        from dpone_dagster.cli.looking import status_report

        return status_report(manifest)

    answer(form, ask, manifest)


@backfill.command()
@on_campaign
@click.option("--reason", required=True, help="Why; it is recorded.")
@click.option("--requested-by", metavar="NAME", required=True, help="Who asks for it; it is recorded.")
def cancel(manifest: Asked, reason: str, requested_by: str, form: Form) -> None:
    """Tell a campaign to stop, wherever it runs. Lanes finish the chunk in hand and claim no more."""

    def ask() -> Report:
        from dpone_dagster.cli.undoing import cancel_report

        return cancel_report(manifest, reason, requested_by)

    answer(form, ask, manifest)


@backfill.command()
@on_campaign
@yes
@approved_by
@click.option("--reason", help="Why; it is recorded with the receipt.")
def rollback(manifest: Asked, yes: bool, approved_by: str | None, reason: str | None, form: Form) -> None:
    """Swap the table that was live before back in. A preview, which changes nothing, unless --yes --approved-by."""
    answers_for_it = approver(yes, approved_by)
    if answers_for_it and not reason:
        raise click.UsageError("--reason is missing: say why the publication is rolled back")

    def ask() -> Report:
        from dpone_dagster.cli.undoing import rollback_preview, rollback_report

        if answers_for_it and reason:
            return rollback_report(manifest, answers_for_it, reason)
        return rollback_preview(manifest)

    answer(form, ask, manifest)


@backfill.command()
@on_campaign
@click.option("--chunk", type=click.IntRange(min=0), help="The chunk whose holder is meant; every holder otherwise.")
@yes
@approved_by
def release(manifest: Asked, chunk: int | None, yes: bool, approved_by: str | None, form: Form) -> None:
    """End the server session of a process that is stopped or cut off and keeps a lock.

    A preview, which changes nothing, unless --yes --approved-by.
    """
    answers_for_it = approver(yes, approved_by)

    def ask() -> Report:
        from dpone_dagster.cli.releasing import release_preview, release_report

        return release_report(manifest, chunk, answers_for_it) if answers_for_it else release_preview(manifest, chunk)

    answer(form, ask, manifest)


@backfill.command()
@on_campaign
@yes
@approved_by
def drop_backup(manifest: Asked, yes: bool, approved_by: str | None, form: Form) -> None:
    """Drop the table that the campaign retains. A preview, which changes nothing, unless --yes --approved-by."""
    answers_for_it = approver(yes, approved_by)

    def ask() -> Report:
        from dpone_dagster.cli.undoing import drop_preview, drop_report

        return drop_report(manifest, answers_for_it) if answers_for_it else drop_preview(manifest)

    answer(form, ask, manifest)


@backfill.command()
@on_campaign
def doctor(manifest: Asked, form: Form) -> None:
    """Check servers, tables, plan, locks and state, and name the next action. Changes nothing.

    Exits 0 if nothing is wrong, 1 if something is, 2 if manifest or connection URLs cannot be read at all.
    """

    def ask() -> Report:
        from dpone_dagster.cli.looking import doctor_report

        return doctor_report(manifest)

    answer(form, ask, manifest)


@backfill.command()
@on_campaign
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the page goes; NAME-report.html in this folder if no file is named.",
)
def report(manifest: Asked, output: Path | None, form: Form) -> None:
    """Write the campaign, in any phase, as one HTML file: verdict, figures, evidence. Changes nothing in a database.

    The file needs no network and no script, and can be attached to a change request.
    """

    def ask() -> Report:
        from dpone_dagster.cli.reporting import html_report

        return html_report(manifest, output)

    answer(form, ask, manifest)
