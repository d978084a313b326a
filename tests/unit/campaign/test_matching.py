"""Columns find their exact homes by name, or everything that is wrong is said at once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dpone_dagster.campaign.chunkbounds import chunk_bound_type
from dpone_dagster.campaign.contract import Column, ColumnContract, ColumnOption, ColumnType, Guard, Representation
from dpone_dagster.campaign.errors import ColumnContractRefused, Finding
from dpone_dagster.campaign.homes import Home, NoHome
from dpone_dagster.campaign.matching import match_columns
from dpone_dagster.campaign.plan import ChunkKind
from dpone_dagster.campaign.typetable_postgres import POSTGRES


def column(name: str, type_name: str = "int4", *args: int, nullable: bool = True, has_default: bool = False) -> Column:
    return Column(name, ColumnType(type_name, args), nullable, has_default)


ID = column("id", "int8", nullable=False)


def match(
    source: tuple[Column, ...],
    target: tuple[Column, ...],
    options: Mapping[str, ColumnOption] | None = None,
    wanted: tuple[str, ...] | None = None,
    key: tuple[str, ...] = ("id",),
) -> ColumnContract:
    return match_columns(source, target, options=options or {}, wanted=wanted, key=key, find_home=POSTGRES.home)


def findings(
    source: tuple[Column, ...],
    target: tuple[Column, ...],
    options: Mapping[str, ColumnOption] | None = None,
    wanted: tuple[str, ...] | None = None,
    key: tuple[str, ...] = ("id",),
) -> tuple[Finding, ...]:
    with pytest.raises(ColumnContractRefused) as caught:
        match(source, target, options, wanted, key)
    assert all(finding.advice for finding in caught.value.findings)
    return caught.value.findings


def test_columns_are_bound_by_name_in_the_order_of_the_target() -> None:
    contract = match((ID, column("a"), column("b", "text")), (column("b", "varchar", 9), ID, column("a", "int8")))

    assert [(c.source, c.target, c.cast, c.fidelity) for c in contract.columns] == [
        ("b", "b", None, "guarded"),
        ("id", "id", None, "lossless"),
        ("a", "a", "int8", "lossless"),
    ]
    assert contract.key == ("id",)
    assert contract.columns[0].guards == (Guard("length", "characters", (9,)),)


def test_only_wanted_columns_are_loaded() -> None:
    contract = match((ID, column("a"), column("b", "money")), (ID, column("a"), column("c")), wanted=("a", "id"))

    assert [c.source for c in contract.columns] == ["id", "a"]


def test_a_target_column_that_nothing_fills_needs_null_or_a_default() -> None:
    extra = (column("n"), column("d", nullable=False, has_default=True), column("x", nullable=False))

    assert [f.path for f in findings((ID,), (ID, *extra))] == ["target.x"]


def test_names_are_compared_exactly() -> None:
    found = findings((ID, column("Note"), column("note")), (ID, column("note")))

    assert [f.path for f in found] == ["source.Note"]
    assert "`note`" in found[0].advice


def test_nullable_does_not_go_into_not_null() -> None:
    found = findings((ID, column("a")), (ID, column("a", nullable=False)))

    assert [f.path for f in found] == ["source.a"]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = findings(
        (ID, column("a", "float8"), column("b", "interval"), column("lost")),
        (ID, column("a", "float4", nullable=False), column("b", "text"), column("x", nullable=False)),
        options={"amuont": ColumnOption(), "a": ColumnOption(on_bad_value="null")},
        wanted=("id", "a", "b", "lost", "gone", "b"),
        key=("id", "key2"),
    )

    assert sorted(f.path for f in found) == [
        "sink.columns.a",
        "sink.columns.amuont",
        "sink.strategy.unique_key.key2",
        "source.a",
        "source.a",
        "source.b",
        "source.columns.b",
        "source.columns.gone",
        "source.lost",
        "target.x",
    ]


def test_the_name_that_was_probably_meant_is_named() -> None:
    amount = column("amount")

    (found,) = findings((ID, amount), (ID, amount), options={"amuont": ColumnOption()})

    assert found.advice == "did you mean `amount`?"


def test_an_option_of_a_column_that_is_not_loaded_is_refused() -> None:
    found = findings((ID, column("a")), (ID, column("a")), options={"a": ColumnOption()}, wanted=("id",))

    assert [f.path for f in found] == ["sink.columns.a"]


def test_a_key_is_never_set_to_null() -> None:
    target = column("id", "int4", nullable=True)

    found = findings((ID,), (target,), options={"id": ColumnOption(on_bad_value="null")})

    assert [f.path for f in found] == ["sink.columns.id"]


def test_another_pair_of_servers_brings_its_own_table() -> None:
    def nowhere(source: ColumnType, target: ColumnType, representation: Representation | None) -> Home | NoHome:
        return NoHome(f"{source}, {target}, {representation}", "none")

    with pytest.raises(ColumnContractRefused) as caught:
        match_columns((ID,), (ID,), options={}, wanted=None, key=("id",), find_home=nowhere)

    assert caught.value.findings == (Finding("source.id", "int8, int8, None", "none"),)


def test_the_contract_survives_as_plain_data() -> None:
    contract = match((ID, column("a", "numeric")), (ID, column("a", "numeric", 5, 2)))

    assert ColumnContract.from_dict(contract.as_dict()) == contract


@pytest.mark.parametrize(
    ("source", "target", "checks"),
    [
        (("numeric",), ("numeric", 5, 2), ["infinity", "digits", "scale"]),
        (("numeric", 5, 2), ("numeric", 6, 2), []),
        (("numeric", 5, 2), ("numeric", 5, 1), ["scale"]),
        (("numeric", 5, 2), ("numeric", 5, 3), ["digits"]),
        (("numeric", 4, 0), ("int2",), ["nan"]),
        (("numeric", 5, 0), ("int2",), ["nan", "range"]),
        (("numeric", 3, -2), ("int2",), ["nan", "range"]),
        (("int2",), ("numeric", 5, 0), []),
        (("int2",), ("numeric", 5, 1), ["digits"]),
        (("varchar", 3), ("varchar", 3), []),
        (("varchar",), ("varchar", 3), ["characters"]),
        (("timestamp", 3), ("timestamp",), []),
        (("timestamp",), ("timestamp", 6), []),
        (("timestamp", 4), ("timestamp", 3), ["microseconds"]),
    ],
)
def test_a_value_is_guarded_only_where_its_type_does_not_say_enough(
    source: tuple[str, *tuple[int, ...]], target: tuple[str, *tuple[int, ...]], checks: list[str]
) -> None:
    home = POSTGRES.home(ColumnType(source[0], source[1:]), ColumnType(target[0], target[1:]), None)

    assert isinstance(home, Home)
    assert [guard.check for guard in home.guards] == checks


@pytest.mark.parametrize(
    ("kind", "column_type", "bound"),
    [
        ("uuid", ColumnType("uuid"), "uuid"),
        ("uuid", ColumnType("text"), None),
        ("integer", ColumnType("int2"), "int8"),
        ("integer", ColumnType("numeric", (20, 0)), "numeric"),
        ("integer", ColumnType("numeric", (20, 1)), None),
        ("integer", ColumnType("numeric"), None),
        ("integer", ColumnType("_int8", (), "array"), None),
        ("date", ColumnType("timestamptz"), "timestamptz"),
        ("date", ColumnType("timestamp"), "timestamp"),
        ("date", ColumnType("date"), "date"),
        ("date", ColumnType("time"), None),
        ("timestamp", ColumnType("timestamp"), "timestamp"),
        ("timestamp", ColumnType("date"), "timestamp"),
        ("timestamp", ColumnType("int8"), None),
    ],
)
def test_a_column_is_cut_only_into_chunks_that_leave_nothing_out(
    kind: ChunkKind, column_type: ColumnType, bound: str | None
) -> None:
    assert chunk_bound_type(kind, column_type) == bound
