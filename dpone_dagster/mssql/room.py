"""What a SQL Server tells of its clock and its disks, as far as the login may ask.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-os-volume-stats-transact-sql
"""

from __future__ import annotations

from datetime import UTC

from dpone_dagster.campaign.errors import ConnectionLost, DponeError
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.queries import load
from dpone_dagster.mssql.quoting import quoted_table
from dpone_dagster.mssql.session import Session
from dpone_dagster.ports.target import ServerRoom

_FILE = "target.sql"


def room_of(session: Session, table: TableRef) -> ServerRoom:
    """Ask for each figure by itself: most logins may know some of them only.

    Args:
        session: Not in a transaction, which a refused question would end.
        table: The one whose size is asked for.
    """
    now = session.value(load(_FILE)["clock"]).replace(tzinfo=UTC)
    size = _told(session, "table_bytes", quoted_table(table))
    return ServerRoom(now, size, _told(session, "data_room"), _told(session, "log_room"))


def _told(session: Session, query: str, *values: object) -> int | None:
    try:
        number = session.value(load(_FILE)[query], *values)
    except ConnectionLost:
        raise
    except DponeError:
        return None
    return None if number is None else int(number)
