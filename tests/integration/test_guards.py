"""Guards inside the COPY: a value without an exact home names its column, reason and row, and never its content."""

from __future__ import annotations

import hashlib

import pytest

from dpone_dagster.campaign.contract import ColumnBinding, ColumnContract, ColumnOption, Guard
from dpone_dagster.campaign.errors import DponeError, ValueNotRepresentable
from dpone_dagster.campaign.names import TableRef
from dpone_dagster.postgres.projection import projection
from dpone_dagster.postgres.source import PostgresSource
from tests.integration.transfer import Transfer, execute, texts

SOURCE, TARGET = TableRef('s.%s"q', "select"), TableRef('d.%s"q', "{x}")
ODD_NAMES = (
    "select",
    "a]b",
    "it's",
    'q"q',
    "%s",
    "%(x)s",
    "{x}",
    "日本語",
    "a:b:c",
    "back\\slash",
    "new\nline",
    "xmin_",
    "ID",
)
SECRET = "987654.321"


def tables(url: str, source_columns: str, target_columns: str, *rows: str) -> Transfer:
    source, target = ('"s.%s""q"."select"', '"d.%s""q"."{x}"')
    execute(
        url,
        'CREATE SCHEMA "s.%s""q"',
        'CREATE SCHEMA "d.%s""q"',
        f"CREATE TABLE {source} (id int PRIMARY KEY, {source_columns})",
        f"CREATE TABLE {target} (id int PRIMARY KEY, {target_columns})",
        *(f"INSERT INTO {source} VALUES ({row})" for row in rows),
    )
    return Transfer(url, SOURCE, url, TARGET)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def keyed(text: str) -> str:
    return hashlib.sha256(bytes.fromhex("00ff") + text.encode()).hexdigest()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_column_may_have_any_name(database: str, name: str) -> None:
    transfer = tables(database, f"{quoted(name)} numeric", f"{quoted(name)} numeric(5,2)", "1, 1.25", "2, NULL")

    transfer.run()

    assert texts(database, TARGET, quoted(name)) == {1: "1.25", 2: None}


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_refused_value_names_its_column_whatever_its_name(database: str, name: str) -> None:
    transfer = tables(database, f"{quoted(name)} numeric", f"{quoted(name)} numeric(5,2)", "7, 1.257")

    with pytest.raises(ValueNotRepresentable) as caught:
        transfer.run()

    (finding,) = caught.value.findings
    assert finding.path == f"source.{name}"
    assert finding.problem == f"precision, in the row with key digest {keyed('7')}"


def test_nothing_of_the_content_gets_out(database: str) -> None:
    transfer = tables(database, "v numeric, w text", "v numeric(5,2), w text", f"1, {SECRET}, 'hidden'")

    with pytest.raises(ValueNotRepresentable) as caught:
        transfer.run()

    error: BaseException | None = caught.value
    assert isinstance(error, ValueNotRepresentable)
    shown = f"{error}{error!r}{error.as_dict()}"
    while error is not None:  # what a log would print below it
        shown += f"{error}{error!r}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert SECRET not in shown
    assert "hidden" not in shown
    assert "22P02" not in shown


def test_a_value_that_the_server_itself_stumbles_over_is_not_quoted(database: str) -> None:
    tables(database, "v int", "v int", "1, 5")
    execute(
        database,
        "CREATE FUNCTION public.f(int) RETURNS int LANGUAGE sql AS $$ SELECT ('hidden ' || $1)::int $$",
        f'CREATE VIEW public.v AS SELECT id, public.f(v) AS v FROM {quoted(SOURCE.schema)}."select"',
        f'ALTER TABLE {quoted(TARGET.schema)}."{TARGET.name}" DROP CONSTRAINT "{{x}}_pkey", ALTER id DROP NOT NULL',
    )

    with pytest.raises(DponeError) as caught:
        Transfer(database, TableRef("public", "v"), database, TARGET).run()

    assert "22P02" in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_the_row_is_named_by_its_whole_key(database: str) -> None:
    execute(
        database,
        "CREATE TABLE t (id int, part text, v numeric, PRIMARY KEY (id, part))",
        "INSERT INTO t VALUES (3, 'a|b~', 'NaN')",
    )
    contract = ColumnContract(
        (
            ColumnBinding("id", "id", "integer", "integer"),
            ColumnBinding("part", "part", "text", "text"),
            ColumnBinding("v", "v", "numeric", "integer", "int4", (Guard("nan", "nan"),)),
        ),
        ("id", "part"),
    )
    table = TableRef("public", "t")
    source = PostgresSource(database, "test")
    transfer = Transfer(database, table, database, table)
    digest = source.describe(table, None).digest

    with (
        pytest.raises(ValueNotRepresentable) as caught,
        source.read_chunk(transfer.read_of(contract, digest)) as stream,
    ):
        list(stream)

    source.close()
    assert caught.value.findings[0].problem.endswith(keyed("3|a~1b~0"))


def test_the_first_guard_that_fails_is_the_reason(database: str) -> None:
    transfer = tables(database, "v numeric", "v numeric(5,2)", "1, 123456.789")

    with pytest.raises(ValueNotRepresentable, match=r"\(range\)"):
        transfer.run()


def test_only_rows_of_the_chunk_are_looked_at(database: str) -> None:
    transfer = tables(database, "v numeric", "v numeric(5,2)", "1, 1", "5000, 'NaN'", "5001, 1e9")

    source = PostgresSource(database, "test")

    transfer.load(source)

    source.close()
    assert texts(database, TARGET) == {1: "1.00"}


def test_guards_are_silent_over_an_empty_table(database: str) -> None:
    assert tables(database, "v numeric", "v numeric(5,2)").run() == {}


def test_replaced_values_are_counted_a_column(database: str) -> None:
    transfer = tables(
        database,
        "a numeric, b numeric, c text, d int",
        "a numeric(5,2), b numeric(5,2), c varchar(2), d int",
        "1, 'Infinity', 1, 'abc', 1",
        "2, 1.234, NULL, 'abcd', 2",
        "3, NULL, 3, 'ab', NULL",
    )
    transfer.options = {name: ColumnOption("null") for name in ("a", "b", "c", "d")}

    assert transfer.run() == {"a": 2, "b": 0, "c": 2}
    assert texts(database, TARGET, "(a, b, c, d)") == {1: "(,1.00,,1)", 2: "(,,,2)", 3: "(,3.00,ab,)"}


def test_a_digest_of_the_content_stops_at_a_bad_value_too(database: str) -> None:
    transfer = tables(database, "v numeric", "v numeric(5,2)", f"1, {SECRET}")
    source = PostgresSource(database, "test")
    contract, _ = transfer.match(source)

    with pytest.raises(ValueNotRepresentable) as caught:
        source.content_digest(SOURCE, contract)

    source.close()
    assert keyed("1") not in str(caught.value)
    assert hashlib.sha256(b"1").hexdigest() not in str(caught.value)


@pytest.mark.parametrize("cast", ["int4; DROP TABLE t", "no_such(1", "Text", 'x"y', "int4[][]", ""])
def test_a_cast_that_the_program_does_not_make_is_not_executed(cast: str) -> None:
    contract = ColumnContract((ColumnBinding("id", "id", "integer", "integer", cast),), ("id",))

    with pytest.raises(DponeError, match="a cast that this program does not make"):
        projection(contract, "00")


def test_a_check_that_is_not_known_is_not_left_out() -> None:
    guard = Guard("odd", "no_such_check")
    contract = ColumnContract((ColumnBinding("id", "id", "integer", "integer", None, (guard,)),), ("id",))

    with pytest.raises(DponeError, match="no_such_check"):
        projection(contract, "00")
