"""What on a SQL Server is the demo's own: tables that it knows, in schemas that carry its mark. It touches no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from demo.orders import OLD_ROWS, OLD_SINCE
from dpone_dagster.campaign.errors import Finding, Refused
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.mssql.catalog import GENERATION_PROPERTY, OWNER_PROPERTY
from dpone_dagster.mssql.quoting import literal, quoted, quoted_table
from dpone_dagster.mssql.session import UNBOUNDED, Session

# An extended property of a schema, since one of a table would be lost by the swap and is therefore refused.
# Its value is the object id of the first live table; the later ones are known by dpone's own properties.
MARK = "dpone_demo"
_STATE_PREFIX = "__dpone__"
_STAGE_PREFIX = "__dpone_stage_"
_CAMPAIGNS = "__dpone__backfill_campaigns"
_SECONDS = 60

_SCHEMAS = """
    SELECT s.name, CAST(p.value AS nvarchar(40)), CASE WHEN p.name IS NULL THEN 0 ELSE 1 END
    FROM sys.schemas AS s
    LEFT JOIN sys.extended_properties AS p ON p.class = 3 AND p.major_id = s.schema_id AND p.name = ?
    WHERE s.name IN (?, ?)
"""
_OBJECTS = """
    SELECT s.name, o.name, RTRIM(o.type), o.object_id,
           (SELECT COUNT(*) FROM sys.extended_properties AS p
            WHERE p.class = 1 AND p.major_id = o.object_id AND p.minor_id = 0 AND p.name IN (?, ?))
    FROM sys.objects AS o
    JOIN sys.schemas AS s ON s.schema_id = o.schema_id
    WHERE s.name IN (?, ?) AND o.parent_object_id = 0
"""
_COLUMNS = """
    id uniqueidentifier NOT NULL,
    amount decimal(18,2) NULL,
    placed_at datetimeoffset(6) NOT NULL,
    note nvarchar(100) NULL,
    paid bit NOT NULL,
    detail nvarchar(max) NOT NULL
"""
_OLD_ORDERS = """
    WITH digit AS (SELECT d FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS v (d)),
         number AS (
             SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * g.d AS n
             FROM digit AS a CROSS JOIN digit AS b CROSS JOIN digit AS c
             CROSS JOIN digit AS e CROSS JOIN digit AS f CROSS JOIN digit AS g
         )
    INSERT INTO {table} (id, amount, placed_at, note, paid, detail)
    SELECT NEWID(), n / 100.0, DATEADD(second, n * 31, CAST({since} AS datetimeoffset(6))),
           CONCAT(N'old order ', n), n % 2, CONCAT(N'{{"n": ', n, N'}}')
    FROM number WHERE n < {rows}
"""


class NotTheDemos(Refused):
    """Where the demo would write, something stands that it did not make."""

    code = "DEMO_REFUSED"
    next_step = "Name a database that is the demo's alone (an empty one will do), then run `make demo-mssql` again."


@dataclass(frozen=True)
class _Object:
    """Something in one of the demo's schemas."""

    ref: TableRef
    kind: str
    object_id: int
    from_dpone: bool


class Ground:
    """The two schemas in which the demo works.

    Args:
        spec: The demo's campaign, whose names these are.
    """

    def __init__(self, spec: CampaignSpec) -> None:
        self._spec = spec
        self._schemas = (spec.target.schema, spec.state.schema)

    def leftovers(self, session: Session) -> list[TableRef]:
        """The tables of an earlier run.

        Args:
            session: On the database.

        Raises:
            NotTheDemos: A schema, or a table whose name is needed, is somebody else's; or somebody's campaign keeps
                its state here. Names all of them.
        """
        marks = {name: mark if marked else None for name, mark, marked in session.rows(_SCHEMAS, MARK, *self._schemas)}
        findings = [
            Finding(name, f"is a schema that this demo did not make (it has no extended property `{MARK}`)")
            for name in sorted(marks)
            if marks[name] is None
        ]
        objects = [] if findings else self._objects(session)
        mine = [found for found in objects if self._is_mine(found, marks.get(found.ref.schema))]
        findings += self._in_the_way(objects, mine)
        if not findings:
            findings += self._other_campaigns(session, mine)
        if findings:
            raise NotTheDemos("the database holds what this demo did not make, so it was left alone", findings=findings)
        return [found.ref for found in mine]

    def provision(self, session: Session) -> None:
        """Drop the leftovers and make the live table, in one transaction; then fill it with an older generation.

        Args:
            session: On the database.

        Raises:
            NotTheDemos: As `leftovers`.
        """
        live = quoted_table(self._spec.target)
        with session.transaction():
            for table in self.leftovers(session):
                session.execute(f"DROP TABLE {quoted_table(table)}", seconds=_SECONDS)
            for schema in dict.fromkeys(self._schemas):
                _own_schema(session, schema)
            session.execute(f"CREATE TABLE {live} ({_COLUMNS})")
            object_id = session.value("SELECT OBJECT_ID(?)", live)
            _mark(session, "sp_updateextendedproperty", self._spec.target.schema, str(object_id))
        old_orders = _OLD_ORDERS.format(table=live, since=literal(f"{OLD_SINCE} 00:00:00 +00:00"), rows=OLD_ROWS)
        session.execute(old_orders, seconds=UNBOUNDED)
        session.execute(f"CREATE UNIQUE INDEX orders_id ON {live} (id)", seconds=UNBOUNDED)
        session.execute(f"CREATE INDEX orders_placed_at ON {live} (placed_at)", seconds=UNBOUNDED)

    def _objects(self, session: Session) -> list[_Object]:
        rows = session.rows(_OBJECTS, OWNER_PROPERTY, GENERATION_PROPERTY, *self._schemas)
        return [_Object(TableRef(schema, name), kind, oid, bool(own)) for schema, name, kind, oid, own in rows]

    def _is_mine(self, found: _Object, mark: str | None) -> bool:
        if found.kind != "U":
            return False
        if found.ref.schema == self._spec.state.schema and found.ref.name.startswith(_STATE_PREFIX):
            return True
        if found.ref in self._names():
            return found.from_dpone or str(found.object_id) == mark
        return found.ref.schema == self._spec.target.schema and found.ref.name.startswith(_STAGE_PREFIX)

    def _names(self) -> tuple[TableRef, ...]:
        return self._spec.target, self._spec.shadow, self._spec.backup

    def _in_the_way(self, objects: Sequence[_Object], mine: Sequence[_Object]) -> Iterator[Finding]:
        for found in objects:
            if found.ref in self._names() and found not in mine:
                yield Finding(str(found.ref), "is in the way, and this demo did not make it")

    def _other_campaigns(self, session: Session, mine: Sequence[_Object]) -> Iterator[Finding]:
        table = TableRef(self._spec.state.schema, _CAMPAIGNS)
        if table not in (found.ref for found in mine):
            return
        query = f"SELECT DISTINCT dataset FROM {quoted_table(table)} WHERE run_key <> ? ORDER BY dataset"
        for (dataset,) in session.rows(query, self._spec.run_key):
            yield Finding(str(table), f"holds the state of another campaign, `{dataset}`")


def _own_schema(session: Session, schema: str) -> None:
    if not session.value("SELECT COUNT(*) FROM sys.schemas WHERE name = ?", schema):
        # CREATE SCHEMA has to be alone in its batch.
        session.execute(f"EXEC ({literal(f'CREATE SCHEMA {quoted(schema)}')})")
        _mark(session, "sp_addextendedproperty", schema, "")


def _mark(session: Session, procedure: str, schema: str, value: str) -> None:
    session.execute(f"EXEC {procedure} {literal(MARK)}, {literal(value)}, N'SCHEMA', {literal(schema)}")
