"""How a row that vanished from the source leaves the target: it is deleted, or a column of the target marks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dpone_dagster.campaign.contract import Column, ColumnContract
from dpone_dagster.campaign.errors import DeleteMarkUnsuitable, Finding

DeleteMode = Literal["hard", "soft"]
_TIMES = frozenset({"timestamptz", "timestamp", "datetime2", "datetimeoffset"})
_FLAGS = frozenset({"bool", "bit"})


@dataclass(frozen=True)
class DeleteMark:
    """The column of the target that marks rows whose key the source no longer has.

    Attributes:
        column: Nullable and not loaded from the source. NULL stands for a row that the source has.
        kind: `time` holds when the row was found gone, in UTC; `flag` holds true.
    """

    column: str
    kind: Literal["time", "flag"]


def delete_mark(column: str | None, target: Sequence[Column], contract: ColumnContract) -> DeleteMark | None:
    """The mark of a target, proven to be able to hold it.

    Args:
        column: As the manifest names it; None where rows are deleted.
        target: Columns of the live table.
        contract: The columns that are loaded.

    Raises:
        DeleteMarkUnsuitable: It cannot hold it; everything that is wrong.
    """
    if column is None:
        return None
    found = next((candidate for candidate in target if candidate.name == column), None)
    if found is None:
        raise DeleteMarkUnsuitable(f"the target has no column `{column}`")
    loaded = {binding.target for binding in contract.columns}
    checks = (
        (column in loaded, "is loaded from the source", "name a column that the source does not have"),
        (found.type.name not in _TIMES | _FLAGS, f"is a {found.type}", "make it a timestamp or a boolean"),
        (not found.nullable, "is NOT NULL", "allow NULL, which stands for a row that the source has"),
        (found.has_default, "has a default, which would mark new rows", "drop the default"),
    )
    findings = [Finding(f"target.{column}", problem, advice) for wrong, problem, advice in checks if wrong]
    if findings:
        raise DeleteMarkUnsuitable(f"`{column}` cannot mark deleted rows", findings=findings)
    return DeleteMark(column, "time" if found.type.name in _TIMES else "flag")
