"""The SELECT list of a chunk: casts into the target's types, with value guards inside the one COPY.

A guard is a CASE whose bad branch fails on a cast of text to integer, so that PostgreSQL's own error names column,
reason and key digest. That text depends on the row, so the planner cannot fold it away.

Statements made from these parts must be executed without parameters: a column may be called `%s`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import LiteralString

import psycopg
from psycopg import errors as pg
from psycopg import sql

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract, Guard
from dpone_dagster.campaign.errors import DponeError, Finding, ValueNotRepresentable
from dpone_dagster.postgres import digests

# Around it the server's words differ by its language.
_REFUSAL = re.compile(r"dpone:(?P<column>.*):(?P<reason>[a-z]+):(?P<digest>[0-9a-f]{64})", re.DOTALL)
_CAST = re.compile(r"(?P<name>[a-z][a-z0-9_]*)(?P<args>\(-?\d+(,-?\d+)?\))?(?P<array>\[\])?", re.ASCII)
# What takes two UTF-16 units: characters beyond the Basic Multilingual Plane, by escapes of the regular expression.
_ASTRAL = r"[\U00010000-\U0010FFFF]"
_NOT_ASTRAL = r"[^\U00010000-\U0010FFFF]"
_LEAST_NORMAL: dict[str, LiteralString] = {
    "float8": "'2.2250738585072014e-308'::float8",
    "float4": "'1.1754944e-38'::float4",
}
_JSON_FORMS = {"json": sql.SQL("to_json({})"), "jsonb": sql.SQL("to_jsonb({})")}


def projection(contract: ColumnContract, digest_key: str) -> dict[str, sql.Composable]:
    """By target column, in the contract's order: the source column, guarded and cast.

    Args:
        contract: The column contract.
        digest_key: Hexadecimal secret for key digests in error messages.
    """
    row = digests.keyed_digest([sql.Identifier(name) for name in contract.source_key], digest_key)
    return {column.target: _guarded(column, row) for column in contract.columns}


def nulled_counts(contract: ColumnContract) -> dict[str, sql.Composed]:
    """By target column with `on_bad_value: null`: an aggregate that counts what the projection sets to NULL."""
    return {
        column.target: sql.SQL("count(*) FILTER (WHERE {})").format(_any_bad(column))
        for column in contract.columns
        if column.on_bad_value == "null" and column.guards
    }


def refused_value(error: psycopg.Error) -> ValueNotRepresentable | None:
    """The guard's finding in a server's error; None if it was no guard."""
    if not isinstance(error, pg.InvalidTextRepresentation):
        return None
    return refused_text(error.diag.message_primary or "")


def refused_text(message: str) -> ValueNotRepresentable | None:
    """The guard's finding in the text of a server's error; None if it was no guard."""
    match = _REFUSAL.search(message)
    if match is None:
        return None
    column, reason, digest = match["column"], match["reason"], match["digest"]
    return ValueNotRepresentable(
        f"column `{column}` has a value that the target cannot hold exactly ({reason})",
        findings=[Finding(f"source.{column}", f"{reason}, in the row with key digest {digest}")],
    )


# ---------------------------------------------------------------- expressions


def _guarded(column: ColumnBinding, row: sql.Composable) -> sql.Composable:
    value = _cast(column)
    if not column.guards:
        return value
    if column.on_bad_value == "null":
        return sql.SQL("CASE WHEN {} THEN NULL ELSE {} END").format(_any_bad(column), value)
    # The inner CASE is the one that fails; the NULL of the outer one only has every type.
    return sql.SQL("CASE WHEN CASE {} ELSE false END THEN NULL ELSE {} END").format(
        sql.SQL(" ").join(_failing(column, guard, row) for guard in column.guards), value
    )


def _failing(column: ColumnBinding, guard: Guard, row: sql.Composable) -> sql.Composed:
    mark = sql.Literal(f"dpone:{column.source}:{guard.reason}:")
    return sql.SQL("WHEN {} THEN ({} || {})::integer IS NULL").format(_bad(guard, column.source), mark, row)


def _any_bad(column: ColumnBinding) -> sql.Composed:
    return sql.SQL(" OR ").join(sql.SQL("({})").format(_bad(guard, column.source)) for guard in column.guards)


def _cast(column: ColumnBinding) -> sql.Composable:
    value = sql.Identifier(column.source)
    if column.cast is None:
        return value
    if column.cast in _JSON_FORMS:
        return _JSON_FORMS[column.cast].format(value)
    match = _CAST.fullmatch(column.cast)
    if match is None:
        raise DponeError(f"column `{column.source}`: its contract has a cast that this program does not make")
    modifier = sql.SQL(f"{match['args'] or ''}{match['array'] or ''}")
    return sql.SQL("CAST({} AS {}{})").format(value, sql.Identifier("pg_catalog", match["name"]), modifier)


# ---------------------------------------------------------------- checks, true where a value does not fit

_Check = Callable[[sql.Composable, tuple[int | str, ...]], sql.Composed]


def _nan(value: sql.Composable, _args: tuple[int | str, ...]) -> sql.Composed:
    return sql.SQL("{} = 'NaN'").format(value)


def _infinity(value: sql.Composable, _args: tuple[int | str, ...]) -> sql.Composed:
    # `Infinity` is no numeric literal before PostgreSQL 14, and its text would be made for every row.
    return sql.SQL("{0} <> 'NaN' AND {0} - {0} = 'NaN'").format(value)


def _digits(value: sql.Composable, args: tuple[int | str, ...]) -> sql.Composed:
    bound = sql.Literal(f"1e{int(args[0])}")
    return sql.SQL("{0}::numeric <> 'NaN' AND abs({0}::numeric) >= {1}::numeric").format(value, bound)


def _scale(value: sql.Composable, args: tuple[int | str, ...]) -> sql.Composed:
    return sql.SQL("round({0}::numeric, {1}) <> {0}").format(value, sql.Literal(int(args[0])))


def _range(value: sql.Composable, args: tuple[int | str, ...]) -> sql.Composed:
    low, high = (sql.Literal(int(arg)) for arg in args)
    return sql.SQL("{} NOT BETWEEN {} AND {}").format(value, low, high)


def _characters(value: sql.Composable, args: tuple[int | str, ...]) -> sql.Composed:
    return sql.SQL("length({}::text) > {}").format(value, sql.Literal(int(args[0])))


def _bits(value: sql.Composable, args: tuple[int | str, ...]) -> sql.Composed:
    return sql.SQL("length({}) > {}").format(value, sql.Literal(int(args[0])))


def _microseconds(value: sql.Composable, args: tuple[int | str, ...]) -> sql.Composed:
    # A cast to fewer digits and back would overflow at the end of the range; infinity has no microseconds.
    return sql.SQL("mod(extract(microseconds FROM {})::bigint, {}) <> 0").format(value, sql.Literal(int(args[0])))


def _infinite(value: sql.Composable, _args: tuple[int | str, ...]) -> sql.Composed:
    return sql.SQL("NOT isfinite({})").format(value)


def _years(value: sql.Composable, args: tuple[int | str, ...]) -> sql.Composed:
    first, after = (sql.Literal(f"{year:04d}-01-01") for year in (int(args[0]), int(args[1]) + 1))
    return sql.SQL("{0} < {1} OR {0} >= {2}").format(value, first, after)


def _midnight(value: sql.Composable, _args: tuple[int | str, ...]) -> sql.Composed:
    return sql.SQL("{} = '24:00:00'").format(value)


def _subnormal(value: sql.Composable, args: tuple[int | str, ...]) -> sql.Composed:
    least = _LEAST_NORMAL[str(args[0])]
    return sql.SQL("{0} <> 0 AND abs({0}) < {1}").format(value, sql.SQL(least))


def _utf16(value: sql.Composable, args: tuple[int | str, ...]) -> sql.Composed:
    # Only a text of more than half the length can be too long, so most are not looked through.
    return sql.SQL(
        "length({0}::text) > {1} / 2 AND length({0}::text) + length(regexp_replace({0}::text, {2}, '', 'g')) > {1}"
    ).format(value, sql.Literal(int(args[0])), sql.Literal(_NOT_ASTRAL))


def _astral(value: sql.Composable, _args: tuple[int | str, ...]) -> sql.Composed:
    return sql.SQL("{}::text ~ {}").format(value, sql.Literal(_ASTRAL))


def _utf8(value: sql.Composable, args: tuple[int | str, ...]) -> sql.Composed:
    return sql.SQL("octet_length(convert_to({}::text, 'UTF8')) > {}").format(value, sql.Literal(int(args[0])))


def _octets(value: sql.Composable, args: tuple[int | str, ...]) -> sql.Composed:
    low, high = (sql.Literal(int(arg)) for arg in args)
    return sql.SQL("octet_length({}) NOT BETWEEN {} AND {}").format(value, low, high)


_CHECKS: dict[str, _Check] = {
    "infinite": _infinite,
    "years": _years,
    "midnight": _midnight,
    "subnormal": _subnormal,
    "utf16": _utf16,
    "astral": _astral,
    "utf8": _utf8,
    "octets": _octets,
    "nan": _nan,
    "infinity": _infinity,
    "digits": _digits,
    "scale": _scale,
    "range": _range,
    "characters": _characters,
    "bits": _bits,
    "microseconds": _microseconds,
}


def _bad(guard: Guard, source_column: str) -> sql.Composed:
    if guard.check not in _CHECKS:
        raise DponeError(f"column `{source_column}`: its contract has a check `{guard.check}` that PostgreSQL has not")
    return _CHECKS[guard.check](sql.Identifier(source_column), guard.args)
