"""Finds out which rights a login lacks, before anything is touched. What each is for is in docs/connections.md."""

from __future__ import annotations

from dpone_dagster.campaign.errors import Finding, RightsMissing
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.ports.target import Use
from dpone_dagster.postgres.queries import load
from dpone_dagster.postgres.session import Session, translated


def missing_rights(session: Session, table: TableRef, state_schema: str, use: Use = "publish") -> list[Finding]:
    """Rights that a campaign needs and this login lacks.

    Args:
        session: The target's session.
        table: The live table.
        state_schema: Where the state tables are, or will be; empty where there are none.
        use: `publish` swaps the table, which takes its owner; `write` puts rows into it, and stages them for a merge.
    """
    values = {"use": use, "schema": table.schema, "name": table.name, "state": state_schema}
    with translated():
        rows = session.connection.execute(load("rights.sql")["lacking"], values).fetchall()
    return [Finding(place, f"the login lacks {permission}", _advice(place, permission)) for place, permission in rows]


def lacking(role: str, problem: str) -> RightsMissing:
    """The refusal where a session of another login cannot be ended.

    Args:
        role: The server's own role that may.
        problem: What failed.
    """
    advice = f"GRANT {role} TO the login, or log in as whoever owns the session"
    return RightsMissing(problem, findings=[Finding("server", f"the login lacks {role}", advice)])


def unreadable(state_schema: str) -> RightsMissing:
    """The refusal where not even the version of the state tables may be read.

    Args:
        state_schema: Where they are.
    """
    advice = f"GRANT USAGE ON SCHEMA {state_schema}, and SELECT, INSERT, UPDATE ON its tables TO the login"
    finding = Finding(f"schema {state_schema}", "the login lacks USAGE, or SELECT on its tables", advice)
    return RightsMissing(f"the login may not read the state tables in schema {state_schema}", findings=[finding])


def unseen_campaigns(state_schema: str, table: TableRef) -> RightsMissing:
    """The refusal where nobody can tell whether a campaign of the table is at work.

    Args:
        state_schema: Whose state tables may not be read.
        table: The live table.
    """
    campaigns = f"{state_schema}.__dpone__backfill_campaigns"
    advice = f"GRANT USAGE ON SCHEMA {state_schema}, and SELECT ON {campaigns} TO the login"
    finding = Finding(f"table {campaigns}", "the login lacks USAGE on its schema, or SELECT", advice)
    problem = f"schema {state_schema} may hold campaigns of {table}, and may not be read"
    return RightsMissing(problem, findings=[finding])


def _advice(place: str, permission: str) -> str:
    if permission == "ownership":
        return f"make the login a member of the role that owns the {place}, or its owner"
    return f"GRANT {permission} ON {place} TO the login"
