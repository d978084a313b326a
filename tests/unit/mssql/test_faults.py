"""Translating driver errors by explicit number, without any row content."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_dagster.campaign.errors import ConnectionLost, DponeError, Interrupted, ServerFull, TransientFailure
from dpone_dagster.mssql.bulk import BulkRefused, _translated
from dpone_dagster.mssql.faults import ServerError, has_spoken, is_lost, takes_no_connection_now, translate

_DRIVER = "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]"


def error(state: str, text: str) -> Any:
    """An error as pyodbc raises it."""
    return Exception(state, f"[{state}] {text}")


@pytest.mark.parametrize(
    ("state", "text", "kind"),
    [
        ("40001", f"{_DRIVER}Transaction was deadlocked (1205) (SQLExecDirectW)", TransientFailure),
        ("42000", f"{_DRIVER}Lock request time out period exceeded. (1222) (SQLExecDirectW)", TransientFailure),
        (
            "HYT00",
            "[Microsoft][ODBC Driver 18 for SQL Server]Query timeout expired (0) (SQLExecDirectW)",
            TransientFailure,
        ),
        ("HY008", "[Microsoft][ODBC Driver 18 for SQL Server]Operation canceled (0) (SQLExecDirectW)", Interrupted),
        (
            "08S01",
            "[Microsoft][ODBC Driver 18 for SQL Server]Communication link failure (0) (SQLExecute)",
            ConnectionLost,
        ),
        (
            "HY000",
            f"{_DRIVER}Cannot continue, the session is in the kill state. (596) (SQLExecDirectW)",
            ConnectionLost,
        ),
        ("HY000", "Attempt to use a closed connection.", ConnectionLost),
        ("42000", f"{_DRIVER}The transaction log for database 'dwh' is full. (9002) (SQLExecDirectW)", ServerFull),
        ("42000", f"{_DRIVER}Could not allocate space for object 'dbo.t'. (1105) (SQLExecDirectW)", ServerFull),
        ("42S02", f"{_DRIVER}Invalid object name 'x'. (208) (SQLExecDirectW)", ServerError),
    ],
)
def test_each_error_has_its_class(state: str, text: str, kind: type[DponeError]) -> None:
    found = translate(error(state, text))
    assert type(found) is kind
    assert found.retryable is (kind in (TransientFailure, ConnectionLost))
    assert is_lost(error(state, text)) is (kind is ConnectionLost)


def test_the_number_of_a_server_error_is_kept() -> None:
    found = translate(error("23000", f"{_DRIVER}Violation of PRIMARY KEY constraint 'pk'. (2627) (SQLExecDirectW)"))
    assert isinstance(found, ServerError)
    assert (found.number, found.message) == (2627, "2627: Violation of PRIMARY KEY constraint 'pk'.")


def test_a_number_in_the_text_is_not_the_errors() -> None:
    found = translate(error("42000", f"{_DRIVER}Incorrect value near (1205). (102) (SQLExecDirectW)"))
    assert isinstance(found, ServerError)
    assert found.number == 102


@pytest.mark.parametrize(
    "text",
    [
        "Cannot insert duplicate key in object 'orders'. The duplicate key value is (Hopper, 7). (2627) (SQLExecute)",
        "String data would be truncated in table 'x', column 'note'. Truncated value: 'Hopper'. (2628) (SQLExecute)",
        "Conversion failed when converting the nvarchar value 'Hopper' to data type int. (245) (SQLExecute)",
    ],
)
def test_row_content_is_never_told(text: str) -> None:
    assert "Hopper" not in translate(error("23000", _DRIVER + text)).message


@pytest.mark.parametrize(
    ("state", "text", "not_now"),
    [
        ("08001", "[Microsoft][ODBC Driver 18 for SQL Server]TCP Provider: Error code 0x2749 (10057)", True),
        ("HYT00", "[Microsoft][ODBC Driver 18 for SQL Server]Login timeout expired (0) (SQLDriverConnect)", True),
        (
            "42000",
            f"{_DRIVER}The server is not ready for new connections. (17187) (SQLDriverConnect)",
            True,
        ),
        ("42000", f"{_DRIVER}Database 'x' is being recovered. (922) (SQLDriverConnect)", True),
        (
            "42000",
            f"{_DRIVER}The database 'x' is participating in an availability group. (976) (SQLDriverConnect)",
            True,
        ),
        ("28000", f"{_DRIVER}Login failed for user 'x'. (18456) (SQLDriverConnect)", False),
        ("42000", f"{_DRIVER}Cannot open database 'x' requested by the login. (4060) (SQLDriverConnect)", False),
        ("08001", "[Microsoft][ODBC Driver 18 for SQL Server]SSL Provider: certificate verify failed (-1)", False),
        ("08001", "[Microsoft][ODBC Driver 18 for SQL Server]Encryption not supported on SQL Server. (20)", False),
        ("08004", f'{_DRIVER}database "x" does not exist (911) (SQLDriverConnect)', False),
    ],
)
def test_a_login_is_refused_or_not_taken_now(state: str, text: str, not_now: bool) -> None:
    assert takes_no_connection_now(error(state, text)) is not_now


def test_what_the_driver_says_by_itself_is_not_the_servers_word() -> None:
    assert has_spoken(error("40001", f"{_DRIVER}Transaction was deadlocked (1205) (SQLExecDirectW)"))
    driver = "[Microsoft][ODBC Driver 18 for SQL Server]"
    assert not has_spoken(error("HY000", f"{driver}Protocol error in TDS stream (0) (SQLExecDirectW)"))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Sql Error: 9002, the transaction log for database 'dwh' is full", ServerFull),
        ("Sql Error: 1105, could not allocate space", ServerFull),
        ("Sql Error: 1205, deadlock", TransientFailure),
        ("IO error: os error 104", ConnectionLost),
        ("Sql Error: 229, the INSERT permission was denied", BulkRefused),
    ],
)
def test_only_a_refusal_of_bulk_copy_sends_rows_another_way(said: str, kind: type[DponeError]) -> None:
    assert type(_translated(RuntimeError(said))) is kind
