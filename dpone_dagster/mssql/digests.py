r"""Order-free digests of keys and rows on SQL Server, equal to the source's (`postgres/digests.py`).

A value's text is PostgreSQL's own form of it: lower-case uuids, UTC, no trailing zeros of fractional seconds, `true`
and `false`, `\x` before hexadecimal bytes. A float is the 64-bit integer of its IEEE bits, since no server prints
another one's shortest form. Texts are joined as there: `~` is written `~0`, the separator `|` is `~1`, NULL is a lone
`~`.

The bytes that are hashed are UTF-8: by a UTF-8 collation (SQL Server 2019 and later), or without one where the server
hashes Unicode text as UTF-8 anyway, which is found out by a known answer. The rules for varbinary and the UTF-8
collation are UNVERIFIED on SQL Server: no such server was at hand.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.mssql.queries import filled, load
from dpone_dagster.mssql.quoting import literal, quoted, quoted_table
from dpone_dagster.mssql.session import UNBOUNDED, Session
from dpone_dagster.ports.source import KeyBucket

_PROBE = "naïve 😀"
_EXACT = "COLLATE Latin1_General_BIN2"
_UTF8 = "COLLATE Latin1_General_100_BIN2_UTF8"
_CHARACTERS = frozenset({"char", "varchar", "nchar", "nvarchar"})
_FLOATS = frozenset({"float", "real"})
_PADDED = frozenset({"char", "nchar"})
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_FILE = "digests.sql"
NOTHING = "0:0"  # the content digest of no row


@dataclass(frozen=True)
class Digester:
    """Writes digest expressions for one table.

    Attributes:
        table: The table.
        types: Type names by column.
        utf8: Whether text is hashed as UTF-8 without a UTF-8 collation.
    """

    table: TableRef
    types: Mapping[str, str]
    utf8: bool

    @classmethod
    def of(cls, session: Session, table: TableRef) -> Digester:
        """Read the table's column types and how the server hashes text.

        Args:
            session: Where the table is.
            table: Any table of the database.
        """
        types: dict[str, str] = dict(session.rows(load(_FILE)["columns"], table.schema, table.name))
        hashed = session.value(load(_FILE)["probe"], _PROBE)
        return cls(table, types, bytes(hashed) == hashlib.sha256(_PROBE.encode()).digest())

    def digest(self, columns: Sequence[str], alias: str) -> str:
        """T-SQL of the SHA-256 over the canonical text of some columns."""
        return self._hashed(self._joined(columns, alias))

    def keyed_digest(self, columns: Sequence[str], alias: str, secret: str) -> str:
        """T-SQL of a SHA-256 that cannot be guessed without the secret; columns without a text form are passed over."""
        written = [name for name in columns if self._type(name) in _WRITTEN]
        return self._hashed(" + N'|' + ".join([literal(secret), *([self._joined(written, alias)] if written else [])]))

    def _joined(self, columns: Sequence[str], alias: str) -> str:
        return " + N'|' + ".join(self._escaped(name, alias) for name in columns)

    def _hashed(self, text: str) -> str:
        return f"HASHBYTES('SHA2_256', {text if self.utf8 else f'CAST(({text}) {_UTF8} AS varchar(max))'})"

    def in_buckets(self, columns: Sequence[str], alias: str, buckets: int, wanted: Sequence[int]) -> str:
        """T-SQL condition: the key's bucket is one of the wanted ones."""
        if not wanted:
            return "1 = 0"
        chosen = ", ".join(str(int(number)) for number in wanted)
        return f"{_bucket(self.digest(columns, alias), buckets)} IN ({chosen})"

    def key_buckets_query(self, key: Sequence[str], buckets: int, only: str) -> str:
        """A statement that returns (bucket, keys, total) of every bucket that has a key.

        Args:
            key: Its columns.
            buckets: Number of buckets.
            only: Condition on the rows `t` that count.
        """
        return filled(
            load(_FILE)["key_buckets"],
            bucket=_bucket("h.digest", buckets),
            summand=_summand("h.digest"),
            digest=self.digest(key, "t"),
            table=quoted_table(self.table),
            only=only,
        )

    def row_buckets_query(self, contract: ColumnContract, buckets: int, only: str) -> str:
        """As `key_buckets_query`, but the total is over whole rows."""
        return filled(
            load(_FILE)["row_buckets"],
            bucket=_bucket("h.place", buckets),
            summand=_summand("h.content"),
            place=self.digest(contract.key, "t"),
            content=self.digest([column.target for column in contract.columns], "t"),
            table=quoted_table(self.table),
            only=only,
        )

    def content_digest_query(self, columns: Sequence[str], relation: str | None = None) -> str:
        """A statement that returns (rows, sum) over all rows.

        Args:
            columns: In the contract's order.
            relation: A query in brackets that has the columns; None for the table.
        """
        return filled(
            load(_FILE)["content_digest"],
            summand=_summand("h.digest"),
            digest=self.digest(columns, "t"),
            table=relation or quoted_table(self.table),
        )

    def exact(self, column: str, type_of: str, alias: str) -> str:
        """T-SQL of a value in a form whose equality is identity: no collation, no trailing blanks or zeros, no offsets.

        Args:
            column: As it is called where the expression stands.
            type_of: The column of this table whose type it has.
            alias: Of the table where it stands.
        """
        name = f"{alias}.{quoted(column)}"
        kind = self._type(type_of)
        if kind in _CHARACTERS:
            return f"(CAST({name} AS nvarchar(max)) + N'.') {_EXACT}"
        if kind == "datetimeoffset":
            return f"{name}, DATEPART(tz, {name})"
        if kind == "varbinary":
            return f"{name}, DATALENGTH({name})"  # SQL Server takes 0x01 and 0x0100 for equal
        return f"CAST({name} AS binary(8))" if kind in _FLOATS else name

    def written_alike(self, column: str, type_of: str, alias: str, other: str) -> str:
        """T-SQL condition: two values that compare as equal are the same value; nothing where they always are.

        Args:
            column: As it is called in `alias`.
            type_of: The column of this table whose type it has, and its name in `other`.
            alias: Of a stage.
            other: Of this table.
        """
        kind = self._type(type_of)
        if kind in _CHARACTERS:
            return f"{self.exact(column, type_of, alias)} = {self.exact(type_of, type_of, other)}"
        if kind == "varbinary":
            return f"DATALENGTH({alias}.{quoted(column)}) = DATALENGTH({other}.{quoted(type_of)})"
        return ""

    def _type(self, column: str) -> str:
        try:
            return self.types[column]
        except KeyError:
            raise DponeError(f"{self.table} has no column {column}") from None

    def _escaped(self, column: str, alias: str) -> str:
        text = f"CAST({_text(f'{alias}.{quoted(column)}', self._type(column), column)} AS nvarchar(max)) {_EXACT}"
        return f"COALESCE(REPLACE(REPLACE({text}, N'~', N'~0'), N'|', N'~1'), N'~')"


def content_digest(session: Session, table: TableRef, contract: ColumnContract) -> str:
    """`<rows>:<sum>` over a table that has the contract's target columns.

    Args:
        session: Where the table is.
        table: The live table or a shadow.
        contract: Its columns.
    """
    return rows_digest(session, table, [column.target for column in contract.columns])


def rows_digest(session: Session, table: TableRef, columns: Sequence[str]) -> str:
    """`<rows>:<sum>` over all rows of a table.

    Args:
        session: Where the table is.
        table: The live table, a shadow or a stage.
        columns: Its columns, in the order of the contract's.
    """
    query = Digester.of(session, table).content_digest_query(columns)
    rows, total = session.rows(query, seconds=UNBOUNDED)[0]
    return f"{rows}:{total}"


def types_without_digest(session: Session) -> frozenset[str]:
    """Types whose values this server does not write as PostgreSQL does, found out by one known value each.

    Args:
        session: Where the target is.
    """
    found: dict[str, str] = dict(session.rows(known_texts_query()))
    return frozenset(kind for kind, (_, text) in _KNOWN.items() if found[kind] != text)


def known_texts_query() -> str:
    """A statement that returns (type, text) of one known value of each type that has a digest."""
    asked = load(_FILE)["known_text"]
    return " UNION ALL ".join(
        filled(asked, kind=literal(kind), text=_text("v.known", kind, kind), value=value)
        for kind, (value, _) in _KNOWN.items()
    )


def key_buckets(session: Session, table: TableRef, key: Sequence[str], buckets: int, *, only: str) -> list[KeyBucket]:
    """Digest of all keys of a table, a bucket each; empty buckets are left out.

    Args:
        session: Where the table is.
        table: The table.
        key: Its columns.
        buckets: Number of buckets.
        only: Condition on the rows `t` that count.

    Raises:
        DponeError: A float is part of the key: it has no text that both servers share.
    """
    digester = _with_key(session, table, key)
    return _buckets(session, digester.key_buckets_query(key, buckets, only))


def row_buckets(
    session: Session, table: TableRef, contract: ColumnContract, buckets: int, *, only: str
) -> list[KeyBucket]:
    """As `key_buckets`, over whole rows in the buckets of their keys."""
    digester = _with_key(session, table, contract.key)
    return _buckets(session, digester.row_buckets_query(contract, buckets, only))


def _with_key(session: Session, table: TableRef, key: Sequence[str]) -> Digester:
    digester = Digester.of(session, table)
    for name in key:
        if digester.types.get(name) in _FLOATS:
            raise DponeError(f"{table}.{name} is a float, which cannot be a key that is reconciled")
    return digester


def _buckets(session: Session, query: str) -> list[KeyBucket]:
    return [KeyBucket(bucket, keys, total) for bucket, keys, total in session.rows(query, seconds=UNBOUNDED)]


def _bucket(digest: str, buckets: int) -> str:
    return f"CAST(SUBSTRING({digest}, 1, 2) AS int) % {int(buckets)}"


def _summand(digest: str) -> str:
    # 60 bits: seven bytes, which are never negative as a bigint, and half of the next one.
    return (
        f"CAST(CAST(SUBSTRING({digest}, 3, 7) AS bigint) * 16 + CAST(SUBSTRING({digest}, 10, 1) AS int) / 16 "
        "AS decimal(38, 0))"
    )


def _text(value: str, kind: str, column: str) -> str:
    """T-SQL of PostgreSQL's text form of a value."""
    if kind in _PADDED:
        return f"RTRIM({value})"  # PostgreSQL's text of a padded type has no padding
    if kind in _CHARACTERS:
        return value
    if kind in _INTEGERS:
        return f"CONVERT(nvarchar(20), {value})"
    make = _FORMS.get(kind)
    if make is None:
        raise DponeError(f"column {column}: a {kind} has no text form that both servers share, so it has no digest")
    return make.replace("{value}", value)


def _fraction(text: str, start: int) -> str:
    """The fractional seconds of a text from a position on, without trailing zeros, and without a lone point."""
    zeros_cut = f"REPLACE(RTRIM(REPLACE(SUBSTRING({text}, {start}, 8), N'0', N' ')), N' ', N'0')"
    return f"COALESCE(NULLIF({zeros_cut}, N'.'), N'')"


def _instant(value: str, length: int) -> str:
    text = f"CONVERT(nvarchar(27), {value}, 121)"
    return f"LEFT({text}, {length}) + {_fraction(text, length + 1)}"


_FORMS: Mapping[str, str] = {
    "uniqueidentifier": "LOWER(CONVERT(nvarchar(36), {value}))",
    "bit": "CASE {value} WHEN 1 THEN N'true' WHEN 0 THEN N'false' END",
    "decimal": "CONVERT(nvarchar(41), {value})",
    "numeric": "CONVERT(nvarchar(41), {value})",
    "date": "CONVERT(nvarchar(10), {value}, 23)",
    "time": _instant("{value}", 8),
    "datetime2": _instant("{value}", 19),
    "datetime": _instant("{value}", 19),
    "smalldatetime": _instant("{value}", 19),
    "money": "CONVERT(nvarchar(41), CAST({value} AS decimal(19, 4)))",
    "smallmoney": "CONVERT(nvarchar(41), CAST({value} AS decimal(19, 4)))",
    "datetimeoffset": _instant("CAST(SWITCHOFFSET({value}, '+00:00') AS datetime2(7))", 19) + " + N'+00'",
    "float": "CONVERT(nvarchar(20), CAST(CAST({value} AS binary(8)) AS bigint))",
    "real": "CONVERT(nvarchar(20), CAST(CAST(CAST({value} AS float) AS binary(8)) AS bigint))",
    "varbinary": f"{literal(chr(92) + 'x')} + LOWER(CONVERT(nvarchar(max), {{value}}, 2))",
    "binary": f"{literal(chr(92) + 'x')} + LOWER(CONVERT(nvarchar(max), {{value}}, 2))",
}

_WRITTEN = frozenset({*_CHARACTERS, *_INTEGERS, *_FORMS})

# For each type a value, and the text that PostgreSQL writes for it.
_BITS = str(struct.unpack(">q", struct.pack(">d", -1.5))[0])
_KNOWN: Mapping[str, tuple[str, str]] = {
    "tinyint": ("CAST(255 AS tinyint)", "255"),
    "smallint": ("CAST(-32768 AS smallint)", "-32768"),
    "int": ("CAST(-2147483648 AS int)", "-2147483648"),
    "bigint": ("CAST(9223372036854775807 AS bigint)", "9223372036854775807"),
    "decimal": ("CAST(-0.0000000001 AS decimal(38, 10))", "-0.0000000001"),
    "numeric": ("CAST(-0.5 AS numeric(18, 2))", "-0.50"),
    "bit": ("CAST(1 AS bit)", "true"),
    "uniqueidentifier": (
        "CAST('ABCDEF01-2345-6789-ABCD-EF0123456789' AS uniqueidentifier)",
        "abcdef01-2345-6789-abcd-ef0123456789",
    ),
    "char": ("CAST('a~b' AS char(5))", "a~b"),
    "nchar": ("CAST(N'a~b' AS nchar(5))", "a~b"),
    "varchar": ("CAST('a~b ' AS varchar(5))", "a~b "),
    "nvarchar": ("CAST(N'a~b ' AS nvarchar(5))", "a~b "),
    "date": ("CAST('0001-02-03' AS date)", "0001-02-03"),
    "time": ("CAST('23:59:59.012300' AS time(6))", "23:59:59.0123"),
    "datetime2": ("CAST('0001-02-03 04:05:06.700000' AS datetime2(6))", "0001-02-03 04:05:06.7"),
    "datetime": ("CAST('2024-02-03T04:05:06.007' AS datetime)", "2024-02-03 04:05:06.007"),
    "smalldatetime": ("CAST('2024-02-03T04:05:00' AS smalldatetime)", "2024-02-03 04:05:00"),
    "money": ("CAST(-0.5 AS money)", "-0.5000"),
    "smallmoney": ("CAST(12.3456 AS smallmoney)", "12.3456"),
    "datetimeoffset": (
        "CAST('2024-02-03 04:05:06.000007 +05:30' AS datetimeoffset(6))",
        "2024-02-02 22:35:06.000007+00",
    ),
    "float": ("CAST(-1.5 AS float)", _BITS),
    "real": ("CAST(-1.5 AS real)", _BITS),
    "varbinary": ("CAST(0x4A6B AS varbinary(2))", "\\x4a6b"),
    "binary": ("CAST(0x4A6B AS binary(2))", "\\x4a6b"),
}
