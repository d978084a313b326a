"""`make ui`: Dagster's UI over `campaigns/`; while that is empty, over the demo's campaign if the demo was run."""

from __future__ import annotations

import os
import sys

from demo.place import CONNECTIONS, DAGSTER_HOME, MANIFEST, ROOT, environment, start_server, write_connections
from dpone_dagster.cli.dagster_run import prepare_home
from dpone_dagster.settings import MANIFESTS_VARIABLE, manifest_paths

_ADDRESS = ["--host", "127.0.0.1", "--port", "3000"]


def main() -> None:
    """Become `dagster dev`."""
    os.chdir(ROOT)
    os.environ["DAGSTER_HOME"] = str(DAGSTER_HOME)
    if MANIFESTS_VARIABLE not in os.environ and not manifest_paths({}, ROOT) and CONNECTIONS.exists():
        write_connections(start_server())
        os.environ.update(environment(os.environ))
        os.environ[MANIFESTS_VARIABLE] = str(MANIFEST)
        print(f"showing the demo's campaign ({MANIFEST}), since campaigns/ is empty; `make stop` stops its server")
    prepare_home()
    command = [sys.executable, "-m", "dagster", "dev", "--workspace", "workspace.yaml", *_ADDRESS, *sys.argv[1:]]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    main()
