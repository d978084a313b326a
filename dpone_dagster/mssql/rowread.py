"""Rows of a source on SQL Server as the contract wants them: one SELECT, its flags looked at and taken off."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NoReturn

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import DponeError, Finding, ValueNotRepresentable
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.digests import Digester
from dpone_dagster.mssql.projection import REFUSED, Projection
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import quoted_table
from dpone_dagster.mssql.snapshot import Pace, SnapshotConnection
from dpone_dagster.ports.source import Wire, in_comment

_QUERIES = load("source.sql")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_LENGTH = re.compile(r"(n?)(?:var)?(?:char|binary)\((\d+|max)\)")
_FIXED_BYTES = 40  # more than any type takes that is no text and no binary


@dataclass(frozen=True)
class RowRead:
    """What is read in one snapshot.

    Attributes:
        table: The source table.
        contract: Projection, guards and key.
        condition: Which rows, as T-SQL.
        digester: Of the source's own columns.
        digest_key: Hexadecimal secret for key digests in error messages.
        label: Run and chunk, for people who look at the server.
    """

    table: TableRef
    contract: ColumnContract
    condition: str
    digester: Digester
    digest_key: str
    label: str

    @property
    def projection(self) -> Projection:
        """What is selected."""
        return Projection(self.contract, self.digester.utf8)

    def statement(self) -> str:
        """The SELECT of the rows with their flags."""
        return self._filled("rows", query=f"read_chunk {in_comment(self.label)}", values=self.projection.flagged())

    def digest_statement(self) -> str:
        """The SELECT of (rows, sum) over the rows as the target will hold them."""
        projection = self.projection
        rows = self._filled("rows", query="digested", values=projection.values())
        digester = Digester(self.table, projection.kinds, self.digester.utf8)
        return digester.content_digest_query(projection.names, f"({rows})")

    def refused_statement(self, place: int) -> str:
        """The SELECT of the key digest of a row that a guard refuses."""
        digest = self.digester.keyed_digest(self.contract.source_key, "s", self.digest_key)
        projection = self.projection
        return self._filled("refused", digest=digest, bad=projection.bad(projection.refusals[place]))

    def _filled(self, name: str, **parts: str) -> str:
        return filled(_QUERIES[name], table=quoted_table(self.table), rows=self.condition, **parts)


class MssqlRows:
    """The rows of one read, once.

    Args:
        connection: In its snapshot, all proofs made.
        read: What is read.
        named: Gives a read that fails the name of its cause.
    """

    wire: Wire = "arrow"

    def __init__(
        self, connection: SnapshotConnection, read: RowRead, named: AbstractContextManager[None] | None = None
    ) -> None:
        self._connection = connection
        self._named = named or contextlib.nullcontext()
        self._read = read
        self._projection = read.projection
        self._batches: Generator[Any, None, None] | None = None
        self.digest: str | None = None
        self.nulled: dict[str, int] = dict.fromkeys(self._projection.nulled, 0)
        self.rows = 0
        self.bytes = 0

    def __iter__(self) -> Iterator[Any]:
        if self._batches is not None:
            raise DponeError("the rows of one read can be read once only")
        self._batches = self._read_all()
        return self._batches

    def close(self) -> None:
        """End the read, whether or not all of it was taken."""
        if self._batches is not None:
            self._batches.close()

    def _read_all(self) -> Generator[Any, None, None]:
        refused = None
        batches = self._connection.batches(self._read.statement(), pace_of(self._read.contract))
        with contextlib.closing(batches), self._named:
            for batch in batches:
                refused = self._refused(batch)
                if refused is not None:
                    break
                yield self._taken(batch)
        if refused is not None:
            self._refuse(refused)

    def _taken(self, batch: Any) -> Any:
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        for target, flag in self._projection.nulled.items():
            self.nulled[target] += int(_column(batch, flag).sum().as_py() or 0)
        return self._plain(batch)

    def _refused(self, batch: Any) -> int | None:
        """The first guard that fired in a batch; None if none did."""
        if not self._projection.refusals:
            return None
        from pyarrow import compute

        return compute.min(_column(batch, REFUSED)).as_py()  # type: ignore[no-any-return]

    def _refuse(self, place: int) -> NoReturn:
        refusal = self._projection.refusals[place]
        # The rest of the rows was cut off, and with it the transaction may have ended: the row may be another one now.
        found = self._connection.rows(self._read.refused_statement(place))
        column, reason = refusal.column.source, refusal.guard.reason
        told = f"key digest {bytes(found[0][0]).hex()}" if found else "a key that has changed meanwhile"
        raise ValueNotRepresentable(
            f"column `{column}` has a value that the target cannot hold exactly ({reason})",
            findings=[Finding(f"source.{column}", f"{reason}, in the row with {told}")],
        )

    def _plain(self, batch: Any) -> Any:
        """The values alone, under the target's names."""
        import pyarrow as pa

        columns = self._read.contract.columns
        arrays = [_exact(batch.column(place), column.cast) for place, column in enumerate(columns)]
        return pa.record_batch(arrays, names=[column.target for column in columns])


def _column(batch: Any, name: str) -> Any:
    from pyarrow import compute, types

    column = batch.column(batch.schema.names.index(name))
    return compute.cast(column, "int64") if types.is_boolean(column.type) else column


def _exact(column: Any, cast: str | None) -> Any:
    """As Arrow has the type that was asked for; a value that would change is an error."""
    import pyarrow as pa

    if pa.types.is_time64(column.type):
        return column.cast(pa.time64("us"))
    if pa.types.is_decimal(column.type) and cast and (asked := _DECIMAL.fullmatch(cast)):
        return column.cast(pa.decimal128(int(asked[1]), int(asked[2])))
    return column


def pace_of(contract: ColumnContract) -> Pace:
    """How many of its rows are fetched at once."""
    kinds = [column.cast or column.source_type for column in contract.columns]
    lengths = [match for kind in kinds if (match := _LENGTH.fullmatch(kind))]
    bounded = sum(int(match[2]) * (2 if match[1] else 1) for match in lengths if match[2] != "max")
    unbounded = "text" in kinds or "xml" in kinds or any(match[2] == "max" for match in lengths)
    return Pace(bounded + _FIXED_BYTES * len(kinds), unbounded=unbounded)
