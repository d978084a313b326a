"""Rows on their way into a table of PostgreSQL: one COPY, in the form that they come in.

A binary COPY passes as it is. Arrow batches become CSV, made outside Python: every value in quotes, so that an empty
text is no NULL, which is nothing between two commas; bytes as the hexadecimal digits of bytea.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import errors as pg
from psycopg import sql

from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.ports.source import RowStream, Wire
from dpone_dagster.postgres.session import Session

# Header and trailer of a binary COPY without extensions (PostgreSQL docs, COPY).
_EMPTY_COPY_BYTES = 21


@dataclass(frozen=True)
class _Form:
    """How COPY reads a stream: its FORMAT, how long it is without rows, and its blocks."""

    format: sql.SQL
    empty_bytes: int
    blocks: Callable[[RowStream], Iterator[bytes]]


class Blocks:
    """A stream of which so much was taken that one knows whether it has rows.

    Args:
        stream: Not begun yet.
    """

    def __init__(self, stream: RowStream) -> None:
        form = _FORMS[stream.wire]
        self.stream = stream
        self.format = form.format
        self._empty_bytes = form.empty_bytes
        self._rest = form.blocks(stream)
        self._head = b""
        while self.empty and (block := next(self._rest, None)) is not None:
            self._head += block

    @property
    def empty(self) -> bool:
        """Whether it has ended without a row."""
        return len(self._head) <= self._empty_bytes

    def __iter__(self) -> Iterator[bytes]:
        return itertools.chain([self._head], self._rest)


def copy_in(session: Session, statement: sql.Composed, blocks: Blocks, sent: Callable[[], None] = lambda: None) -> int:
    """Send every block; returns how many rows the server counted.

    Args:
        session: In its transaction.
        statement: COPY … FROM STDIN with the blocks' format.
        blocks: Not begun yet.
        sent: Called after each block.
    """
    with session.connection.cursor() as cursor:
        with _no_values_told(), cursor.copy(statement) as copy:
            for block in blocks:
                copy.write(block)
                sent()
        return cursor.rowcount


@contextlib.contextmanager
def _no_values_told() -> Iterator[None]:
    try:
        yield
    except pg.DataError as error:  # its message quotes the value
        raise DponeError(f"the target did not take a value: {error.sqlstate}, {type(error).__name__}") from None


def _bytes(stream: RowStream) -> Iterator[bytes]:
    return iter(stream)


def _csv(stream: RowStream) -> Iterator[bytes]:
    import pyarrow as pa
    from pyarrow import csv

    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    for batch in stream:
        texts = pa.record_batch([_written(column) for column in batch.columns], names=batch.schema.names)
        sink = pa.BufferOutputStream()
        csv.write_csv(texts, sink, options)
        yield sink.getvalue().to_pybytes()


def _written(column: Any) -> Any:
    """A column as its CSV has it."""
    from pyarrow import types

    return _hexadecimal(column) if types.is_binary(column.type) or types.is_large_binary(column.type) else column


def _hexadecimal(column: Any) -> Any:
    r"""Bytes as `\x` and two digits each: all values at once, since they lie one after the other in memory."""
    import pyarrow as pa
    from pyarrow import compute

    plain = pa.concat_arrays([column.cast(pa.large_binary())])  # an array of its own, without an offset
    validity, offsets, data = plain.buffers()
    digits = pa.py_buffer((data or pa.py_buffer(b"")).to_pybytes().hex().encode())
    ends = pa.Array.from_buffers(pa.int64(), len(plain) + 1, [None, offsets])
    doubled = compute.multiply(ends, 2).buffers()[1]
    texts = pa.Array.from_buffers(pa.large_string(), len(plain), [validity, doubled, digits])
    start, nothing = (pa.scalar(text, pa.large_string()) for text in ("\\x", ""))
    return compute.binary_join_element_wise(start, texts, nothing)


_FORMS: Mapping[Wire, _Form] = {
    "pgcopy": _Form(sql.SQL("binary"), _EMPTY_COPY_BYTES, _bytes),
    "arrow": _Form(sql.SQL("csv"), 0, _csv),
}
