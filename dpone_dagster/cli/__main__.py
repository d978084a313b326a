"""`python -m dpone_dagster.cli` is the `dpone` command too."""

from __future__ import annotations

from dpone_dagster.cli import main

if __name__ == "__main__":
    main()
