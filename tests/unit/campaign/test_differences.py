"""What differs between two catalogs is named by its path."""

from __future__ import annotations

import pytest

from dpone_dagster.campaign.differences import differences


def column(name: str, kind: str) -> dict[str, object]:
    return {"name": name, "type": kind}


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, ["a.c"]),
        ({"a": 1}, {"b": 1}, ["a", "b"]),
        ({"columns": [column("id", "int")]}, {"columns": [column("id", "text")]}, ["columns.id.type"]),
        ({"columns": []}, {"columns": [column("more", "int")]}, ["columns.more"]),
        (
            {"columns": [column("a", "int"), column("b", "int")]},
            {"columns": [column("b", "int"), column("a", "int")]},
            ["columns, their order"],
        ),
        ({"indexes": [{"name": None}]}, {"indexes": [{"name": None}, {"name": None}]}, ["indexes"]),
        ({"keys": [["id", True]]}, {"keys": [["id", False]]}, ["keys"]),
    ],
)
def test_each_difference_is_named(old: object, new: object, paths: list[str]) -> None:
    assert differences(old, new) == paths
