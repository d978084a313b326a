"""`make stop`: stop the demo's server, if it runs."""

from __future__ import annotations

from demo.embedded import stop_server
from demo.place import data_dir


def main() -> None:
    """Stop it."""
    if stop_server(data_dir()):
        print("the demo's server is stopped")


if __name__ == "__main__":
    main()
