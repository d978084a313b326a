"""The DDL of shadows and swaps on SQL Server, as text: what is said, never when.

Deterministic: no name and no option is left to the server. Names are quoted by `quoting` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.columns import type_of
from dpone_dagster.mssql.facts import CLUSTERED_COLUMNSTORE, Catalog, IndexFacts, Row, StatisticsFacts
from dpone_dagster.mssql.quoting import literal, quoted, quoted_table


def create_table(table: TableRef, live: Catalog) -> Iterator[str]:
    """The statements that make an empty table with everything that the live table's `loadable()` tells."""
    columns = ",\n    ".join(_column(row) for row in live.column_rows)
    compressed = live.heap_compression not in (None, "NONE")
    options = f"\nWITH (DATA_COMPRESSION = {live.heap_compression})" if compressed else ""
    yield f"/* dpone:create_shadow */ CREATE TABLE {quoted_table(table)} (\n    {columns}\n){options}"
    if live.clustered is not None:
        yield create_index(table, live.clustered)
    # Lanes would otherwise wait for one another as soon as one of them holds some thousand row locks.
    yield lock_escalation(table, "DISABLE")


def _column(row: Row) -> str:
    collation = f" COLLATE {row['collation_name']}" if row["collation_name"] else ""
    return f"{quoted(row['name'])} {type_of(row)}{collation} {'NULL' if row['is_nullable'] else 'NOT NULL'}"


def lock_escalation(table: TableRef, mode: str) -> str:
    """Set how far row locks escalate: TABLE, AUTO or DISABLE."""
    return f"/* dpone:lock_escalation */ ALTER TABLE {quoted_table(table)} SET (LOCK_ESCALATION = {mode})"


def create_index(table: TableRef, index: IndexFacts) -> str:
    """Make one index as the live table has it, under the same name: it belongs to its table alone."""
    options = _with(index.options)
    target = f"{quoted(index.name)} ON {quoted_table(table)}"
    if index.kind == CLUSTERED_COLUMNSTORE:
        return f"/* dpone:build_index */ CREATE CLUSTERED COLUMNSTORE INDEX {target}{options}"
    kind = f"{'UNIQUE ' if index.unique else ''}{'CLUSTERED' if index.is_clustered else 'NONCLUSTERED'}"
    keys = ", ".join(f"{quoted(name)} {'DESC' if descending else 'ASC'}" for name, descending in index.keys)
    included = f" INCLUDE ({', '.join(map(quoted, index.included))})" if index.included else ""
    predicate = f" WHERE {index.predicate}" if index.predicate else ""
    return f"/* dpone:build_index */ CREATE {kind} INDEX {target} ({keys}){included}{predicate}{options}"


def _with(options: Mapping[str, str | int]) -> str:
    return f" WITH ({', '.join(f'{name} = {value}' for name, value in sorted(options.items()))})" if options else ""


def drop_index(table: TableRef, index: IndexFacts) -> str:
    """Drop one index."""
    return f"/* dpone:drop_index */ DROP INDEX {quoted(index.name)} ON {quoted_table(table)}"


def create_statistics(table: TableRef, statistics: StatisticsFacts) -> str:
    """Make one statistics object as the live table has it, from all rows."""
    columns = ", ".join(map(quoted, statistics.columns))
    predicate = f" WHERE {statistics.predicate}" if statistics.predicate else ""
    options = "FULLSCAN, NORECOMPUTE" if statistics.no_recompute else "FULLSCAN"
    name = f"{quoted(statistics.name)} ON {quoted_table(table)}"
    return f"/* dpone:build_statistics */ CREATE STATISTICS {name} ({columns}){predicate} WITH {options}"


def drop_statistics(table: TableRef, name: str) -> str:
    """Drop one statistics object."""
    return f"/* dpone:drop_statistics */ DROP STATISTICS {quoted_table(table)}.{quoted(name)}"


def seal_columnstore(table: TableRef, index: IndexFacts) -> str:
    """Compress every open row group, so that readers never meet a delta store."""
    target = f"{quoted(index.name)} ON {quoted_table(table)}"
    return f"/* dpone:seal_columnstore */ ALTER INDEX {target} REORGANIZE WITH (COMPRESS_ALL_ROW_GROUPS = ON)"


def rename_table(table: TableRef, name: str) -> str:
    """Give a table another name in its schema. The new name is bare: whatever it holds becomes part of it."""
    return (
        f"EXEC /* dpone:rename_table */ sp_rename @objname = {literal(quoted_table(table))}, "
        f"@newname = {literal(name)}, @objtype = N'OBJECT'"
    )


def drop_table(table: TableRef) -> str:
    """Drop a table."""
    return f"/* dpone:drop_table */ DROP TABLE {quoted_table(table)}"


def add_property(table: TableRef, name: str, value: str) -> str:
    """Give a table an extended property, which follows it through every renaming."""
    return (
        f"EXEC /* dpone:add_property */ sp_addextendedproperty @name = {literal(name)}, @value = {literal(value)}, "
        f"{_at(table)}"
    )


def drop_property(table: TableRef, name: str) -> str:
    """Take an extended property from a table."""
    return f"EXEC /* dpone:drop_property */ sp_dropextendedproperty @name = {literal(name)}, {_at(table)}"


def _at(table: TableRef) -> str:
    return (
        f"@level0type = N'SCHEMA', @level0name = {literal(table.schema)}, "
        f"@level1type = N'TABLE', @level1name = {literal(table.name)}"
    )
