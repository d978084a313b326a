"""Which columns can mark deleted rows."""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.contract import Column, ColumnBinding, ColumnContract, ColumnType
from dpone_dagster.campaign.deletion import DeleteMark, delete_mark
from dpone_dagster.campaign.errors import DeleteMarkUnsuitable

CONTRACT = ColumnContract((ColumnBinding("id", "id", "bigint", "bigint"),), ("id",))


def column(type_name: str, *, nullable: bool = True, has_default: bool = False, name: str = "gone") -> Column:
    return Column(name, ColumnType(type_name), nullable, has_default)


@pytest.mark.parametrize("name", ["timestamptz", "timestamp", "datetime2", "datetimeoffset"])
def test_a_time_marks_by_when(name: str) -> None:
    assert delete_mark("gone", [column(name)], CONTRACT) == DeleteMark("gone", "time")


@pytest.mark.parametrize("name", ["bool", "bit"])
def test_a_flag_marks_by_yes(name: str) -> None:
    assert delete_mark("gone", [column(name)], CONTRACT) == DeleteMark("gone", "flag")


def test_where_rows_are_deleted_nothing_marks_them() -> None:
    assert delete_mark(None, [], CONTRACT) is None


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(DeleteMarkUnsuitable, match="cannot mark") as caught:
        delete_mark("id", [column("int8", nullable=False, has_default=True, name="id")], CONTRACT)
    assert len(caught.value.findings) == 4
    assert all(finding.advice for finding in caught.value.findings)


def test_names_are_compared_exactly() -> None:
    with pytest.raises(DeleteMarkUnsuitable, match="no column `Gone`"):
        delete_mark("Gone", [column("bool")], CONTRACT)
