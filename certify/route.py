"""The route that is certified: its two ends, its manifest, and what a command has to see in its environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from certify.ground import Target
from certify.on_postgres import PostgresSource, PostgresTarget
from certify.orders import LIVE, SOURCE, STATE_SCHEMA
from certify.parameters import Asked, CertifyRefused
from demo.mssql_server import STAND_IN, URL_VARIABLE, MssqlServer, named_server, start_stand_in
from demo.place import start_server
from dpone_dagster.campaign.errors import Finding
from dpone_dagster.connections import ENVIRONMENT_PREFIX, Connections, ServerKind
from dpone_dagster.faultpoints import ALLOW_VARIABLE, FAULT_VARIABLE, MARKS_VARIABLE

_OWN_SOURCE, _OWN_TARGET = "certify_source", "certify_target"
_DATABASE = "dpone_certify"
_POSTGRES, _MSSQL = "postgres", "mssql"
_FAULTS = (ALLOW_VARIABLE, FAULT_VARIABLE, MARKS_VARIABLE)


@dataclass(frozen=True)
class Route:
    """Both ends, open.

    Attributes:
        source: Where the rows come from.
        target: Where they go.
        environment: For the commands, `own` included.
        own: URLs of databases that were made here, by connection_ref.
    """

    source: PostgresSource
    target: Target
    environment: Mapping[str, str]
    own: Mapping[str, str]

    def prove_free(self) -> None:
        """Nothing stands where the certification would work.

        Raises:
            CertifyRefused: Names every schema that does.
        """
        findings = [
            Finding(f"{schema} ({ground.server.connection_ref})", "is a schema that is there already")
            for ground in (self.source, self.target)
            for schema in ground.taken()
        ]
        if findings:
            raise CertifyRefused(
                "the certification works in schemas of its own, and those are taken; nothing was touched",
                findings=findings,
                next_step="Drop them if they are left from `make certify KEEP=1` or from one that was killed.",
            )

    def manifest(self, asked: Asked) -> dict[str, Any]:
        """The campaign's manifest."""
        target = self.target.server
        return {
            "name": "certify",
            "source": {
                "type": "postgres",
                "connection_ref": self.source.server.connection_ref,
                "table": {"schema": SOURCE.schema, "name": SOURCE.name},
                "options": {
                    "incremental_strategy": "xmin",
                    "xmin_execution": {"mode": "initial", "handoff_id": "certify_v1"},
                },
            },
            "sink": {
                "type": target.kind,
                "connection_ref": target.connection_ref,
                "table": {"schema": LIVE.schema, "name": LIVE.name},
                "strategy": {
                    "mode": "backfill",
                    "unique_key": ["id"],
                    "only_new_rows": False,
                    "backfill": {
                        "inner_mode": "incremental_append",
                        "backfill_id": "certify_v1",
                        "parallel_workers": asked.lanes,
                        "state": {"backend": "audit_schema", "schema": STATE_SCHEMA, "require_distributed_lock": True},
                        "publication": {"mode": "shadow_swap", "artifact_scope": "campaign"},
                        "chunk": {"column": "id", "kind": "uuid", "buckets": asked.chunks},
                    },
                },
            },
            "state": {"type": target.kind, "connection_ref": target.connection_ref, "atomicity": "target_atomic"},
        }


@contextlib.contextmanager
def opened_route(asked: Asked, environ: Mapping[str, str]) -> Iterator[Route]:
    """Find the servers, or start those that are not named; both are reached before anything is made.

    Args:
        asked: What was asked for.
        environ: Where connections are named.

    Raises:
        ConnectionMissing: Nothing names a connection_ref.
        ConnectionInvalid: Its URL cannot be used.
        CertifyRefused: There is no SQL Server, or its database is taken.
        ServerUnreachable: A server does not answer.
        LoginRefused: A server refuses the login.
    """
    connections = Connections.from_environment(environ)
    source_ref, target_ref = asked.source or _OWN_SOURCE, asked.target
    own: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        if asked.source is None:
            own[_OWN_SOURCE] = stack.enter_context(_private_postgres(_OWN_SOURCE, asked.keep))
        if asked.target in (_POSTGRES, _MSSQL) and asked.target.upper() not in connections.urls:
            target_ref, private = _OWN_TARGET, _private_postgres if asked.target == _POSTGRES else _private_mssql
            own[_OWN_TARGET] = stack.enter_context(private(_OWN_TARGET, asked.keep))
        environment = {name: value for name, value in environ.items() if name not in _FAULTS}
        environment |= {f"{ENVIRONMENT_PREFIX}{ref.upper()}": url for ref, url in own.items()}
        connections = Connections.from_environment(environment)
        source = PostgresSource(source_ref, connections.url(source_ref, "postgres").reveal())
        stack.callback(source.close)
        target = _target(target_ref, connections)
        stack.callback(target.close)
        yield Route(source, target, environment, own)


def _target(ref: str, connections: Connections) -> Target:
    known = connections.urls.get(ref.upper())
    kind: ServerKind = "mssql" if known is not None and known.scheme == "mssql" else "postgres"
    url = connections.url(ref, kind).reveal()
    if kind == "postgres":
        return PostgresTarget(ref, url)
    from certify.on_mssql import MssqlTarget  # its drivers are an extra

    return MssqlTarget(ref, url)


@contextlib.contextmanager
def _private_postgres(database: str, keep: bool) -> Iterator[str]:
    """A database of the demos' PostgreSQL, which only they and this use."""
    server = start_server()
    try:
        yield server.recreate(database)
    finally:
        if not keep:
            server.drop(database)


@contextlib.contextmanager
def _private_mssql(_: str, keep: bool) -> Iterator[str]:
    """A database of its own on the SQL Server of the tests."""
    with contextlib.closing(_test_server()) as server:
        if server.has(_DATABASE):
            raise CertifyRefused(
                f"there is a database {_DATABASE} already; nothing was touched",
                next_step="Drop it if it is left from `make certify KEEP=1` or from one that was killed.",
            )
        try:
            yield server.create(_DATABASE)
        finally:
            if not keep:
                server.drop(_DATABASE)


def _test_server() -> MssqlServer:
    if url := os.environ.get(URL_VARIABLE):
        return named_server(url)
    if STAND_IN.exists():
        return start_stand_in()
    raise CertifyRefused(
        "there is no SQL Server for TARGET=mssql",
        next_step="Set DPONE_CONNECTION_MSSQL_DWH=mssql://user:secret@host:1433/database?encrypt=yes to a database in "
        f"which the login may create schemas, and run `make certify TARGET=mssql_dwh`; or set {URL_VARIABLE}.",
    )
