"""What `sp_getapplock` answers: it never raises, so a code that is not read is a lock that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpone_dagster import mssql
from dpone_dagster.campaign.errors import DponeError, Interrupted, TransientFailure
from dpone_dagster.mssql.locks import granted

# May go with the codes: it tells in whose session the server did it.
SESSION = "CAST(@@SPID AS int)"


@pytest.mark.parametrize(("code", "given"), [(0, True), (1, True), (-1, False)])
def test_a_lock_is_given_or_not_free(code: int, given: bool) -> None:
    assert granted(code, "the lock") is given


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (-2, Interrupted, "cancelled"),
        (-3, TransientFailure, "deadlock victim"),
        (-999, DponeError, "a parameter was wrong"),
        (-4, DponeError, "not documented"),
        (2, DponeError, "not documented"),
        (None, DponeError, "not documented"),
    ],
)
def test_every_other_code_stops(code: int | None, kind: type[DponeError], words: str) -> None:
    with pytest.raises(DponeError, match=words) as caught:
        granted(code, "the lock")
    assert type(caught.value) is kind


def test_every_call_hands_its_code_on() -> None:
    for path in Path(mssql.__file__).parent.glob("*.sql"):
        for block in re.split(r"^-- name: ", path.read_text(), flags=re.MULTILINE)[1:]:
            calls = re.findall(r"EXEC\s+(?:/\*.*?\*/\s+)?(\S+)\s+=\s+sp_getapplock|sp_getapplock", block)
            selected = re.search(r"^SELECT (.*)$", block, re.MULTILINE)
            handed_on = set(selected[1].split(", ")) if selected and calls else set()
            assert set(calls) == handed_on - {SESSION}, block
