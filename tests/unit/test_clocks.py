"""No clock of a host decides anything: a worker that is ten minutes off claims, renews and expires as all others do."""

from __future__ import annotations

import ast
from pathlib import Path

import dpone_dagster

ROOT = Path(dpone_dagster.__file__).parent
WALL_CLOCKS = {("time", "time"), ("datetime", "now"), ("datetime", "utcnow"), ("date", "today"), ("datetime", "today")}
# Evidence of a rewind, a card and a report name when they were made, a log's name when it was begun; nothing reads them
# back. Doctor says how far the clocks are apart.
SHOWN_ONLY = {
    "engine/rewind.py": 2,
    "engine/card.py": 1,
    "engine/report.py": 3,
    "engine/surroundings.py": 1,
    "cli/ahead.py": 1,
}
# A state file is of one machine, whose clock is the only one; who may write is decided by the server's locks there too.
OF_A_FILE = {"files/filerows.py": 1}


def wall_clock_calls(source: str) -> int:
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return sum((getattr(c.value, "id", getattr(c.value, "attr", "")), c.attr) in WALL_CLOCKS for c in calls)


def test_no_wall_clock_of_the_client_is_read() -> None:
    found = {str(path.relative_to(ROOT)): wall_clock_calls(path.read_text()) for path in ROOT.rglob("*.py")}
    assert {name: count for name, count in found.items() if count} == SHOWN_ONLY | OF_A_FILE


def test_the_search_finds_one() -> None:
    assert wall_clock_calls("import time\nfrom datetime import datetime\nx = time.time(), datetime.now()") == 2
