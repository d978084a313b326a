"""`dpone backfill release`: who holds a lock, or the end of that session on somebody's word."""

from __future__ import annotations

from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.looking import open_campaign
from dpone_dagster.cli.report import Report, Table, command
from dpone_dagster.engine.release import Release, preview_release, release


def release_preview(manifest: Asked, chunk_index: int | None) -> Report:
    """Whose sessions a release would end now."""
    found = preview_release(*open_campaign(manifest), chunk_index)
    which = () if chunk_index is None else ("--chunk", str(chunk_index))
    return Report(
        headline=f"preview, nothing was touched. {_sessions(found)} would be ended on the server",
        data={"preview": True, **found.as_dict()},
        tables=(_table(found),),
        notes=(
            "A process that works is only slowed down by it. Be sure that this one does not: look at its host, and at "
            "the login time.",
        ),
        next_commands=(command("backfill", "release", manifest, *which, "--yes", "--approved-by", "NAME"),),
    )


def release_report(manifest: Asked, chunk_index: int | None, approved_by: str) -> Report:
    """End the sessions and report what is still held."""
    done = release(*open_campaign(manifest), chunk_index, approved_by)
    headline = f"{done.what} is released: {_sessions(done)} ended"
    if done.left:
        headline = f"{_sessions(done)} told to end, but the server is still rolling back: look again"
    return Report(
        headline=headline,
        data={"preview": False, **done.as_dict(), "approved_by": approved_by},
        tables=(_table(done),),
        next_commands=(command("backfill", "status" if done.left else "resume", manifest),),
        exit_code=1 if done.left else 0,
    )


def _sessions(release: Release) -> str:
    number = len({holder.session_id for holder in release.holders})
    return f"{number} session{'' if number == 1 else 's'}"


def _table(release: Release) -> Table:
    return Table(("held by",), tuple((str(holder),) for holder in release.holders))
