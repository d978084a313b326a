"""Proves T-SQL readable without a server, and tells which shapes of it the product sends.

sqlglot keeps what it does not understand as an unparsed command, which proves nothing. So such statements are listed
here one by one, each with statements that sqlglot does understand and that hold the same parts.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from dpone_dagster import mssql
from dpone_dagster.mssql import session, snapshot
from tests import mssql_corpus

_TAG = re.compile(r"/\* dpone:(\w+)")
_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_COLLATION = re.compile(r"COLLATE \w+")  # a name, though without brackets
_TOKEN = re.compile(r"N?'(?:[^']|'')*'|\[(?:[^\]]|\]\])*\]|0x[0-9A-Fa-f]+|\d+|[@#]*\w+|\S")
_PACKAGE = str(Path(mssql.__file__).parent)
_OWN = {session.__file__, __file__}

Rewriting = Callable[[str], list[str]]


def _index(text: str) -> list[str]:
    """A filter or options after a UNIQUE index's columns: the filter by itself, the rest without it."""
    predicate = re.search(r" WHERE (.*?)(?= WITH \(|$)", text)
    rest = text.replace(predicate[0], "") if predicate else text
    return [rest.replace(" NONCLUSTERED", ""), *([f"SELECT 1 FROM [t] WHERE {predicate[1]}"] if predicate else [])]


def _statistics(text: str) -> list[str]:
    made, options = text.rsplit(" WITH ", 1)
    assert options in ("FULLSCAN", "FULLSCAN, NORECOMPUTE")
    return _index(made.replace("CREATE STATISTICS", "CREATE INDEX"))


def _reorganize(text: str) -> list[str]:
    return [text.replace("ALTER INDEX", "CREATE INDEX").replace("REORGANIZE", "([x])")]


def _executed(text: str) -> list[str]:
    inner = re.fullmatch(r"EXEC \(N'(CREATE SCHEMA \[.*\])'\)", text)
    assert inner, text
    return [inner[1].replace("''", "'")]


# Statements that sqlglot 30 does not understand, by their tag, and why not. A new one fails until it is listed.
NOT_UNDERSTOOD: Mapping[str, Rewriting] = {
    "build_index": _index,  # a filter and options on a UNIQUE NONCLUSTERED index
    "build_statistics": _statistics,  # CREATE STATISTICS
    "drop_statistics": lambda text: [text.replace("DROP STATISTICS", "DROP TABLE")],  # the same kind of name
    "seal_columnstore": _reorganize,  # ALTER INDEX
    "begin_snapshot": lambda text: [text.replace("SNAPSHOT", "READ COMMITTED")],  # that level
    "create_state_schema": _executed,  # EXEC of a text
}


def tag_of(statement: str) -> str:
    """The name after `dpone:`; empty for a statement that carries none."""
    found = _TAG.search(statement)
    return found[1] if found else ""


@functools.cache
def prove_readable(statement: str) -> None:
    """Parse a statement; fails where it has a slip, and where sqlglot does not understand it and it is not listed."""
    tag = tag_of(statement)
    try:
        _parse(statement)
    except (sqlglot.errors.ParseError, AssertionError):
        if tag not in NOT_UNDERSTOOD:
            raise
        for part in NOT_UNDERSTOOD[tag](_COMMENT.sub("", statement).strip().replace("EXEC  (", "EXEC (")):
            _parse(part)


def _parse(statement: str) -> None:
    for tree in sqlglot.parse(statement, dialect="tsql"):
        assert tree is not None, "nothing to parse"
        commands = [command.sql() for command in tree.find_all(exp.Command)]
        assert not commands, f"sqlglot does not understand {commands}"


def shape_of(statement: str) -> frozenset[tuple[str, str]]:
    """Which word may follow which: equal for all lengths of a list, and for all names, texts and numbers."""
    text = _COLLATION.sub("COLLATE []", _COMMENT.sub(" ", statement))
    tokens = [_kind(token) for token in _TOKEN.findall(text)]
    return frozenset(pairwise(["", *tokens, ""]))


def _kind(token: str) -> str:
    if token[0] == "[":
        return "[]"
    if token.endswith("'"):
        return "''"
    return "0" if token[0].isdigit() else token.upper()


@functools.cache
def _known() -> Mapping[str, frozenset[tuple[str, str]]]:
    known: dict[str, frozenset[tuple[str, str]]] = {}
    for statement in mssql_corpus.statements():
        tag = tag_of(statement)
        known[tag] = known.get(tag, frozenset()) | shape_of(statement)
    return known


def missed_by_the_corpus(statements: Iterable[str]) -> list[str]:
    """Statements with something that `tests/mssql_corpus.py` lacks, so that no parse without a server saw it."""
    return [text for text in statements if not shape_of(text) <= _known().get(tag_of(text), frozenset())]


@dataclass
class Recorder:
    """Every distinct statement that the product, not a test, has sent in this process."""

    sent: dict[str, None] = field(default_factory=dict)

    def take(self, statement: str) -> None:
        """Note a statement if the product's own code is what sends it."""
        if _sent_by_the_product():
            self.sent.setdefault(statement.removesuffix(f"\n;{session._QUERIES['changed']}"))

    def prove(self) -> None:
        """Fail for what does not parse, and for what the corpus lacks."""
        statements, self.sent = list(self.sent), {}
        for statement in statements:
            prove_readable(statement)
        missed = missed_by_the_corpus(statements)
        assert not missed, f"tests/mssql_corpus.py lacks a statement of this shape: {missed[0]}"


def _sent_by_the_product() -> bool:
    frame = sys._getframe(1)
    while frame.f_code.co_filename in _OWN or "contextlib" in frame.f_code.co_filename:
        frame = frame.f_back or pytest.fail("a statement that nobody sends")
    return frame.f_code.co_filename.startswith(_PACKAGE)


def recording() -> Iterator[Recorder]:
    """Record while the block of the fixture runs."""
    recorder = Recorder()
    real, real_counted = session._execute, session.Session.changed_by

    def execute(cursor: Any, statement: str, values: Any) -> None:
        recorder.take(statement)
        real(cursor, statement, values)

    def changed_by(self: session.Session, statement: str, sizes: Any, values: Any) -> int:
        recorder.take(statement)
        return real_counted(self, statement, sizes, values)

    real_read = snapshot.SnapshotConnection._executed

    def read(self: snapshot.SnapshotConnection, statement: str) -> Any:
        recorder.take(statement)
        return real_read(self, statement)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot.SnapshotConnection, "_executed", read)
        patch.setattr(session, "_execute", execute)
        patch.setattr(session.Session, "changed_by", changed_by)
        yield recorder
    recorder.prove()
