#!/bin/sh
# Creates .venv with the pinned dependencies: by uv if it is there, else by venv and pip. `make setup` calls it.
set -eu
cd "$(dirname "$0")"

usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "setup: no Python from 3.11 to 3.14 with venv and pip was found (tried ${PYTHON:-python3, python3.11 to .14})." >&2
    echo "  next: install one (Debian: apt-get install python3 python3-venv), or name it: make setup PYTHON=/path/to/python" >&2
    exit 2
}

with_uv() {
    UV_PROJECT_ENVIRONMENT=.venv uv sync --quiet --frozen --inexact --extra ui --extra mssql --python "$1"
}

with_pip() {
    # A half-made or too old environment is made anew; one without pip (made by uv) gets it.
    usable .venv/bin/python || "$1" -m venv --clear .venv
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
    # The lock names every package, so pip has nothing to resolve.
    .venv/bin/python -m pip install --quiet --no-deps --require-hashes --requirement requirements.lock
    # The build backend is pinned among the requirements, so nothing unpinned is fetched here.
    .venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
}

# SQL Server's driver needs libodbc.so.2; nothing else does, so this is tried where it may be, and never fails.
offer_unixodbc() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! ldconfig -p 2>/dev/null | grep -q 'libodbc\.so\.2'; then
        echo "setup: installing Debian's unixodbc for the SQL Server driver"
        { DEBIAN_FRONTEND=noninteractive timeout 120 apt-get install -qq -y --no-install-recommends unixodbc ||
            { timeout 120 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 120 apt-get install -qq -y --no-install-recommends unixodbc; }
        } >/dev/null 2>&1 || echo "setup: unixodbc could not be installed; only SQL Server routes need it"
    fi
}

python=$(find_python)
echo "setup: .venv with $("$python" --version) (a minute or two the first time)"
if command -v uv >/dev/null; then with_uv "$python"; else with_pip "$python"; fi
offer_unixodbc
echo "setup: ready, .venv/bin/dpone"
