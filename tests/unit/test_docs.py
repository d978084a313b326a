"""The generated pages say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import click
import psycopg
import pytest
import sqlglot

from docs.generate import FOLDER, pages
from dpone_dagster.cli.commands import dpone


@pytest.mark.parametrize("name", sorted(pages()))
def test_generated_pages_are_fresh(name: str) -> None:
    assert (FOLDER / name).read_text() == pages()[name], "run `python -m docs.generate`"


def test_links_between_papers_lead_somewhere() -> None:
    root = FOLDER.parent
    for page in [*root.glob("*.md"), *root.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.relative_to(root)} links to {link}"


def test_error_codes_are_unique() -> None:
    codes = re.findall(r"^\| `([A-Z_]+)` \|", Path(FOLDER / "errors.md").read_text(), re.MULTILINE)
    assert len(codes) == len(set(codes)) > 30


ROOT = FOLDER.parent
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]


def test_every_test_that_the_table_of_what_was_verified_names_is_there() -> None:
    rows = [line for line in (FOLDER / "verified.md").read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        _, guarantee, postgres, stand_in, server, _ = (cell.strip() for cell in row.split("|"))
        assert server == "UNVERIFIED", guarantee
        named = [(cell, *found) for cell in (postgres, stand_in) for found in re.findall(r"`(\S+)::(\w+)`", cell)]
        assert named, guarantee
        for cell, file_name, test in named:
            functions = (ROOT / file_name).read_text().split("\n\n\n")
            own = next((text for text in functions if f"def {test}(" in text), None)
            assert own, f"{guarantee}: there is no {file_name}::{test}"
            # A file's name or a test's fixtures and parameters tell on which server it runs; some run on both.
            runs_there = (
                re.search("contract/|local_gate|mssql|_any_|either", file_name + own)
                if cell is stand_in
                else "mssql" not in file_name
            )
            assert runs_there, guarantee


def test_every_command_in_the_papers_exists() -> None:
    printed = {found for page in PAGES for found in re.findall(r"dpone (?:[a-z]+ )+[^`\n|#]*", page.read_text())}
    assert len(printed) > 10
    for line in printed:
        words = line.split()[1:]
        command: click.Command = dpone
        while isinstance(command, click.Group) and words:
            found = command.commands.get(words[0])
            assert found is not None, f"`{line}`: there is no {words[0]}"
            command, words = found, words[1:]
        options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        wrong = {word for word in words if word.startswith("--")} - options
        assert not wrong, f"`{line}` has no {wrong}"


def sql_of(server: str) -> list[str]:
    blocks = [block for page in PAGES for block in re.findall(r"```sql\n(-- .*?)```", page.read_text(), re.DOTALL)]
    return [block for block in blocks if server in block.split("\n", 1)[0]]


@pytest.mark.parametrize(("server", "dialect"), [("PostgreSQL", "postgres"), ("SQL Server", "tsql")])
def test_sql_in_the_papers_parses(server: str, dialect: str) -> None:
    for block in sql_of(server):
        for tree in sqlglot.parse(block, dialect=dialect):
            for command in tree.find_all(sqlglot.exp.Command) if tree else ():
                assert command.sql(comments=False).split()[0] in {"CREATE", "GRANT", "KILL", "ALTER"}, command.sql()


def test_what_the_papers_ask_postgresql_is_answered(database: str) -> None:
    asked = [block for block in sql_of("PostgreSQL") if not re.search("CREATE|__dpone__|landing.orders_shadow", block)]
    assert len(asked) >= 3
    with psycopg.connect(database, autocommit=True) as connection:
        for block in asked:
            for statement in filter(str.strip, re.sub(r"^--.*$", "", block, flags=re.MULTILINE).split(";")):
                connection.execute(statement.encode())
