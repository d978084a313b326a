"""`make stop`: stop the demos' servers, as far as they run; `make clean` also removes the container's data."""

from __future__ import annotations

import sys

from demo.embedded import stop_server
from demo.on_mssql import compose
from demo.place import data_dir


def main(*, volumes: bool) -> None:
    """Stop them.

    Args:
        volumes: Remove the container's data too.
    """
    if stop_server(data_dir()):
        print("the demo's PostgreSQL is stopped")
    if compose().down(volumes=volumes):
        print("the demo's SQL Server is stopped")


if __name__ == "__main__":
    main(volumes="--volumes" in sys.argv[1:])
