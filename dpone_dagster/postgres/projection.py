"""The SELECT list of a chunk: casts into the target's types, with value guards inside the one COPY.

A guard is a CASE whose bad branch fails on a row-dependent cast of text to integer, so that PostgreSQL's own error
names column, reason and key digest. The text depends on the row, so the planner cannot fold it away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import psycopg
from psycopg import errors as pg
from psycopg import sql

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract, Guard
from dpone_dagster.campaign.errors import ValueNotRepresentable
from dpone_dagster.postgres import digests

_MARK = "dpone:"
_ERROR = re.compile(r'"dpone:(?P<column>.*):(?P<reason>[^:"]+):(?P<digest>[0-9a-f]{64})"', re.DOTALL)


def projection(contract: ColumnContract, digest_key: str, alias: str = "t") -> list[sql.Composable]:
    """One expression a column, in the contract's order, guarded and cast.

    Args:
        contract: The column contract.
        digest_key: Hexadecimal secret for key digests in error messages.
        alias: Of the source table in the statement.
    """
    row = keyed_row(contract, digest_key, alias)
    return [_guarded(column, row, alias) for column in contract.columns]


def plain(contract: ColumnContract, names: Sequence[str] | None = None, alias: str = "t") -> list[sql.Composable]:
    """Cast and not guarded: for digests, which must see every value as the target would.

    Args:
        contract: The column contract.
        names: Target columns, in this order; None for all.
        alias: Of the source table in the statement.
    """
    columns = {column.target: column for column in contract.columns}
    return [_cast(columns[name], alias) for name in names or columns]


def keyed_row(contract: ColumnContract, digest_key: str, alias: str) -> sql.Composed:
    """SQL that names a row in an error message, without its content."""
    return digests.keyed_digest(plain(contract, contract.key, alias), digest_key)


def nulled_counts(contract: ColumnContract, alias: str = "t") -> dict[str, sql.Composed]:
    """By target column with `on_bad_value: null`: an aggregate that counts what the projection sets to NULL."""
    return {
        column.target: sql.SQL("count(*) FILTER (WHERE {})").format(
            sql.SQL(" OR ").join(_bad(guard, _column(column, alias)) for guard in column.guards)
        )
        for column in contract.columns
        if column.on_bad_value == "null" and column.guards
    }


def refused_value(error: psycopg.Error) -> ValueNotRepresentable | None:
    """The guard's finding in a server's error, or None if it was no guard."""
    if not isinstance(error, pg.InvalidTextRepresentation):
        return None
    match = _ERROR.search(error.diag.message_primary or "")
    if match is None:
        return None
    return ValueNotRepresentable(
        f"column {match['column']}: {match['reason']} does not fit the target (key digest {match['digest'][:16]})"
    )


def _column(column: ColumnBinding, alias: str) -> sql.Composable:
    return sql.Identifier(alias, column.source)


def _cast(column: ColumnBinding, alias: str) -> sql.Composable:
    value = _column(column, alias)
    if column.cast is None:
        return value
    if column.cast in ("to_json", "to_jsonb"):
        return sql.SQL("{}({})").format(sql.SQL(column.cast), value)
    return sql.SQL("CAST({} AS {})").format(value, _type(column.cast))


def _type(name: str) -> sql.Composable:
    kind, _, arguments = name.partition("(")
    return sql.SQL("pg_catalog.{}{}").format(sql.Identifier(kind), sql.SQL(f"({arguments}" if arguments else ""))


def _guarded(column: ColumnBinding, row: sql.Composable, alias: str) -> sql.Composable:
    if not column.guards:
        return _cast(column, alias)
    branches = [
        sql.SQL("WHEN {} THEN {}").format(_bad(guard, _column(column, alias)), _refusal(column, guard, row, alias))
        for guard in column.guards
    ]
    return sql.SQL("CASE {} ELSE {} END").format(sql.SQL(" ").join(branches), _cast(column, alias))


def _refusal(column: ColumnBinding, guard: Guard, row: sql.Composable, alias: str) -> sql.Composable:
    if column.on_bad_value == "null":
        return sql.SQL("NULL")
    text = sql.Literal(f"{_MARK}{column.source}:{guard.reason}:")
    # nullif gives the branch the column's own type; it is never reached, since the cast before it fails.
    return sql.SQL("CASE WHEN ({} || {})::integer IS NULL THEN NULL ELSE {} END").format(
        text, row, _cast(column, alias)
    )


def _bad(guard: Guard, value: sql.Composable) -> sql.Composable:
    """SQL that is true where the value does not fit; never true for NULL."""
    if guard.check == "numeric":
        precision, scale = (int(n) for n in guard.args)
        # NaN has its exact home in a numeric of any precision; infinity has none.
        return sql.SQL(
            "({v} <> 'NaN' AND ({v}::text IN ('Infinity', '-Infinity') OR round({v}, {s}) <> {v} OR abs({v}) >= {top}))"
        ).format(v=value, s=sql.Literal(scale), top=sql.SQL(f"(10::numeric ^ {precision - scale})"))
    if guard.check == "integral":
        low, high = (int(n) for n in guard.args)
        return sql.SQL(
            "({v}::numeric = 'NaN' OR {v}::text IN ('Infinity', '-Infinity') OR trunc({v}::numeric) <> {v} "
            "OR {v} < {low} OR {v} > {high})"
        ).format(v=value, low=sql.SQL(f"({low})::numeric"), high=sql.SQL(f"({high})::numeric"))
    if guard.check == "length":
        return sql.SQL("char_length({}) > {}").format(value, sql.Literal(guard.args[0]))
    if guard.check == "fraction":
        kind, digits = guard.args
        return sql.SQL("({v}::{kind}({digits}) <> {v})").format(
            v=value,
            kind=sql.SQL(str(kind)),
            digits=sql.Literal(digits),
        )
    raise AssertionError(f"no SQL for guard {guard.check}")
