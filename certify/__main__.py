"""`make certify`. Exits 0 for PASS only: 1 FAIL, 2 refused before anything was touched, 4 INCOMPLETE, 5 UNVERIFIED."""

from __future__ import annotations

import os
import signal
import sys

from certify.certification import certify, exit_code_of
from certify.parameters import Asked
from certify.route import opened_route
from certify.terminal import show, show_kept
from demo.place import ROOT
from dpone_dagster.campaign.errors import DponeError, Interrupted

FOLDER = ROOT / ".dpone" / "certify"


def main() -> int:
    """Certify the route that the environment asks for."""
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started and made goes away then too
    try:
        asked = Asked.from_environment(os.environ)
        with opened_route(asked, os.environ) as route:
            report = certify(route, asked, FOLDER)
            show(report, FOLDER / "report.json")
            if asked.keep:
                show_kept(route, FOLDER)
    except DponeError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted: there is no report", file=sys.stderr)
        return Interrupted.exit_code
    return exit_code_of(report.verdict)


if __name__ == "__main__":
    sys.exit(main())
