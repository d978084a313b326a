"""`dpone backfill report`: the campaign as one HTML file."""

from __future__ import annotations

import os
import tempfile
from importlib.metadata import version
from pathlib import Path

from dpone_dagster.campaign.chunkadvice import advice_on_chunk
from dpone_dagster.campaign.errors import OutputUnwritable
from dpone_dagster.cli.asked import Asked
from dpone_dagster.cli.looking import headline, open_campaign, report_of
from dpone_dagster.cli.report import Report, pasteable
from dpone_dagster.engine.report import campaign_report
from dpone_dagster.report.page import Advice, render
from dpone_dagster.report.verdict import verdict_of


def html_report(manifest: Asked, output: Path | None) -> Report:
    """Write the campaign's report and say where it is.

    Args:
        manifest: The manifest.
        output: Where to; None for `<name>-report.html` in this folder.

    Raises:
        OutputUnwritable: The file cannot be written.
    """
    spec, connector = open_campaign(manifest)
    found = campaign_report(spec, connector)
    advice = Advice(
        str(manifest.path),
        version("dpone-dagster"),
        lambda text: pasteable(text, manifest),
        lambda code: advice_on_chunk(spec, code),
    )
    page = render(found, advice).encode()
    path = output or Path(f"{spec.dataset}-report.html")
    _write(path, page)
    verdict = verdict_of(found.status)
    seen = report_of(found.status, manifest)
    return Report(
        headline=f"{headline(found.status)} → {path}",
        data={"output": str(path), "bytes": len(page), "verdict": verdict.word, **seen.data},
        notes=(f"{verdict.word}. {verdict.sentence}", *seen.notes),
        next_commands=seen.next_commands,
    )


def _write(path: Path, page: bytes) -> None:
    """Put the file in place whole or not at all; a pipe or a device is written to as it is."""
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(page)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            whole = Path(folder) / path.name
            whole.write_bytes(page)
            os.replace(whole, path)
    except OSError as error:
        raise OutputUnwritable(f"the report cannot be written to {path}: {error.strerror}") from None
