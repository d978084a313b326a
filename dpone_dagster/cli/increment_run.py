"""`dpone increment run`: ask the gate here, so that refusals come out clean; then the Dagster job of one increment."""

from __future__ import annotations

from dpone_dagster.campaign.errors import CampaignActive, Interrupted
from dpone_dagster.campaign.jobnames import increment_job_name
from dpone_dagster.cli.ahead import prove_home, start_steps
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.looking import open_route
from dpone_dagster.cli.report import Report, Table, command, pasteable
from dpone_dagster.cli.terminal import let_signals_interrupt, waiting
from dpone_dagster.engine.apply import Compare
from dpone_dagster.engine.increment import prove_gate


def increment_report(manifest: Asked, compare: Compare) -> Report:
    """Run one increment as a Dagster run of this process, and report what it came to.

    Args:
        manifest: The manifest's file.
        compare: What is compared besides the rows that changed.

    Raises:
        HandoffMissing: No handoff is committed for the live generation.
        CampaignActive: A campaign of the same target is at work.
        Interrupted: SIGINT or SIGTERM.
    """
    spec, connector = open_route(manifest)
    let_signals_interrupt()
    prove_home()
    prove_gate(spec, connector)

    job = increment_job_name(spec)
    log = start_steps(job)
    from dpone_dagster.assets.incremental import comparing
    from dpone_dagster.cli.dagster_run import JobRequest, run_job

    request = JobRequest(manifest.path.resolve(), job, "increment", log, comparing(spec, compare), manifest.options)
    with waiting(f"{spec.dataset}: increment at work"):
        end = run_job(request)
    if end.interrupted:
        raise Interrupted(f"run {end.run_id} of {spec.dataset} was told to stop; its transaction was rolled back")
    failures = [{**f.as_dict(), "next_step": pasteable(f.advice, manifest)} for f in end.failures]
    held = any(failure.code == CampaignActive.code for failure in end.failures)
    rows = tuple((f["place"], f["code"], f["message"], f["next_step"]) for f in failures)
    done = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in end.facts.items())
    return Report(
        headline=f"{spec.dataset}: increment {'done' if end.success else 'FAILED'}{': ' if done else ''}{done}",
        data={
            "outcome": "done" if end.success else "failed",
            "run_id": end.run_id,
            "log": str(end.log),
            "increment": dict(end.facts),
            "failures": failures,
        },
        tables=(Table(("where", "code", "what", "advice"), rows),) if rows else (),
        notes=(f"Dagster's log: {end.log}",),
        next_commands=(command("increment", "status", manifest),),
        exit_code=_exit_code(success=end.success, held=held),
    )


def _exit_code(*, success: bool, held: bool) -> int:
    if success:
        return 0
    return CampaignActive.exit_code if held else 1
