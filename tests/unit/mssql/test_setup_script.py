"""The script that grants the rights, against the check that asks for them. UNVERIFIED on SQL Server."""

from __future__ import annotations

import re
from pathlib import Path

import sqlglot
from sqlglot import exp

from dpone_dagster.mssql.queries import load

ROOT = Path(__file__).parents[3]
SCRIPT = (ROOT / "deploy/mssql/setup.sql").read_text()
BATCHES = [batch.strip() for batch in re.split(r"^GO$", SCRIPT, flags=re.MULTILINE) if batch.strip()]
# sqlglot keeps these as unparsed commands: statements about logins and rights.
_RIGHTS = ("CREATE LOGIN", "CREATE USER", "CREATE ROLE", "ALTER ROLE", "GRANT", "EXECUTE AS", "REVERT")


def granted() -> set[str]:
    found = re.findall(r"^GRANT (.*?)(?: ON SCHEMA::\[\$\(dpone_(target|state)_schema\)\])? TO", SCRIPT, re.MULTILINE)
    return {f"{right}{f' on {schema}' if schema else ''}" for rights, schema in found for right in rights.split(", ")}


def asked_for() -> set[str]:
    check = load("rights.sql")["lacking"]
    on_schemas = set(re.findall(r"SELECT N'([A-Z]+)'", check.split("CROSS JOIN")[1]))
    on_database = set(re.findall(r"N'DATABASE', N'([A-Z ]+)'", check)) - {"CREATE SCHEMA"}  # the script makes it
    on_database |= set(re.findall(r"'DATABASE', '([A-Z ]+)'", load("catalog.sql")["sees_everything"])) - {"CONTROL"}
    return on_database | {f"{right} on {schema}" for right in on_schemas for schema in ("target", "state")}


def test_the_script_grants_what_the_check_asks_for_and_nothing_else() -> None:
    assert granted() == asked_for()
    assert len(granted()) == 12


def test_the_papers_explain_every_right() -> None:
    page = (ROOT / "docs/sqlserver.md").read_text()
    for right in granted():
        assert f"`{right.split(' on ')[0]}`" in page


def test_the_script_parses_but_for_statements_about_rights() -> None:
    for batch in BATCHES:
        code = "\n".join(line for line in batch.splitlines() if line and not line.startswith("--"))
        if code.startswith(_RIGHTS):
            continue
        for tree in sqlglot.parse(re.sub(r"\$\(\w+\)", "x", code), dialect="tsql"):
            for command in tree.find_all(exp.Command) if tree else ():
                assert command.sql().lstrip().startswith(_RIGHTS), command.sql()
