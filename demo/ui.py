"""`make ui`: Dagster's UI over `campaigns/`; while that is empty, over the campaign of the demo that was run last."""

from __future__ import annotations

import os
import sys

from demo.on_mssql import OnMssql
from demo.on_postgres import OnPostgres
from demo.place import DAGSTER_HOME, ROOT, start_server
from demo.target import DemoTarget
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.cli.ahead import prepare_home
from dpone_dagster.settings import MANIFESTS_VARIABLE, manifest_paths

_ADDRESS = ["--host", "127.0.0.1", "--port", "3000"]


def main() -> None:
    """Become `dagster dev`."""
    os.chdir(ROOT)
    os.environ["DAGSTER_HOME"] = str(DAGSTER_HOME)
    target = _last_demo()
    if MANIFESTS_VARIABLE not in os.environ and not manifest_paths({}, ROOT) and target:
        try:
            _show(target)
        except DponeError as error:
            print(error, file=sys.stderr)
            sys.exit(error.exit_code)
    prepare_home()
    command = [sys.executable, "-m", "dagster", "dev", "--workspace", "workspace.yaml", *_ADDRESS, *sys.argv[1:]]
    os.execv(sys.executable, command)


def _last_demo() -> DemoTarget | None:
    demos: list[DemoTarget] = [OnPostgres(), OnMssql()]
    ran = [demo for demo in demos if demo.place.connections.exists()]
    return max(ran, key=lambda demo: demo.place.connections.stat().st_mtime, default=None)


def _show(target: DemoTarget) -> None:
    place = target.place
    target.reach()
    server = start_server()
    place.write_connections({"postgres_oltp": server.url(place.source_database), **target.urls(server)})
    place.enter()
    os.environ[MANIFESTS_VARIABLE] = str(place.manifest)
    print(f"showing the demo's campaign ({place.manifest}), since campaigns/ is empty; `make stop` stops its servers")


if __name__ == "__main__":
    main()
