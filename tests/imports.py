"""What a `dpone` command imports, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

READING_A_MANIFEST = frozenset(
    {"click", "yaml", "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
)
_PROGRAM = """
import gc, sys
from dpone_dagster.cli import main
def sweeps():
    return sum(of["collections"] for of in gc.get_stats())
gc.collect()  # or one may be due before the command has begun
before = sweeps()
try:
    main()
except SystemExit:
    pass
print(sweeps() - before, *sys.modules, file=sys.stderr)
"""
# Of the interpreter itself (the site, the virtual environment, the editable install), and of compiled modules.
_NOBODYS = (
    "__main__", "__editable__", "_distutils_hack", "_virtualenv", "sitecustomize", "usercustomize", "_sysconfigdata",
    "cython_runtime", "_cython_",
)  # fmt: skip


class Imported(NamedTuple):
    """What a command has imported.

    Attributes:
        packages: Of others.
        ours: Modules of our own.
        sweeps: How often Python looked for garbage meanwhile.
    """

    packages: set[str]
    ours: set[str]
    sweeps: int


def imported(words: Sequence[str], environment: Mapping[str, str]) -> Imported:
    """Run a command in a process of its own.

    Args:
        words: After `dpone`.
        environment: Of its process.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words], capture_output=True, text=True, check=True, env=environment
    )
    sweeps, *modules = done.stderr.splitlines()[-1].split()
    ours = {name for name in modules if name.partition(".")[0] == "dpone_dagster"}
    packages = {name.partition(".")[0] for name in modules} - {"dpone_dagster"} - sys.stdlib_module_names
    return Imported({name for name in packages if not name.startswith(_NOBODYS)}, ours, int(sweeps))
