"""The type table of each pair of servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dpone_dagster.campaign.typetable import TypeTable
from dpone_dagster.campaign.typetable_mssql import MSSQL
from dpone_dagster.campaign.typetable_mssql_to_mssql import MSSQL_TO_MSSQL
from dpone_dagster.campaign.typetable_mssql_to_postgres import MSSQL_TO_POSTGRES
from dpone_dagster.campaign.typetable_postgres import POSTGRES

Server = Literal["postgres", "mssql"]

_TABLES: Mapping[tuple[Server, Server], TypeTable] = {
    ("postgres", "postgres"): POSTGRES,
    ("postgres", "mssql"): MSSQL,
    ("mssql", "postgres"): MSSQL_TO_POSTGRES,
    ("mssql", "mssql"): MSSQL_TO_MSSQL,
}


def type_table(source: Server, target: Server) -> TypeTable:
    """Which type of the one has its exact home in which type of the other."""
    return _TABLES[source, target]
