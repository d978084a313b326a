"""Moments at which a process is told to stop; each is named by what has just happened.

Called in its process before the work starts; the process signals itself, so that it comes at that very moment.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import psycopg

from dpone_dagster.mssql.chunkwrite import ChunkWriter
from dpone_dagster.mssql.ledger import MssqlLedger
from dpone_dagster.mssql.session import Session as MssqlSession
from dpone_dagster.mssql.tables import MssqlTables
from dpone_dagster.postgres.chunkwrite import _Writer as PostgresWriter
from dpone_dagster.postgres.ledger import PostgresLedger
from dpone_dagster.postgres.tables import PostgresTables


def _told() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _announce(kind: Any, name: str, *, wait: bool) -> None:
    original = getattr(kind, name)

    def announced(*args: Any, **values: Any) -> Any:
        print("here", flush=True)
        if wait:
            sys.stdin.readline()
        return original(*args, **values)

    setattr(kind, name, announced)


def after_the_claim() -> None:
    for kind in (PostgresLedger, MssqlLedger):
        _tell_after(kind, "claim")


def _tell_after(kind: Any, name: str) -> None:
    original = getattr(kind, name)

    def telling(*args: Any, **values: Any) -> Any:
        result = original(*args, **values)
        _told()
        return result

    setattr(kind, name, telling)


def while_a_transaction_begins() -> None:
    _tell_in_psycopg(b"BEGIN ISOLATION LEVEL READ COMMITTED")
    original = MssqlSession.execute

    def execute(self: MssqlSession, statement: str, *values: object, **more: Any) -> None:
        original(self, statement, *values, **more)
        if "BEGIN TRANSACTION" in statement:
            _told()

    MssqlSession.execute = execute  # type: ignore[method-assign]


def while_the_chunk_commits() -> None:
    _tell_in_psycopg(b"COMMIT")
    _tell_after(MssqlSession, "_commit")


def _tell_in_psycopg(statement: bytes) -> None:
    """The statement is on its way and its answer is not read yet."""
    original = psycopg.Connection.execute
    armed = [False]

    def execute(self: Any, query: Any, *args: Any, **values: Any) -> Any:
        text = query.encode() if isinstance(query, str) else query if isinstance(query, bytes) else b""
        if armed[0] and text.startswith(statement):
            self.pgconn.send_query(text)
            _told()
        return original(self, query, *args, **values)

    psycopg.Connection.execute = execute  # type: ignore[method-assign]
    claim = PostgresLedger.claim

    def arming(self: PostgresLedger, *args: Any) -> Any:
        result = claim(self, *args)
        armed[0] = True
        return result

    PostgresLedger.claim = arming  # type: ignore[method-assign]


def announce_the_claim() -> None:
    for kind in (PostgresLedger, MssqlLedger):
        _announce(kind, "claim", wait=False)


def announce_the_write() -> None:
    _announce(PostgresWriter, "prove_table", wait=True)
    _announce(ChunkWriter, "_insert_rows", wait=True)


def announce_the_count() -> None:
    for kind in (PostgresTables, MssqlTables):
        _announce(kind, "count", wait=False)
