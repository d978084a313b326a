"""The `dpone` command: parse, call, print, exit. Starts fast: what a command needs is imported when it runs."""

from __future__ import annotations


def main() -> None:
    """Entry point of the `dpone` script."""
    from dpone_dagster.cli.commands import dpone

    dpone(prog_name="dpone")
