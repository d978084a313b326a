"""Finds out which rights a login lacks, before anything is touched. What each is for is in docs/sqlserver.md."""

from __future__ import annotations

from dpone_dagster.campaign.errors import Finding, RightsMissing
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.queries import load
from dpone_dagster.mssql.session import Session

_ADVICE = "GRANT {permission}{securable} TO the login's role; deploy/mssql/setup.sql grants all that is needed"


def missing_rights(session: Session, table: TableRef, state_schema: str) -> list[Finding]:
    """Rights that a campaign needs and this login lacks.

    Rights on the schemas, not on tables: a publication makes another table the live one, and grants do not follow.

    Args:
        session: The target's session.
        table: The live table.
        state_schema: Where the state tables are, or will be; empty where there are none.
    """
    state_schema = state_schema or table.schema
    rows = session.rows(load("rights.sql")["lacking"], state_schema, table.schema, state_schema)
    return [_finding(place, permission) for place, permission in rows]


def unseen_campaigns(state_schema: str, table: TableRef) -> RightsMissing:
    """The refusal where nobody can tell whether a campaign of the table is at work.

    Args:
        state_schema: Whose state tables may not be read.
        table: The live table.
    """
    campaigns = f"{state_schema}.__dpone__backfill_campaigns"
    finding = Finding(f"table {campaigns}", "the login lacks SELECT", f"GRANT SELECT ON {campaigns} TO the login")
    problem = f"schema {state_schema} may hold campaigns of {table}, and may not be read"
    return RightsMissing(problem, findings=[finding])


def lacking(permission: str, problem: str) -> RightsMissing:
    """The refusal where a session cannot be ended.

    Args:
        permission: The server's right that allows it.
        problem: What failed.
    """
    advice = f"USE master; GRANT {permission} TO the login, or let somebody who has it run this command"
    return RightsMissing(problem, findings=[Finding("server", f"the login lacks {permission}", advice)])


def _finding(place: str, permission: str) -> Finding:
    kind, _, name = place.partition(" ")
    securable = f" ON SCHEMA::{name}" if kind == "schema" else ""
    return Finding(place, f"the login lacks {permission}", _ADVICE.format(permission=permission, securable=securable))
