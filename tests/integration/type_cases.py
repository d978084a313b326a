"""Cases of the type table: pairs of types with values at the edges of the first."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_dagster.campaign.contract import ColumnOption

NO_OPTION = ColumnOption()
LONG = "x" * 70_000  # more than one page, so that TOAST is on the way


@dataclass(frozen=True)
class Case:
    """A pair of types; `good` values arrive, each `bad` one stops the chunk with its reason.

    `arrives` is what a value becomes where its text form is another one.
    """

    source: str
    target: str
    good: tuple[str, ...]
    bad: tuple[tuple[str, str], ...] = ()
    arrives: tuple[tuple[str, str], ...] = ()
    option: ColumnOption = NO_OPTION

    def __str__(self) -> str:
        return f"{self.source} → {self.target}"


AS_TEXT, AS_JSON = ColumnOption(representation="text"), ColumnOption(representation="json")
INT2, INT4, INT8 = ("-32768", "0", "32767"), ("-2147483648", "2147483647"), (str(-(2**63)), str(2**63 - 1))
STRINGS = ("", " ", "a", "naïve", "😀🀄", "e\u0301", "tab\tnew\nline\\N", "'\"%s{x}", "\x01\x7f", LONG)
WIDE = ("0", "-1.5", "1e-30", "12345678901234567890123456789012345678901.5", "NaN", "Infinity", "-Infinity", "1.500")
DATES = ("0001-01-01", "9999-12-31", "4713-01-01 BC", "5874897-12-31", "infinity", "-infinity", "2024-02-29")
MOMENTS = (
    "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "4713-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999",
    "infinity", "-infinity", "1999-12-31 23:59:60", "2024-03-31 02:30:00.000001",
)  # fmt: skip
ZONED = (*MOMENTS, "1850-01-01 00:00:00+05:53:28", "2024-01-01 00:00:00-15:59:59", "2024-01-01 12:00 Asia/Kathmandu")
TIMES = ("00:00:00", "23:59:59.999999", "24:00:00", "12:34:56.7")
ZONED_TIMES = (*(f"{time}+00" for time in TIMES), "00:00:00+15:59:59", "24:00:00-15:59:59", "12:00:00+05:53:28")
SPANS = ("0", "1 mon 3 days", "-178000000 years", "178000000 years", "-00:00:00.000001", "1 day -01:00:00", "infinity")
DOUBLES = ("0", "-0", "NaN", "Infinity", "-Infinity", "5e-324", "1.7976931348623157e308", "0.1", "1e22")
FLOATS = ("0", "-0", "NaN", "Infinity", "-Infinity", "1e-45", "3.4028235e38", "16777217")
JSONS = ('{"a": 1, "a": 2,  "b": 1.50}', '"\\u0000"', '"\\ud83d\\ude00"', "null", "1e400", "[]", '""', '{"": ""}')
JSONBS = ('{"b": 1.50, "a": [null, true]}', '"\\ud83d\\ude00"', "null", '""', "123456789012345678901234567890.10")
UUIDS = (
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
)
INETS, CIDRS = ("0.0.0.0/0", "192.168.1.5/24", "::1", "ffff::/16"), ("0.0.0.0/0", "10.1.0.0/16", "2001:db8::/32")
MACS, MACS8 = ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"), ("00:00:00:00:00:00:00:00", "08:00:2b:01:02:03:04:05")

CASES = (
    Case("bool", "bool", ("true", "false")),
    Case("int2", "int2", INT2),
    Case("int2", "int4", INT2),
    Case("int2", "int8", INT2),
    Case("int2", "float4", INT2),
    Case("int2", "float8", INT2),
    Case("int2", "numeric", INT2),
    Case("int2", "numeric(5,0)", INT2),
    Case("int2", "numeric(4,2)", ("-99", "99", "0"), (("100", "range"), ("-32768", "range")),
         (("-99", "-99.00"), ("99", "99.00"), ("0", "0.00"))),
    Case("int4", "int4", INT4),
    Case("int4", "int8", INT4),
    Case("int4", "float8", INT4),
    Case("int4", "int2", INT2, (("32768", "range"), ("-32769", "range"), ("-2147483648", "range"))),
    Case("int4", "numeric", INT4),
    Case("int4", "numeric(9,0)", ("999999999",), (("1000000000", "range"), ("-2147483648", "range"))),
    Case("int4", "numeric(3,-2)", ("100", "-99900"), (("150", "precision"), ("100000", "range"))),
    Case("int8", "int8", INT8),
    Case("int8", "int4", INT4, ((str(2**31), "range"), (str(-(2**31) - 1), "range"), (INT8[0], "range"))),
    Case("int8", "int2", INT2, (("32768", "range"), (INT8[1], "range"))),
    Case("int8", "numeric", INT8),
    Case("int8", "numeric(19,0)", INT8),
    Case("int8", "numeric(18,0)", ("9" * 18,), (("1" + "0" * 18, "range"), (INT8[0], "range"))),
    Case("float4", "float4", FLOATS),
    Case("float4", "float8", FLOATS, (), (
        ("1e-45", "1.401298464324817e-45"), ("3.4028235e38", "3.4028234663852886e+38"), ("16777217", "16777216"),
    )),
    Case("float8", "float8", DOUBLES),
    Case("numeric", "numeric", WIDE),
    Case("numeric(5,2)", "numeric(5,2)", ("-999.99", "999.99", "0", "NaN")),
    Case("numeric(5,2)", "numeric", ("-999.99", "999.99", "NaN")),
    Case("numeric(5,2)", "numeric(7,4)", ("-999.99", "NaN"), (), (("-999.99", "-999.9900"),)),
    Case("numeric(5,2)", "numeric(4,2)", ("99.99", "NaN"), (("100", "range"), ("-999.99", "range"))),
    Case("numeric(5,2)", "numeric(5,1)", ("99.9", "NaN"), (("99.99", "precision"), ("0.01", "precision")),
         (("99.9", "99.9"),)),
    Case("numeric", "numeric(18,2)", ("9999999999999999.99", "-0.01", "1.50", "NaN"), (
        ("1.2367", "precision"), ("10000000000000000", "range"), ("1e38", "range"), ("Infinity", "infinity"),
        ("-Infinity", "infinity"), ("1e-400", "precision"), ("9999999999999999.999", "precision"),
    )),
    Case("numeric", "numeric(2,5)", ("0.00099", "NaN"), (("0.001", "range"), ("0.000001", "precision")),
         (("0.00099", "0.00099"),)),
    Case("numeric", "numeric(3,-2)", ("99900", "-100"), (("150", "precision"), ("100000", "range"))),
    Case("numeric", "int2", INT2, (("0.5", "precision"), ("NaN", "nan"), ("Infinity", "infinity"), ("32768", "range"))),
    Case("numeric", "int4", INT4, (("2147483648", "range"), ("-2147483649", "range"), ("1e-20", "precision"))),
    Case("numeric", "int8", INT8, ((str(2**63), "range"), (str(-(2**63) - 1), "range"), ("1e38", "range"))),
    Case("numeric(9,0)", "int4", ("999999999",), (("NaN", "nan"),)),
    Case("numeric(4,2)", "int2", ("99.00", "-99"), (("0.01", "precision"), ("NaN", "nan")),
         (("99.00", "99"), ("-99", "-99"))),
    Case("text", "text", STRINGS),
    Case("text", "varchar", STRINGS),
    Case("text", "varchar(3)", ("", "abc", "ab ", "😀😀😀", "🀄🀄"), (
        ("abcd", "length"), ("abc ", "length"), ("😀😀😀😀", "length"),
    )),
    Case("varchar", "text", STRINGS),
    Case("varchar", "varchar", STRINGS),
    Case("varchar(3)", "varchar(5)", ("", "abc", "😀😀😀")),
    Case("varchar(5)", "varchar(3)", ("", "abc"), (("abcd", "length"), ("ab   ", "length"))),
    Case("bpchar(6)", "bpchar(6)", ("abc", "abc   ", "", "😀")),
    Case("bpchar(6)", "bpchar", ("abc", "")),
    Case("name", "name", ("", "x" * 63)),
    Case("name", "text", ("", "x" * 63)),
    Case("name", "varchar(3)", ("abc",), (("abcd", "length"),)),
    Case('"char"', '"char"', ("", "a")),
    Case("bytea", "bytea", ("", "\\x00ff", "\\x" + "ab" * 70_000)),
    Case("uuid", "uuid", UUIDS),
    Case("uuid", "text", UUIDS),
    Case("uuid", "varchar(36)", UUIDS),
    Case("json", "json", JSONS),
    Case("json", "text", JSONS),
    Case("json", "varchar(4)", ("null",), (("1.5e3", "length"),)),
    Case("jsonb", "jsonb", JSONBS),
    Case("jsonb", "json", JSONBS),
    Case("jsonb", "text", JSONBS),
    Case("jsonb", "varchar(4)", ("null",), (("[1,2]", "length"),)),
    Case("jsonpath", "jsonpath", ("$", '$."a b"[*] ? (@ > 1)')),
    Case("tsvector", "tsvector", ("", "'a':1A,2 'it''s':3")),
    Case("tsquery", "text", ("", "'a' & !'b' <2> 'c':*AB"), (), (), AS_TEXT),
    Case("date", "date", DATES),
    Case("time", "time", TIMES),
    Case("time(0)", "time(3)", ("23:59:59", "24:00:00")),
    Case("time", "time(0)", ("23:59:59", "24:00:00"), (("23:59:59.7", "precision"), ("00:00:00.000001", "precision"))),
    Case("timetz", "timetz", ZONED_TIMES),
    Case("timetz", "timetz(3)", ("24:00:00+00", "12:00:00.123+05:53:28"), (("12:00:00.1234-03", "precision"),)),
    Case("timestamp", "timestamp", MOMENTS),
    Case("timestamp", "timestamp(3)", ("infinity", "9999-12-31 23:59:59.999", "4713-11-24 00:00:00.5 BC"), (
        ("294276-12-31 23:59:59.999999", "precision"), ("0001-01-01 00:00:00.0004", "precision"),
        ("1960-01-01 00:00:00.000001", "precision"),
    )),
    Case("timestamptz", "timestamptz", ZONED),
    Case("timestamptz(3)", "timestamptz(3)", ("infinity", "2024-01-01 00:00:00.123+05:45")),
    Case("timestamptz", "timestamptz(0)", ("infinity", "1850-01-01 00:00:00+05:53:28"), (
        ("2024-01-01 00:00:00.5Z", "precision"),
    )),
    Case("interval", "interval", SPANS),
    Case("interval day to second(3)", "interval", ("1 day 00:00:00.123",)),
    Case("interval(3)", "interval(3)", ("1 mon 00:00:00.123",)),
    Case("inet", "inet", INETS),
    Case("inet", "text", INETS),
    Case("inet", "varchar(10)", ("::1",), (("192.168.1.5/24", "length"),)),
    Case("cidr", "cidr", CIDRS),
    Case("cidr", "inet", CIDRS),
    Case("cidr", "text", CIDRS),
    Case("cidr", "varchar(50)", CIDRS),
    Case("macaddr", "macaddr", MACS),
    Case("macaddr", "text", MACS),
    Case("macaddr", "varchar(17)", MACS),
    Case("macaddr8", "macaddr8", MACS8),
    Case("macaddr8", "text", MACS8),
    Case("macaddr8", "varchar(23)", MACS8),
    Case("bit(3)", "bit(3)", ("101", "000")),
    Case("bit(3)", "varbit", ("101", "000")),
    Case("bit(3)", "varbit(2)", (), (("101", "length"),)),
    Case("varbit", "varbit", ("", "1", "01" * 500)),
    Case("varbit", "varbit(2)", ("", "10"), (("100", "length"),)),
    Case("oid", "oid", ("0", "4294967295")),
    Case("pg_lsn", "pg_lsn", ("0/0", "FFFFFFFF/FFFFFFFF")),
    Case("point", "point", ("(0,-0)", "(NaN,Infinity)", "(0.1,5e-324)")),
    Case("line", "line", ("{1,-1,0.1}",)),
    Case("lseg", "lseg", ("[(0,0),(1,0.1)]",)),
    Case("box", "box", ("(1,1),(0,0.1)",)),
    Case("path", "path", ("[(0,0),(1,0.1)]", "((0,0),(1,0.1))")),
    Case("polygon", "polygon", ("((0,0),(1,0.1),(1,0))",)),
    Case("circle", "circle", ("<(0,0.1),2>",)),
    Case("int4range", "int4range", ("empty", "(,)", "[-2147483648,2147483647)")),
    Case("int8range", "int8range", ("empty", f"[{INT8[0]},{INT8[1]})")),
    Case("numrange", "numrange", ("empty", "(0.10,1.500]", "[-Infinity,NaN]")),
    Case("tsrange", "tsrange", ("empty", "[-infinity,infinity]", '["4713-11-24 00:00:00 BC",)')),
    Case("tstzrange", "tstzrange", ("empty", '["0001-01-01 00:00:00+00","9999-12-31 23:59:59.999999+00")')),
    Case("daterange", "daterange", ("empty", "[0001-01-01,9999-12-31)", "(,infinity)")),
    Case("int4multirange", "int4multirange", ("{}", "{[1,2),[5,9)}")),
    Case("int8multirange", "int8multirange", ("{}", "{[1,2),[5,9)}")),
    Case("nummultirange", "nummultirange", ("{}", "{(0.10,1.500]}")),
    Case("tsmultirange", "tsmultirange", ("{}", '{["2024-01-01 00:00:00","2024-01-02 00:00:00")}')),
    Case("tstzmultirange", "tstzmultirange", ("{}", '{["2024-01-01 00:00:00+00","2024-01-02 00:00:00+00")}')),
    Case("datemultirange", "datemultirange", ("{}", "{[2024-01-01,2024-02-01)}")),
    Case("xml", "xml", ("<a b='1'>ü</a>",)),
    Case("xml", "text", ("<a b='1'>ü</a>",)),
    Case("xml", "varchar(50)", ("<a b='1'>ü</a>",)),
    # arrays
    Case("int4[]", "int4[]", ("{}", "{NULL}", "{{1,2},{3,4}}", "[0:1]={5,6}")),
    Case("int4[]", "int8[]", ("{}", "{NULL,-2147483648}", "[0:1]={5,6}")),
    Case("text[]", "varchar[]", ("{}", '{"",NULL,"NULL","a,b","😀"}')),
    Case("numeric(5,2)[]", "numeric(7,4)[]", ("{1.5,NaN}",), (), (("{1.5,NaN}", "{1.5000,NaN}"),)),
    Case("bpchar(3)[]", "bpchar(3)[]", ("{a,bc}",)),
    Case("timestamptz[]", "timestamptz[]", ("{infinity,NULL}",)),
    # what only a representation, or its text, can hold
    Case("src.mood", "text", ("sad", "it's 😀")),
    Case("src.mood", "varchar(3)", ("sad",), (("it's 😀", "length"),)),
    Case("src.mood", "json", ("sad",), (), (("sad", '"sad"'),), AS_JSON),
    Case("interval", "text", SPANS, (), (), AS_TEXT),
    Case("money", "text", ("$1.50",), (), (), AS_TEXT),
    Case("regclass", "text", ("pg_class",), (), (), AS_TEXT),
    Case("bpchar(6)", "text", ("abc",), (), (), AS_TEXT),
    Case("int4[]", "text", ("{}", "{1,NULL}"), (), (), AS_TEXT),
    Case("int4[]", "varchar(4)", ("{1}",), (("{1,2}", "length"),), (), AS_TEXT),
    Case("int4[]", "jsonb", ("{{1,2},{3,4}}", "{NULL}"), (), (
        ("{{1,2},{3,4}}", "[[1, 2], [3, 4]]"), ("{NULL}", "[null]"),
    ), AS_JSON),
    Case("src.pair", "text", ('(1,"a b")', "(,)"), (), (), AS_TEXT),
    Case("src.pair", "json", ('(1,"a b")',), (), (('(1,"a b")', '{"a":1,"b":"a b"}'),), AS_JSON),
    Case("src.mood[]", "text", ("{sad,NULL}",), (), (), AS_TEXT),
    # a domain is what it is made of
    Case("src.cents", "numeric(5,2)", ("1.50", "NaN")),
    Case("src.cents", "numeric(3,2)", ("1.50",), (("10.00", "range"),)),
    Case("numeric(5,2)", "src.cents", ("1.50",)),
)  # fmt: skip
