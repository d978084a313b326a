"""Inserts Arrow batches on the session itself, inside its transaction: exact for every type, and slower than bulk copy.

Each value is bound as a parameter of its own type, or as text that T-SQL turns into the type without rounding. Arrays
of parameters are not used: to describe them the driver asks the server, which fails for a table that only this
transaction sees and takes the transaction with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.mssql.driver import load_pyodbc
from dpone_dagster.mssql.quoting import quoted
from dpone_dagster.mssql.session import Session

if TYPE_CHECKING:
    import pyarrow as pa

# The server parses each statement's text anew, which costs more than a round trip saves beyond this.
_MAX_PARAMETERS = 150
_WIDE = 0  # size of a parameter that may be as long as the server allows
_TEMPORAL_SIZE = 40


@dataclass(frozen=True)
class _Form:
    """How the values of one column are bound.

    Attributes:
        mark: The placeholder, with a cast where the server takes text for the type only if told to.
        size: For `setinputsizes`: NULLs are bound by it too, so that nothing has to be guessed.
        values: A column's values as they are bound.
    """

    mark: str
    size: tuple[int, int, int]
    values: Callable[[pa.Array], Sequence[object]]


def insert_batches(session: Session, table: str, batches: Iterable[pa.RecordBatch]) -> int:
    """Insert every row and return how many the server says that it inserted.

    Args:
        session: In a transaction or not.
        table: Quoted name; may be a temporary table.
        batches: Their fields are named as the table's columns.
    """
    inserted = 0
    for batch in batches:
        if batch.num_rows:
            inserted += _insert_batch(session, table, batch)
    return inserted


def _insert_batch(session: Session, table: str, batch: pa.RecordBatch) -> int:
    forms = [_form(field.type) for field in batch.schema]
    row_mark = "(" + ", ".join(form.mark for form in forms) + ")"
    names = ", ".join(quoted(name) for name in batch.schema.names)
    columns = [form.values(column) for form, column in zip(forms, batch.columns, strict=True)]
    rows = list(zip(*columns, strict=True))
    step = max(1, min(1000, _MAX_PARAMETERS // len(forms)))
    inserted = 0
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        marks = ", ".join([row_mark] * len(some))
        inserted += session.changed_by(
            f"INSERT /* dpone:insert_rows */ INTO {table} ({names}) VALUES {marks}",  # noqa: S608  # names are quoted, values bound
            [form.size for form in forms] * len(some),
            [value for row in some for value in row],
        )
    return inserted


# ---------------------------------------------------------------- by Arrow type


def _form(kind: pa.DataType) -> _Form:
    from pyarrow import BaseExtensionType, types

    odbc = load_pyodbc()
    if isinstance(kind, BaseExtensionType):
        return _extension(kind)
    if types.is_boolean(kind):
        return _Form("?", (odbc.SQL_BIT, 0, 0), _plain)
    if types.is_integer(kind):
        return _Form("?", (odbc.SQL_BIGINT, 0, 0), _plain)
    if types.is_floating(kind):
        return _Form("?", (odbc.SQL_DOUBLE, 0, 0), _plain)
    if types.is_string(kind) or types.is_large_string(kind):
        return _Form("?", (odbc.SQL_WVARCHAR, _WIDE, 0), _plain)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _Form("?", (odbc.SQL_VARBINARY, _WIDE, 0), _plain)
    if types.is_decimal(kind):
        return _Form("?", (odbc.SQL_WVARCHAR, _TEMPORAL_SIZE, 0), _decimal_texts)
    return _temporal(kind)


def _temporal(kind: pa.DataType) -> _Form:
    from pyarrow import types

    size = (load_pyodbc().SQL_WVARCHAR, _TEMPORAL_SIZE, 0)
    if types.is_timestamp(kind):
        return _Form(f"CAST(? AS {'datetime2' if kind.tz is None else 'datetimeoffset'}(7))", size, _iso_texts)
    if types.is_date(kind):
        return _Form("CAST(? AS date)", size, _iso_texts)
    if types.is_time(kind):
        return _Form("CAST(? AS time(7))", size, _iso_texts)
    raise DponeError(f"rows come with a column of {kind}, which no type of SQL Server was found for")


def _extension(kind: Any) -> _Form:
    if kind.extension_name == "arrow.uuid":
        return _Form("CAST(? AS uniqueidentifier)", (load_pyodbc().SQL_WVARCHAR, _TEMPORAL_SIZE, 0), _texts)
    # numeric comes as text, json as its own text
    return replace(_form(kind.storage_type), values=lambda column: column.storage.to_pylist())


def _plain(column: pa.Array) -> Sequence[object]:
    values: list[object] = column.to_pylist()
    return values


def _texts(column: pa.Array) -> Sequence[object]:
    return [None if value is None else str(value) for value in column.to_pylist()]


def _iso_texts(column: pa.Array) -> Sequence[object]:
    return [None if value is None else value.isoformat() for value in column.to_pylist()]


def _decimal_texts(column: pa.Array) -> Sequence[object]:
    return [None if value is None else f"{value:f}" for value in column.to_pylist()]
