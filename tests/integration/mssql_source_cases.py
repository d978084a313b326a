"""For each pair of types of a SQL Server source: values that arrive, and values that stop their chunk.

A value is T-SQL, beside the text that it is in the target. What the stand-in cannot hold is not here: a seventh digit,
halves of surrogate pairs, U+0000, texts of a UTF-8 collation.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from dpone_dagster.campaign.contract import ColumnType, Representation

TO_TEXT: Representation = "text"


@dataclass(frozen=True)
class Case:
    """A pair of types.

    Attributes:
        good: (T-SQL, text in the target).
        bad: (T-SQL, reason).
    """

    source: str
    target: str
    good: tuple[tuple[str, str], ...]
    bad: tuple[tuple[str, str], ...] = ()
    representation: Representation | None = None

    def __str__(self) -> str:
        return f"{self.source} → {self.target}"


def type_of(kind: str) -> ColumnType:
    """The type as its server's catalog has it."""
    name, _, args = kind.rstrip(")").partition("(")
    name = {"boolean": "bool", "character": "bpchar"}.get(name, name)
    return ColumnType(name, tuple(int(arg) for arg in args.split(",") if arg.isdigit()), display=kind)


def same(*values: str) -> tuple[tuple[str, str], ...]:
    return tuple((value, value) for value in values)


def quoted(*values: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"N'{value.replace(chr(39), chr(39) * 2)}'", value) for value in values)


INT2, INT4, INT8 = ("-32768", "32767"), ("-2147483648", "2147483647"), (str(-(2**63)), str(2**63 - 1))
D38 = "9" * 38
STRINGS = ("", " ", "a ", "naïve", "😀\U0001d54f", "e\u0301", "tab\tnew\nline\\N", "'\"%s{x}", "\x01\x7f", "\\.",
           "a\n\\.\nb", "\r\n", ",,\"\"", "NULL", "x" * 9_000)  # fmt: skip
SHORT = ("", "ab", "a b ", "\\.", '"')
ASCII_ONLY = (("N'é'", "codepage"), ("N'a€'", "codepage"))
UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
DATES = ("0001-01-01", "9999-12-31", "1582-10-10", "2024-02-29")
BINARY = (("0x", "\\x"), ("0x00", "\\x00"), ("0x00FF805C", "\\x00ff805c"))
MOMENTS = (("'0001-01-01T00:00:00'", "0001-01-01 00:00:00"),
           ("'9999-12-31T23:59:59.999999'", "9999-12-31 23:59:59.999999"),
           ("'2024-03-31T02:30:00.000001'", "2024-03-31 02:30:00.000001"))  # fmt: skip
ROUGH = (("'1753-01-01T00:00:00'", "1753-01-01 00:00:00"), ("'9999-12-31T23:59:59.997'", "9999-12-31 23:59:59.997"),
         ("'2024-01-01T00:00:00.003'", "2024-01-01 00:00:00.003"))  # fmt: skip
MINUTES = (("'1900-01-01T00:00:00'", "1900-01-01 00:00:00"), ("'2079-06-06T23:59:00'", "2079-06-06 23:59:00"))
MILLI = (("'2024-01-01T00:00:00.1234'", "precision"),)
TIMES = (("'00:00:00'", "00:00:00"), ("'23:59:59.999999'", "23:59:59.999999"), ("'12:34:56.7'", "12:34:56.7"))
DOUBLES = ("0", "-0.1", "1.7976931348623157E308", "2.2250738585072014E-308", "1E22", "0.30000000000000004")
FLOATS = ("0", "0.1", "3.4028235E38", "1.1754944E-38", "16777216")
MONEY = (("-922337203685477.5808", "-922337203685477.5808"), ("0.0001", "0.0001"), ("1", "1.0000"))


def doubles(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((f"CAST({text} AS float)", repr(float(text))) for text in texts)


def reals(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((f"CAST({t} AS real)", repr(struct.unpack("f", struct.pack("f", float(t)))[0])) for t in texts)


def instants(zone: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{value[:-1]}+00:00'", f"{text}{zone}") for value, text in MOMENTS)


def whole(kind: str, source: str) -> tuple[tuple[str, str], ...]:
    """What of the one kind fits into the other and is at an edge of either."""
    ranges = {"tinyint": ("0", "255"), "smallint": INT2, "int": INT4, "bigint": INT8}
    ranges |= {"int2": INT2, "int4": INT4, "int8": INT8}
    low, high = (int(edge) for edge in ranges[kind])
    here = [int(edge) for edge in ranges[source]]
    return same(*dict.fromkeys(str(max(low, min(high, edge))) for edge in (*here, low, high, 0) if _in(edge, here)))


def _in(edge: int, here: list[int]) -> bool:
    return here[0] <= edge <= here[1]


def integers(target: str) -> tuple[Case, ...]:
    """Every number into an integer; one target of each server has the values that are no such integer."""
    part, beyond = ((), ()) if target not in ("int4", "int") else ((("7.5", "precision"),), (("2147483648", "range"),))
    return (
        *(Case(source, target, whole(target, source), beyond if source == "bigint" else ()) for source in NAMES),
        Case("decimal(20,2)", target, (("7.00", "7"),), (*part, *beyond)),
        Case("numeric(3,0)", target, same("100")),
        Case("money", target, (("7", "7"),), part),
        Case("smallmoney", target, (("7", "7"),)),
    )


NAMES = ("tinyint", "smallint", "int", "bigint")
TO_POSTGRES = (
    Case("bit", "boolean", (("1", "true"), ("0", "false"))),
    *(case for target in ("int2", "int4", "int8") for case in integers(target)),
    Case("tinyint", "numeric", same("255")),
    Case("smallint", "numeric(7,2)", (("-32768", "-32768.00"),)),
    Case("int", "numeric(4,2)", (("-99", "-99.00"),), (("100", "range"),)),
    Case("bigint", "numeric", same(*INT8)),
    Case("decimal(38,0)", "numeric", same(D38, f"-{D38}")),
    Case("decimal(38,10)", "numeric(38,10)", same("0.0000000001", f"-{'9' * 28}.{'9' * 10}")),
    Case("decimal(18,4)", "numeric(6,2)", (("1.2300", "1.23"),), (("1.2345", "precision"), ("10000", "range"))),
    Case("decimal(18,2)", "numeric(50,4)", (("1.50", "1.5000"),)),
    Case("numeric(18,2)", "numeric", same("1.50", "0.00")),
    Case("money", "numeric", MONEY),
    Case("money", "numeric(19,4)", MONEY),
    Case("smallmoney", "numeric(10,4)", (("-214748.3648", "-214748.3648"),)),
    Case("float", "float8", doubles(DOUBLES)),
    Case("real", "float8", (("0.5", "0.5"), ("16777216", "16777216.0"))),
    *(Case(source, "float8", (("7", "7.0"),)) for source in NAMES[:3]),
    Case("real", "float4", reals(FLOATS)),
    *(Case(source, "float4", (("7", "7.0"),)) for source in NAMES[:2]),
    Case("date", "date", quoted(*DATES)),
    Case("time(6)", "time", TIMES),
    Case("time(7)", "time(3)", (("'12:34:56.789'", "12:34:56.789"),), (("'12:34:56.7891'", "precision"),)),
    Case("datetime2(6)", "timestamp", MOMENTS),
    Case("datetime2(7)", "timestamp(3)", (("'2024-01-01T00:00:00.5'", "2024-01-01 00:00:00.5"),), MILLI),
    Case("datetime", "timestamp", ROUGH),
    Case("smalldatetime", "timestamp(0)", MINUTES),
    Case("datetimeoffset(6)", "timestamptz", instants("+00"), (("'2024-01-01T00:00:00+05:30'", "offset"),)),
    Case("uniqueidentifier", "uuid", quoted(UUID)),
    Case("binary(4)", "bytea", (("0x00FF805C", "\\x00ff805c"),)),
    Case("varbinary(max)", "bytea", BINARY),
    *(Case(source, target, quoted(*SHORT)) for source in ("varchar(40)", "nvarchar(40)")
      for target in ("text", "varchar(40)")),
    Case("nvarchar(max)", "text", quoted(*STRINGS)),
    Case("nvarchar(max)", "varchar(3)", quoted("abc", "é😀"), (("N'abcd'", "length"),)),
    Case("varchar(40)", "text", quoted("naïve €")),
    *(Case(source, target, (("'ab'", "ab  "),)) for source in ("char(4)", "nchar(4)")
      for target in ("text", "varchar(9)")),
    *(Case(source, "character(4)", (("'ab'", "ab  "),)) for source in ("char(4)", "nchar(4)")),
    Case("datetimeoffset(6)", "text", (("'2024-01-01T12:00:00.123456+05:30'", "2024-01-01 12:00:00.123456 +05:30"),),
         representation=TO_TEXT),
    Case("money", "text", MONEY, representation=TO_TEXT),
    Case("uniqueidentifier", "varchar(41)", quoted(UUID), representation=TO_TEXT),
)  # fmt: skip
TO_MSSQL = (
    Case("bit", "bit", same("1", "0")),
    *(case for target in NAMES for case in integers(target)),
    *(Case(source, target, same("5"))
      for source in NAMES for target in ("decimal(9,0)", "numeric(9,0)")),
    *(Case("decimal(18,4)", target, (("1.2300", "1.23"),), (("1.2345", "precision"), ("10000", "range")))
      for target in ("decimal(6,2)", "numeric(6,2)")),
    Case("numeric(38,0)", "decimal(38,0)", same(D38)),
    Case("numeric(38,0)", "numeric(38,0)", same(D38)),
    *(Case(source, target, (("7.5", "7.5000"),)) for source in ("money", "smallmoney")
      for target in ("decimal(19,4)", "numeric(19,4)")),
    Case("float", "float", doubles(DOUBLES)),
    Case("real", "float", (("0.5", "0.5"),)),
    *(Case(source, "float", (("7", "7.0"),)) for source in NAMES[:3]),
    Case("real", "real", reals(FLOATS)),
    *(Case(source, "real", (("7", "7.0"),)) for source in NAMES[:2]),
    Case("date", "date", quoted(*DATES)),
    Case("time(6)", "time(6)", TIMES),
    Case("time(7)", "time(3)", (("'12:34:56.789'", "12:34:56.789"),), (("'12:34:56.7891'", "precision"),)),
    Case("datetime2(6)", "datetime2(6)", MOMENTS),
    Case("datetime2(7)", "datetime2(3)", (("'2024-01-01T00:00:00.5'", "2024-01-01 00:00:00.5"),), MILLI),
    Case("datetime", "datetime", ROUGH),
    Case("datetime", "datetime2(3)", ROUGH),
    Case("smalldatetime", "smalldatetime", MINUTES),
    Case("smalldatetime", "datetime2(0)", MINUTES),
    Case("datetimeoffset(6)", "datetimeoffset(6)", instants(" +00:00"), (("'2024-01-01T00:00:00+05:30'", "offset"),)),
    Case("uniqueidentifier", "uniqueidentifier", quoted(UUID)),
    Case("nvarchar(max)", "nvarchar(max)", quoted(*STRINGS)),
    Case("nvarchar(max)", "nvarchar(3)", quoted("abc"), (("N'abcd'", "length"),)),
    Case("varchar(40)", "nvarchar(40)", quoted("naïve €", *SHORT)),
    Case("nvarchar(40)", "varchar(40)", quoted(*SHORT), ASCII_ONLY),
    Case("varchar(40)", "varchar(40)", quoted(*SHORT), ASCII_ONLY),
    *(Case(source, target, (("'ab'", "ab  "),)) for source in ("char(4)", "nchar(4)")
      for target in ("nvarchar(4)", "varchar(4)")),
    Case("nchar(4)", "nchar(4)", (("N'é'", "é   "),)),
    Case("char(4)", "nchar(4)", (("'ab'", "ab  "),)),
    Case("char(4)", "char(4)", (("'ab'", "ab  "),), (("'é'", "codepage"),)),
    Case("varbinary(max)", "varbinary(max)", BINARY),
    Case("varbinary(max)", "varbinary(2)", BINARY[:2], (("0x000000", "length"),)),
    Case("binary(4)", "varbinary(4)", BINARY[2:]),
    Case("binary(4)", "binary(4)", BINARY[2:]),
    Case("varbinary(max)", "binary(4)", BINARY[2:], (("0x00", "length"),)),
    Case("datetimeoffset(6)", "nvarchar(41)",
         (("'2024-01-01T12:00:00.123456+05:30'", "2024-01-01 12:00:00.123456 +05:30"),),
         representation=TO_TEXT),
)  # fmt: skip
