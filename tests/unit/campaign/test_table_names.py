"""The text of a table is a key of its history and its locks, so two tables never share one."""

from dpone_dagster.campaign.names import TableRef


def test_no_two_tables_have_one_text() -> None:
    names = ["a", "b", "a.b", "b.c", "c", '"a', 'b"', '"a.b"', 'a"."b', "."]
    tables = [TableRef(schema, name) for schema in names for name in names]
    assert len(set(map(str, tables))) == len(tables)


def test_an_ordinary_table_is_as_it_was() -> None:
    assert str(TableRef("landing", "Orders 2")) == "landing.Orders 2"
